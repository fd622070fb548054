"""What probes have found out, pod by pod: the sync loop writes it down, status and plan read it."""

from collections.abc import Collection

from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.probe_results import NO_PROBES, ProbeKind, ProbeResults, Result, only


class ProbeResultsStore:
    """Of every container the newest result of each of its probes. No method waits."""

    def __init__(self) -> None:
        self._by_uid: dict[str, ProbeResults] = {}

    def of(self, uid: str) -> ProbeResults:
        return self._by_uid.get(uid, NO_PROBES)

    def set(self, uid: str, kind: ProbeKind, container_id: str, result: Result) -> bool:
        """-> whether that is news."""
        results = self.of(uid)
        before = getattr(results, kind)
        if before.get(container_id) is result:
            return False
        self._by_uid[uid] = changed(results, **{kind: {**before, container_id: result}})
        return True

    def keep(self, uid: str, container_ids: Collection[str]) -> None:
        """The pod's other containers are gone."""
        if uid in self._by_uid:
            self._by_uid[uid] = only(self._by_uid[uid], container_ids)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._by_uid.pop(uid, None)

"""How long pods take to start, in the way that the pod-startup SLI counts: from the pod's creation until its containers
are reported to run, with and without what the cluster is not to blame for, image pulls and init containers."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.pod.observed import ObservedPod

_STATELESS: Final = ("secret", "config_map", "downward_api", "empty_dir", "projected")


class Start(NamedTuple):
    total: float
    sli: float | None
    """Without pulls and init containers; None for a stateful pod, which the SLI does not count."""


class _Tracked:
    def __init__(self) -> None:
        self.pulls: list[tuple[datetime, datetime]] = []
        self.pulling: list[datetime] = []
        self.seen: ObservedPod | None = None


class PodStarts:
    """The pods that are starting. One that was not seen from the beginning is not counted, nor is any counted twice."""

    def __init__(self) -> None:
        self._tracked: dict[str, _Tracked] = {}

    def __len__(self) -> int:
        return len(self._tracked)

    def watch(self, uid: str) -> None:
        """A pod that has never run is seen for the first time."""
        self._tracked.setdefault(uid, _Tracked())

    def forget(self, uid: str) -> None:
        self._tracked.pop(uid, None)

    def pull_began(self, uid: str, at: datetime) -> None:
        if (tracked := self._tracked.get(uid)) is not None:
            tracked.pulling.append(at)

    def pull_ended(self, uid: str, at: datetime) -> None:
        tracked = self._tracked.get(uid)
        if tracked is not None and tracked.pulling:
            tracked.pulls.append((tracked.pulling.pop(0), at))

    def seen(self, observed: ObservedPod) -> None:
        """The newest look at a pod: what it says of init containers is more precise than a status."""
        if (tracked := self._tracked.get(observed.uid)) is not None:
            tracked.seen = observed

    def reported(self, pod: Pod, status: PodStatus, at: datetime) -> Start | None:
        """The API server has a pod's status. -> how long the start took, if this was it."""
        tracked, created = self._tracked.get(pod.metadata.uid), pod.metadata.creation_timestamp
        if tracked is None or created is None or not _has_started(status):
            return None
        self.forget(pod.metadata.uid)
        total = at - created
        if is_stateful(pod):
            return Start(total.total_seconds(), None)
        excused = _covered(tracked.pulls) + _init_time(pod, tracked.seen)
        return Start(total.total_seconds(), max((total - excused).total_seconds(), 0.0))


def is_stateful(pod: Pod) -> bool:
    """Whether it mounts anything that others may have to bring first."""
    return any(all(getattr(volume, source, None) is None for source in _STATELESS) for volume in pod.spec.volumes)


def _has_started(status: PodStatus) -> bool:
    running = [container.state.running for container in status.container_statuses]
    return bool(running) and all(each is not None and each.started_at is not None for each in running)


def _covered(spans: Iterable[tuple[datetime, datetime]]) -> timedelta:
    """The time that was spent on any of them; what overlaps counts once."""
    whole, until = timedelta(), None
    for begin, end in sorted(spans):
        if until is not None and begin < until:
            begin = until
        if end > begin:
            whole, until = whole + (end - begin), end
    return whole


def _init_time(pod: Pod, seen: ObservedPod | None) -> timedelta:
    if seen is None:
        return timedelta()
    names = {container.name for container in pod.spec.init_containers if not is_sidecar(container)}
    return sum(
        (
            each.finished_at - each.started_at
            for each in seen.containers
            if each.name in names and each.started_at is not None and each.finished_at is not None
        ),
        timedelta(),
    )

"""What the node says of its pods: the status that follows from what was last seen of a pod and noted about it.

Looking at the runtime takes time and may fail; saying what follows from the last look takes neither. So a probe's
result changes what is said at once, whatever the pod's worker is busy with.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from pykubelet.api.pod import Pod, PodStatus
from pykubelet.node.orphans import is_orphan
from pykubelet.node.probe_results import ProbeResultsStore
from pykubelet.node.prober import Prober
from pykubelet.node.resizes import PodResizes
from pykubelet.node.status_manager import StatusManager
from pykubelet.pod.container.container_moments import exits
from pykubelet.pod.moments import Journal, about
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.claims import DeviceHealth
from pykubelet.pod.status.device_health import with_devices
from pykubelet.pod.status.phase import is_terminal_phase
from pykubelet.pod.status.pod_status import Failure, NodeFacts, Waiting, finished_status, pod_status


class PodReporter:
    """No method waits."""

    def __init__(
        self,
        statuses: StatusManager,
        results: ProbeResultsStore,
        prober: Prober,
        *,
        node: Callable[[], NodeFacts],
        journal: Journal,
        now: Callable[[], datetime],
        resizes: PodResizes,
        devices: DeviceHealth | None = None,
    ) -> None:
        self._statuses = statuses
        self._results = results
        self._prober = prober
        self._node = node
        self._journal = journal
        self._now = now
        self._resizes = resizes
        self._devices = devices
        self._seen: dict[str, ObservedPod] = {}
        self._waiting: dict[str, Mapping[str, Waiting]] = {}
        self._failures: dict[str, Failure] = {}

    def saw(self, pod: Pod, observed: ObservedPod) -> None:
        """Somebody has looked at the pod: that is told."""
        uid = pod.metadata.uid
        for exited in exits(self._seen.get(uid), observed):
            self._journal.note(exited, about(pod))
        self._seen[uid] = observed
        self._resizes.saw(pod, observed)
        self.report(pod)

    def report(self, pod: Pod) -> None:
        """Say anew what follows from the last look. Of a pod that nobody has looked at there is nothing to say."""
        observed = self._seen.get(pod.metadata.uid)
        if observed is None or is_orphan(pod):
            return
        status = self._status(pod, observed)
        self._statuses.set(pod, status)
        self._prober.reported(pod.metadata.uid, status)

    def report_end(self, pod: Pod, observed: ObservedPod) -> None:
        """The last word on a pod that has been stopped."""
        if not is_orphan(pod):
            status = self._status(pod, observed, is_terminal=True)
            self._statuses.set(pod, finished_status(pod, status, now=self._now()))

    def last_seen(self, uid: str) -> ObservedPod | None:
        return self._seen.get(uid)

    def has_ended(self, uid: str) -> bool:
        """Whether the last word on the pod is that it has Succeeded or Failed."""
        status = self._statuses.get(uid)
        return status is not None and is_terminal_phase(status.phase)

    def waiting(self, uid: str) -> Mapping[str, Waiting]:
        """By container: why it could not be started."""
        return self._waiting.get(uid, {})

    def note_waiting(self, uid: str, waiting: Mapping[str, Waiting]) -> None:
        self._waiting[uid] = waiting

    def note_failure(self, uid: str, failure: Failure) -> None:
        """The node ends the pod, whatever its containers do. The first reason counts."""
        self._failures.setdefault(uid, failure)

    def forget(self, uid: str) -> None:
        for notes in (self._seen, self._waiting, self._failures):
            notes.pop(uid, None)

    def _status(self, pod: Pod, observed: ObservedPod, *, is_terminal: bool = False) -> PodStatus:
        uid = pod.metadata.uid
        status = pod_status(
            pod,
            observed,
            self._statuses.get(uid) or pod.status,
            now=self._now(),
            node=self._node(),
            waiting=self.waiting(uid),
            probes=self._results.of(uid),
            is_terminal=is_terminal,
            failure=self._failures.get(uid),
            resize=self._resizes.conditions(uid),
            actuated=self._resizes.told(uid),
        )
        return with_devices(status, self._devices.of(pod)) if self._devices is not None else status

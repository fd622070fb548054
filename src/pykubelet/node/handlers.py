"""What becomes of each update: the pod table, admission, and a wish for the pod's worker. No handler waits."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import API_SOURCE, is_critical, is_mirror, is_static, source_of
from pykubelet.api.struct import changed
from pykubelet.node.active_deadline import ActiveDeadlines
from pykubelet.node.mirrors import MirrorPods
from pykubelet.node.orphans import clean_up_orphans
from pykubelet.node.pending_resizes import PendingResizes
from pykubelet.node.pinning import Pinning
from pykubelet.node.pleg import Pleg
from pykubelet.node.pod_reporter import PodReporter
from pykubelet.node.probe_results import ProbeResultsStore
from pykubelet.node.resizes import PodResizes
from pykubelet.node.status_manager import StatusManager
from pykubelet.node.workers import PodWorkers
from pykubelet.pod import moments
from pykubelet.pod.admission.admission import Admission, Rejected
from pykubelet.pod.admission.fit import NodeUsage
from pykubelet.pod.eviction.eviction import Eviction
from pykubelet.pod.lifecycle.mirror_pod import is_mirror_of
from pykubelet.pod.lifecycle.node_shutdown import FAILURE, REJECTED
from pykubelet.pod.lifecycle.probe_results import ProbeKind, Result
from pykubelet.pod.lifecycle.table import PodTable
from pykubelet.pod.lifecycle.termination_grace import pod_grace
from pykubelet.pod.moments import Admitted, Evicted, Journal, Preempted, about
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.ports.api import Recorder
from pykubelet.pod.ports.claims import Claims
from pykubelet.pod.ports.devices import Devices
from pykubelet.pod.ports.machine import Checkpoint
from pykubelet.pod.resize.feasibility import ResizeRules
from pykubelet.pod.status.phase import is_terminal_phase
from pykubelet.pod.status.pod_status import Failure, rejected_status

_PREEMPTING: Final = Failure(
    "Preempting",
    "Preempted in order to admit critical pod",
    yields_to_success=True,
    disruption="Pod was preempted by Kubelet to accommodate a critical pod.",
)
_LEAST_PATIENCE: Final = 10.0


class PodHandlers:
    def __init__(
        self,
        *,
        table: PodTable,
        usage: NodeUsage,
        admission: Callable[[], Admission],
        workers: PodWorkers,
        pleg: Pleg,
        statuses: StatusManager,
        results: ProbeResultsStore,
        reporter: PodReporter,
        deadlines: ActiveDeadlines,
        recorder: Recorder,
        journal: Journal,
        resizes: PodResizes,
        resize_rules: ResizeRules | None = None,
        checkpoint: Checkpoint | None = None,
        pinning: Pinning | None = None,
        mirrors: MirrorPods | None = None,
        devices: Devices | None = None,
        claims: Claims | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.table = table
        self.usage = usage
        self.workers = workers
        self._admission = admission
        self._pleg = pleg
        self._statuses = statuses
        self._results = results
        self._reporter = reporter
        self._deadlines = deadlines
        self._recorder = recorder
        self._journal = journal
        self._checkpoint = checkpoint
        self._pinning = pinning
        self._mirrors = mirrors
        self._devices = devices
        self._claims = claims
        self._now = now
        self.is_ready: Callable[[], bool] = lambda: True
        """Whether every source has spoken."""
        self._resizes = resizes
        self._pending = PendingResizes(
            resizes,
            resize_rules or ResizeRules(),
            table=table,
            usage=usage,
            admission=admission,
            is_ready=lambda: self.is_ready(),
            tell=self._tell,
            preempt=self._preempt,
        )
        self.is_closing = False
        """The machine is about to go down: nobody is let in."""
        self._rejected: set[str] = set()
        self._preempted: dict[str, tuple[Pod, datetime]] = {}
        """By uid: those that make room, and when they should have ended."""

    def add(self, pods: Iterable[Pod]) -> None:
        """Oldest first, so that after a restart of the agent those keep their place that had it before."""
        admitted = []
        for pod in sorted(pods, key=_age):
            self.table.add(pod)
            if is_mirror(pod):
                self._wake_static(pod)
                continue
            if self.workers.is_leaving(pod.metadata.uid):
                continue  # it has come back while it is being removed: `gone` adds it again
            self._link(pod)
            if _is_ending(pod):
                if not is_terminal_phase(pod.status.phase):
                    self._use(pod)  # it holds what it has until it has stopped
                self._tell(pod)
            else:
                self._admit(pod)
                admitted.append(pod)
        self._pending.added(pod for pod in admitted if pod.metadata.uid in self.usage)

    def update(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            before = self.table.get(pod.metadata.uid)
            self.table.add(pod)
            if is_mirror(pod):
                self._wake_static(pod)
                continue
            if pod.metadata.uid in self.usage:
                self._pending.updated(before, pod)
                self._use(pod)
                self._save(pod)
            if pod.metadata.uid not in self._rejected or _is_ending(pod):
                self._tell(pod)
            self._statuses.reconcile(pod)  # a pod that ended long ago may be deleted only now

    def remove(self, pods: Iterable[Pod], *, for_good: bool = True) -> None:
        """The source has forgotten the pods. If nobody has asked them to stop before, they are asked now. Of those that
        do not go for good the runtime keeps what has ended."""
        for pod in pods:
            self.table.remove(pod)
            if is_mirror(pod):
                self._wake_static(pod)
                continue
            self._rejected.discard(pod.metadata.uid)
            self.usage.remove(pod.metadata.uid)
            self._release(pod.metadata.uid)
            if self._checkpoint is not None:
                self._checkpoint.drop(pod.metadata.uid)
            self.workers.tell(self._resizes.allocated(pod), grace=pod_grace(pod), by="removed", removed=for_good)
        self._pending.retry("pods_removed")

    def reconcile(self, pods: Iterable[Pod]) -> None:
        """Somebody else's word on a pod's status: ours counts, except for conditions that are not ours."""
        for pod in pods:
            self.table.add(pod)
            shown = self.table.static_of(pod) if is_mirror(pod) else pod
            if shown is None:
                continue
            self._statuses.reconcile(pod)
            if shown is pod:
                self.workers.learn(self._resizes.allocated(pod))
                if pod.metadata.uid in self.usage:
                    self._use(pod)  # what it was seen to have counts, too
                    self._save(pod)  # with what is known of it: an agent that comes later must not flip its readiness
            if pod.spec.readiness_gates:
                self.workers.wake(shown.metadata.uid)
        self._pending.retry("pod_resized")

    def wake(self, uid: str) -> None:
        self.workers.wake(uid)

    def wake_due(self) -> None:
        """Pods whose time has come, such as those whose active deadline has passed."""
        self._pending.look()
        for uid, (victim, due) in list(self._preempted.items()):
            if due <= self._now():
                del self._preempted[uid]
                message = "Container runtime did not kill the pod within specified grace period."
                self._recorder.event(victim, "Warning", "ExceededGracePeriod", message)
        for pod in self.usage.pods():
            if pod.spec.active_deadline_seconds is not None and self._deadlines.has_passed(pod):
                self.workers.wake(pod.metadata.uid)

    def probed(self, kind: ProbeKind, uid: str, container_id: str, result: Result) -> None:
        """A failed liveness or startup probe restarts a container, which is for the pod's worker to do; what a result
        says of the pod's status is told at once. Of a container that has gone meanwhile it says nothing."""
        worker, seen = self.workers.workers.get(uid), self._reporter.last_seen(uid)
        states = {container.id: container.state for container in seen.containers} if seen else {}
        if worker is None or container_id not in states or not self._results.set(uid, kind, container_id, result):
            return
        worker.wake()
        if states[container_id] is State.RUNNING:
            self._reporter.report(worker.wish.pod)

    def evict(self, uid: str, found: Eviction) -> None:
        """End a pod for what it uses. One that is stopping anyway has its reason already, unless it has to hurry."""
        pod, worker = self.table.get(uid), self.workers.workers.get(uid)
        if pod is None or worker is None or is_critical(pod):
            return
        if (left := worker.wish.grace) is not None and (left <= found.grace or not found.is_disruption):
            return
        self._recorder.event(pod, "Warning", "Evicted", found.message, annotations=found.annotations)
        self._journal.note(Evicted(found.signal, found.message, found.age), about(pod))
        disruption = found.message if found.is_disruption else ""
        self._reporter.note_failure(uid, Failure("Evicted", found.message, disruption=disruption))
        self.workers.tell(self._resizes.allocated(pod), grace=found.grace, by="evicted")

    def going_down(self, is_near: bool, graces: Mapping[str, int]) -> None:
        """The machine is about to go down, and these pods before it; or it is not any more, and others may come. A pod
        that stops anyway has its reason already, and no more time."""
        self.is_closing = is_near
        for uid, grace in graces.items():
            pod, worker = self.table.get(uid), self.workers.workers.get(uid)
            if pod is None or worker is None:
                continue
            if worker.wish.grace is None:
                self._reporter.note_failure(uid, FAILURE)
            self.workers.tell(self._resizes.allocated(pod), grace=grace, by="shutdown")

    def released(self, pod: Pod) -> None:
        """A pod has ended and gives its share of the node back."""
        self._preempted.pop(pod.metadata.uid, None)
        self.usage.remove(pod.metadata.uid)
        if self._checkpoint is not None:
            status = self._statuses.get(pod.metadata.uid)
            if self.is_closing and status is not None:
                # Perhaps nobody is told of its end before the machine is up: no server has shown it like that.
                metadata = changed(pod.metadata, resource_version="")
                self._save(changed(pod, metadata=metadata, status=status))
            else:
                self._checkpoint.drop(pod.metadata.uid)  # it must not run again, whatever is remembered of it
        self._release(pod.metadata.uid)
        self._statuses.terminated(pod)
        self._resizes.ended(pod.metadata.uid)
        self._pending.retry("pods_removed")

    def gone(self, uid: str) -> None:
        """Nothing is left of a pod, and nobody asks for it."""
        self._pleg.forget(uid)
        self._statuses.forget(uid)
        self._reporter.forget(uid)
        self._results.forget(uid)
        self._resizes.forget(uid)
        if self._mirrors is not None:
            self._mirrors.forget(uid)
        if (pod := self.table.get(uid)) is not None:  # somebody does: its manifest has come back
            self.add((pod,))

    def clean_up(self, folders: Iterable[str]) -> None:
        """Stop and remove what no source knows. Only when all sources have spoken."""
        found = self._pleg.seen
        bare = (ObservedPod(uid=uid) for uid in sorted(set(folders) - found.keys()))
        orphans = [each for each in (*found.values(), *bare) if each.uid not in self.table]
        clean_up_orphans(self.workers, self._journal, orphans)
        self._resizes.keep({*(pod.metadata.uid for pod in self.table.pods()), *self.workers.workers})
        if self._devices is not None:
            self._devices.retain(self.known_uids())
        if self._claims is not None:
            self._claims.retain(self.known_uids())
        for uid in sorted(found.keys() & self._rejected):
            if uid not in self.workers.workers and (pod := self.table.get(uid)) is not None:
                # An earlier agent ran what this one turns away.
                self.workers.tell(pod, grace=pod_grace(pod), by="rejected")
        if self._pinning is not None and self._pinning.is_active:
            self._pinning.keep_only(self.known_uids())
        if self._mirrors is None:
            return
        for mirror in self.table.orphaned_mirrors():
            if not self._still_shows(mirror):
                self._mirrors.discard(mirror)
        for static in self.table.static_pods():
            if self.table.mirror_of(static) is None:
                self._mirrors.want(static)

    def known_uids(self) -> set[str]:
        """Of the pods that hold a share of the node, or whose containers are not known to have ended."""
        working = {uid for uid, worker in self.workers.workers.items() if not worker.released.is_set()}
        return working | {pod.metadata.uid for pod in self.usage.pods()}

    # --- inside

    def _admit(self, pod: Pod) -> None:
        asked, pod = pod, self._resizes.allocated(pod)  # what an earlier agent gave it, it has
        closed = Rejected(*REJECTED) if self.is_closing else None
        answer = closed or self._allocate(pod) or self._admission().admit(pod, self.usage)
        displaced = answer.preempt if isinstance(answer, Rejected) else ()
        if isinstance(answer, Rejected) and not displaced:
            self._reject(pod, answer)
            return
        for uid in displaced:
            self._preempt(uid, pod)
        self._resizes.recall(pod)
        self._resizes.allocate(pod)
        self.usage.add(pod)
        self._journal.note(Admitted(is_static(pod)), about(pod))
        self._save(asked)
        self.workers.tell(pod, after=displaced)

    def _allocate(self, pod: Pod) -> Rejected | None:
        """Before it is asked whether there is room, as upstream does it: it has the more to say about why not."""
        return self._pinning.admit(pod) if self._pinning is not None else None

    def _reject(self, pod: Pod, answer: Rejected) -> None:
        self._release(pod.metadata.uid)
        self._rejected.add(pod.metadata.uid)
        self._journal.note(moments.Rejected(answer.reason, answer.message), about(pod))
        self._recorder.event(pod, "Warning", answer.reason, answer.message)
        self._statuses.set(pod, rejected_status(pod, answer.reason, answer.message, self._now()))

    def _release(self, uid: str) -> None:
        if self._pinning is not None:
            self._pinning.release(uid)

    def _preempt(self, uid: str, critical: Pod) -> None:
        victim = self.table.get(uid)
        if victim is None:
            return
        self._recorder.event(victim, "Warning", _PREEMPTING.reason, _PREEMPTING.message)
        self._journal.note(Preempted(critical.metadata.uid, str(about(critical))), about(victim))
        self._reporter.note_failure(uid, _PREEMPTING)
        self.usage.remove(uid)
        grace = pod_grace(victim)
        self._preempted[uid] = victim, self._now() + timedelta(seconds=max(1.5 * grace, _LEAST_PATIENCE))
        self.workers.tell(self._resizes.allocated(victim), grace=grace, by="preempted")

    def _use(self, pod: Pod) -> None:
        """It holds what it was given, whatever it asks for."""
        self.usage.add(self._resizes.allocated(pod))

    def _tell(self, pod: Pod) -> None:
        ending = pod.metadata.deletion_timestamp is not None
        self.workers.tell(self._resizes.allocated(pod), grace=pod_grace(pod) if ending else None)

    def _save(self, pod: Pod) -> None:
        if self._checkpoint is not None and source_of(pod) == API_SOURCE:
            self._checkpoint.save(pod)

    def _wake_static(self, mirror: Pod) -> None:
        """What a mirror pod shows may be out of date, or it may be gone: its pod's worker sees to it."""
        static = self.table.static_of(mirror)
        if static is not None:
            self._link(static)
            self.workers.wake(static.metadata.uid)

    def _link(self, pod: Pod) -> None:
        """Where a static pod's status goes: to its mirror, if that shows this very version of it."""
        mirror = self.table.mirror_of(pod)
        if is_static(pod):
            shown = mirror if mirror is not None and is_mirror_of(mirror, pod) else None
            self._statuses.linked(pod.metadata.uid, shown)

    def _still_shows(self, mirror: Pod) -> bool:
        """A pod that is still stopping is shown until it has stopped."""
        return self.table.pod_uid(mirror.metadata.uid) in self.workers.workers


def _age(pod: Pod) -> tuple[datetime, str]:
    return pod.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC), pod.metadata.uid


def _is_ending(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None or is_terminal_phase(pod.status.phase)

"""What each pod was given of the node, what its containers were told to have, and what is said of the difference.

The pod that a worker runs is the one that was allocated; what the source asks for beyond that waits in
`pending_resizes.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from pykubelet.api import codec
from pykubelet.api.container import ResourceRequirements
from pykubelet.api.pod import Pod, PodCondition
from pykubelet.api.rules.pod_kinds import is_static
from pykubelet.base.errors import Retry
from pykubelet.pod.moments import Journal, about
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.api import Recorder
from pykubelet.pod.ports.machine import AllocationStore
from pykubelet.pod.resize import conditions as said
from pykubelet.pod.resize.allocation import (
    Allocation,
    Allocations,
    allocation_of,
    is_in_progress,
    resizable_containers,
    with_allocation,
)
from pykubelet.pod.resize.conditions import ResizeConditions
from pykubelet.pod.resize.feasibility import Pending
from pykubelet.pod.resize.moments import ResizeAsked, Resized
from pykubelet.pod.status.container_status import whole_seconds

_NOTHING: Final[Allocation] = {}


class PodResizes:
    """No method waits but those that say so. Without the feature every pod has what it asks for, and nothing is
    written down."""

    def __init__(
        self,
        store: AllocationStore | None,
        recorder: Recorder,
        journal: Journal,
        *,
        now: Callable[[], datetime],
        enabled: bool = True,
    ) -> None:
        self._store = store
        self._recorder = recorder
        self._journal = journal
        self._now = now
        self._enabled = enabled
        loaded = store.load() if store is not None and enabled else Allocations()
        self._allocated: dict[str, Allocation] = dict(loaded.allocated)
        self._actuated: dict[str, Allocation] = dict(loaded.actuated)
        self._conditions: dict[str, ResizeConditions] = {}

    # --- what was given

    def allocated(self, pod: Pod) -> Pod:
        """The pod with what it was given; itself when that is what it asks for, or nothing was given yet."""
        given = self._allocated.get(pod.metadata.uid)
        return pod if given is None else with_allocation(pod, given)

    def allocate(self, pod: Pod) -> None:
        """It gets what it asks for."""
        if self._enabled and self._allocated.get(pod.metadata.uid) != (given := allocation_of(pod)):
            self._allocated[pod.metadata.uid] = given
            self._save()

    def forget(self, uid: str) -> None:
        """Nothing of the pod is left."""
        known = [each.pop(uid, None) for each in (self._allocated, self._actuated)]
        self._conditions.pop(uid, None)
        if any(each is not None for each in known):
            self._save()

    def keep(self, uids: Iterable[str]) -> None:
        """There are no pods but these."""
        for uid in {*self._allocated, *self._actuated} - {*uids}:
            self.forget(uid)

    # --- what containers were told

    def actuated(self, pod: Pod) -> Allocation | None:
        """None: its containers keep the size that they were made with."""
        if not self._enabled or is_static(pod):
            return None
        return self._actuated.get(pod.metadata.uid, _NOTHING)

    def told(self, uid: str) -> Mapping[str, ResourceRequirements]:
        return self._actuated.get(uid, _NOTHING)

    async def tell(self, pod: Pod, name: str, resources: ResourceRequirements) -> None:
        """A container is told to have this. Where it was told something else before, that is on disk when this returns:
        another agent must not tell it again, for that may take a restart. Raises Retry."""
        uid = pod.metadata.uid
        if not self._enabled or all(each.name != name for each in resizable_containers(pod)):
            return
        known = self._actuated.get(uid, _NOTHING)
        before = known.get(name)
        if before == resources:
            return
        self._actuated[uid] = {**known, name: resources}
        self._save()
        if before is None:
            return
        try:
            await self.saved()
        except Retry:
            self._actuated[uid] = known
            self._save()
            raise

    async def saved(self) -> None:
        """Wait until all of that is on disk. Raises Retry."""
        if self._store is not None and self._enabled:
            await self._store.saved()

    def _save(self) -> None:
        if self._store is not None:
            self._store.save(Allocations(allocated=dict(self._allocated), actuated=dict(self._actuated)))

    # --- what is said of it

    def conditions(self, uid: str) -> tuple[PodCondition, ...]:
        return self._said(uid).all

    def state(self, uid: str) -> ResizeConditions:
        return self._said(uid)

    def recall(self, pod: Pod) -> None:
        """What an earlier agent has said of the pod."""
        if self._enabled and pod.metadata.uid not in self._conditions:
            self._set(pod.metadata.uid, said.told_before(pod))

    def asked(self, pod: Pod, what: Iterable[ResizeAsked]) -> None:
        for each in what:
            self._journal.note(each, about(pod))

    def defer(self, pod: Pod, why: Pending) -> bool:
        """It does not get what it asks for, now or ever. -> whether that is news"""
        uid, before = pod.metadata.uid, self._said(pod.metadata.uid)
        now = said.pending(before, why.reason, why.message, pod.metadata.generation, self._second())
        self._set(uid, now)
        if before.pending == now.pending:
            return False
        if before.pending is None or before.pending.reason != why.reason or before.pending.message != why.message:
            self._journal.note(Resized(why.reason, why.message, why.cause), about(pod))
            reason = "ResizeDeferred" if why.reason == "Deferred" else "ResizeInfeasible"
            self._recorder.event(pod, "Warning", reason, f"Pod resize {why.reason}: {why.message}")
        return True

    def begin(self, pod: Pod, because: str) -> None:
        """It is given what it asks for. `because` says in one word what made room for it."""
        waited = self._said(pod.metadata.uid).is_deferred
        self._journal.note(Resized("Begun", cause=because if waited else ""), about(pod))
        self._set(pod.metadata.uid, said.begun(pod.metadata.generation, self._second()))

    def withdraw(self, uid: str) -> bool:
        """It asks for no more than it was given. -> whether that is news"""
        before = self._said(uid)
        self._set(uid, said.without_pending(before))
        return before.pending is not None

    def told_all(self, pod: Pod, seconds: float) -> None:
        """All containers that run were told; that took so long."""
        self._journal.note(Resized("Told", seconds=seconds), about(pod))

    def fail(self, pod: Pod, message: str, seconds: float) -> None:
        """Containers could not be told; that took so long."""
        before = self._said(pod.metadata.uid)
        now = said.in_progress(before, said.ERROR, message, pod.metadata.generation, self._second())
        self._set(pod.metadata.uid, now)
        is_news = before.in_progress is None or before.in_progress.message != message
        self._journal.note(Resized("Error", message if is_news else "", seconds=seconds), about(pod))

    def saw(self, pod: Pod, observed: ObservedPod) -> None:
        """Somebody has looked at a pod, as it was allocated: all containers that run may have been told by now."""
        actuated = self.actuated(pod)
        uid = pod.metadata.uid
        if actuated is None:
            return
        before = self._said(uid)
        if is_in_progress(pod, observed, actuated):
            self._set(uid, said.in_progress(before, "", "", pod.metadata.generation, self._second()))
        elif before.in_progress is not None:
            self._set(uid, said.without_in_progress(before))
            self._journal.note(Resized("Completed"), about(pod))
            self._recorder.event(pod, "Normal", "ResizeCompleted", f"Pod resize completed: {_summary(pod)}")

    def ended(self, uid: str) -> None:
        """A pod that has ended has no size."""
        self._conditions.pop(uid, None)

    def _said(self, uid: str) -> ResizeConditions:
        return self._conditions.get(uid, said.NONE)

    def _set(self, uid: str, conditions: ResizeConditions) -> None:
        if conditions.all:
            self._conditions[uid] = conditions
        else:
            self._conditions.pop(uid, None)

    def _second(self) -> datetime:
        return whole_seconds(self._now())


def _summary(pod: Pod) -> str:
    """What everyone has now, as upstream spells it."""
    kinds = (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers))
    return codec.encode(
        {
            kind: [{"name": each.name, "resources": each.resources} for each in containers]
            for kind, containers in kinds
            if containers
        }
    ).decode()

"""Pods that ask for another size than they were given: who gets it now, who waits for others to leave, and when to look
again."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Literal

from pykubelet.api.pod import Pod
from pykubelet.node.resizes import PodResizes
from pykubelet.pod.admission.admission import Admission, Rejected
from pykubelet.pod.admission.fit import NodeUsage
from pykubelet.pod.lifecycle.table import PodTable
from pykubelet.pod.resize.allocation import allocation_of, asked_resizes
from pykubelet.pod.resize.feasibility import Pending, ResizeRules, resize_order, too_large, unchangeable

Trigger = Literal["pod_resized", "pod_updated", "pods_added", "pods_removed", "periodic_retry"]

_PERIOD: Final = 180.0
"""Seconds after which to look again when nothing has made room that anybody knows of."""


class PendingResizes:
    """No method waits. `tell` has the pod's worker act on what the pod has now, `preempt` stops others for a critical
    one."""

    def __init__(
        self,
        resizes: PodResizes,
        rules: ResizeRules,
        *,
        table: PodTable,
        usage: NodeUsage,
        admission: Callable[[], Admission],
        is_ready: Callable[[], bool],
        tell: Callable[[Pod], None],
        preempt: Callable[[str, Pod], None],
    ) -> None:
        self._resizes = resizes
        self._rules = rules
        self._table = table
        self._usage = usage
        self._admission = admission
        self._is_ready = is_ready
        self._tell = tell
        self._preempt = preempt
        self._waiting: list[str] = []
        self._next_look = 0.0

    def added(self, pods: Iterable[Pod]) -> None:
        """New here, perhaps only to this agent: what they asked of an earlier one is decided when all are known."""
        asking = [pod for pod in pods if self._resizes.allocated(pod) is not pod]
        for pod in asking:
            self._push(pod.metadata.uid)
        if asking:
            self.retry("pods_added")

    def updated(self, before: Pod | None, pod: Pod) -> None:
        """A new version of a pod that is here."""
        asked = list(asked_resizes(before, pod)) if before is not None else []
        if before is not None and not asked:
            return
        self._resizes.asked(pod, asked)
        if self._resizes.allocated(pod) is pod:
            self._resizes.withdraw(pod.metadata.uid)
        else:
            self._push(pod.metadata.uid)
            self.retry("pod_updated")

    def look(self) -> None:
        """Another second has passed."""
        if asyncio.get_running_loop().time() >= self._next_look:
            self.retry("periodic_retry")

    def retry(self, trigger: Trigger) -> None:
        """Something may have made room."""
        if not self._waiting:
            return
        if not self._is_ready():
            self._next_look = 0.0  # as soon as it is known who else is here
            return
        self._next_look = asyncio.get_running_loop().time() + _PERIOD
        turns, self._waiting = self._waiting, []
        self._waiting += [uid for uid in turns if self._decide(uid, trigger)]

    # --- inside

    def _push(self, uid: str) -> None:
        """In its place in the order."""
        uids = self._waiting if uid in self._waiting else [*self._waiting, uid]
        pods = [pod for each in uids if (pod := self._table.get(each)) is not None]
        state = self._resizes.state
        ordered = resize_order(
            (pod, allocation_of(self._resizes.allocated(pod)), state(pod.metadata.uid).pending) for pod in pods
        )
        self._waiting = [pod.metadata.uid for pod in ordered]

    def _decide(self, uid: str, trigger: Trigger) -> bool:
        """-> whether it goes on waiting"""
        pod = self._table.get(uid)
        if pod is None or uid not in self._usage:
            return False
        if self._resizes.allocated(pod) is pod:
            if self._resizes.withdraw(uid):
                self._tell(pod)
            return False
        why = self._why_not(pod)
        if why is not None:
            if self._resizes.defer(pod, why):
                self._tell(pod)
            return why.reason == "Deferred"
        self._resizes.begin(pod, trigger)
        self._resizes.allocate(pod)
        self._usage.add(pod)
        self._tell(pod)
        return False

    def _why_not(self, pod: Pod) -> Pending | None:
        admission = self._admission()
        never = unchangeable(pod, self._resizes.allocated(pod), self._rules) or too_large(pod, admission.allocatable)
        if never is not None:
            return never
        answer = admission.admit(pod, self._usage)
        if isinstance(answer, Rejected) and not answer.preempt:
            return Pending("Deferred", answer.message)
        if isinstance(answer, Rejected):
            for victim in answer.preempt:
                self._preempt(victim, pod)
        return None

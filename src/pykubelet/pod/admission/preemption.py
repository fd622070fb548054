"""Which pods make room for a critical one: as few as possible, and those that were promised least before the others."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.pod_kinds import is_critical
from pykubelet.api.rules.qos import qos_class
from pykubelet.api.rules.resources import (
    CPU,
    MEMORY,
    PODS,
    container_requests,
    is_pod_level_resource,
    pod_level_requests,
)
from pykubelet.pod.admission.fit import Amounts, Shortage, amount


class Unreclaimable(Struct, frozen=True):
    """Stopping every pod that may be stopped would not be enough."""

    missing: Mapping[str, int]

    def __str__(self) -> str:
        listed = "".join(f"(res: {name}, q: {much}), " for name, much in self.missing.items())
        return f"no set of running pods found to reclaim resources: [{listed}]"


class _Candidate(Struct, frozen=True):
    pod: Pod
    frees: Amounts


def may_preempt(preemptor: Pod, victim: Pod) -> bool:
    """A critical pod goes before any other pod, and before a critical one of lower priority."""
    if is_critical(preemptor) and not is_critical(victim):
        return True
    first, second = preemptor.spec.priority, victim.spec.priority
    return first is not None and second is not None and first > second


def victims(preemptor: Pod, pods: Iterable[Pod], shortages: Iterable[Shortage]) -> tuple[Pod, ...] | Unreclaimable:
    """The pods to stop, so that nothing of what is short stays short.

    A guaranteed pod falls only for what all others together could not give, and a burstable one only for what the best
    effort ones could not give beside the guaranteed pods that fall anyway.
    """
    needs = {shortage.resource: shortage.missing for shortage in shortages}
    classes: dict[str, list[_Candidate]] = {"BestEffort": [], "Burstable": [], "Guaranteed": []}
    for pod in pods:
        group = classes.get(qos_class(pod))
        if group is not None and may_preempt(preemptor, pod):
            group.append(_Candidate(pod, _frees(pod, needs)))
    best_effort, burstable, guaranteed = classes.values()

    if missing := _left(needs, [*best_effort, *burstable, *guaranteed]):
        return Unreclaimable(missing)
    fallen_guaranteed = _nearest(guaranteed, _left(needs, [*best_effort, *burstable]))
    fallen_burstable = _nearest(burstable, _left(needs, [*best_effort, *fallen_guaranteed]))
    fallen_best_effort = _nearest(best_effort, _left(needs, [*fallen_burstable, *fallen_guaranteed]))
    return tuple(each.pod for each in (*fallen_best_effort, *fallen_burstable, *fallen_guaranteed))


def _frees(pod: Pod, needs: Amounts) -> dict[str, int]:
    """What stopping a pod is sure to give back, for each need and for the comparison of equals.

    Overhead comes on top of a request, never alone; and a pod with resources of its own counts only by those.
    """
    spec = pod.spec
    own = spec.resources
    is_pod_level = own is not None and any(map(is_pod_level_resource, (*own.requests, *own.limits)))
    requests = {**({} if is_pod_level else container_requests(spec)), **pod_level_requests(spec)}
    result = {PODS: 1}
    for name in {*needs, MEMORY, CPU} - {PODS}:
        request = requests.get(name, Quantity(0))
        result[name] = amount(name, request + spec.overhead.get(name, Quantity(0)) if request else request)
    return result


def _left(needs: Amounts, stopped: Iterable[_Candidate]) -> dict[str, int]:
    """What is still needed when these have stopped."""
    left = dict(needs)
    for each in stopped:
        for name in left:
            left[name] -= each.frees[name]
    return {name: much for name, much in left.items() if much > 0}


def _nearest(candidates: list[_Candidate], needs: Amounts) -> list[_Candidate]:
    """Again and again the pod that comes closest to all that is needed; of equals the smaller one.

    Which of two pods that are equal in all this falls depends on the order of the list, as it does in the Go kubelet.
    """
    waiting = list(candidates)
    chosen: list[_Candidate] = []
    while needs:
        best, shortest = 0, float("inf")
        for index, each in enumerate(waiting):
            distance = _distance(needs, each)
            if distance < shortest or (distance == shortest and _size(each) <= _size(waiting[best])):
                best, shortest = index, distance
        chosen.append(waiting[best])
        needs = _left(needs, [waiting[best]])
        waiting[best] = waiting[-1]
        waiting.pop()
    return chosen


def _distance(needs: Amounts, candidate: _Candidate) -> float:
    """By shares of each need, so that a byte of memory does not weigh as much as a thousandth of a cpu."""
    shares = (max(0.0, float(much - candidate.frees[name]) / float(much)) for name, much in needs.items())
    return sum(share * share for share in shares)


def _size(candidate: _Candidate) -> tuple[int, int]:
    return candidate.frees[MEMORY], candidate.frees[CPU]

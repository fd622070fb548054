"""Whether a pod may have what it asks for now, later, or never on this node; and who goes first.

Reasons and messages are upstream's: they end up in the pod's conditions.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod, PodCondition
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.pod_kinds import is_critical, is_static
from pykubelet.api.rules.qos import qos_class
from pykubelet.api.rules.resources import (
    CPU,
    MEMORY,
    container_requests,
    is_pod_level_resource,
    pod_level_requests,
    pod_requests,
)
from pykubelet.pod.resize.allocation import Allocation, resizable_containers, with_allocation
from pykubelet.pod.resize.conditions import PendingReason

_ZERO: Final = Quantity(0)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


class Pending(Struct, frozen=True):
    """It cannot be done now. Deferred: perhaps when others have left. Infeasible: never on this node."""

    reason: PendingReason
    message: str
    cause: str = ""
    """Why it never can, in one word for metrics."""


class ResizeRules(Struct, frozen=True, kw_only=True):
    """What on this node keeps pods from being resized at all."""

    enabled: bool = True
    """The feature gate InPlacePodVerticalScaling."""
    refusal: str = ""
    """Why the runtime cannot change running containers; empty: it can."""
    pinned: tuple[str, ...] = ()
    """Resources that guaranteed pods have for themselves, and that stay as they were given: cpu with the static policy
    of the CPU manager, memory with that of the memory manager; unless the gates for such resizes are on."""
    limited_swap: bool = False
    """Whether containers may use swap by their memory requests."""


def unchangeable(pod: Pod, allocated: Pod, rules: ResizeRules) -> Pending | None:
    """Why the pod never gets what it asks for, whatever there is room for. `allocated` is what it has."""
    if not rules.enabled:
        return Pending("Infeasible", "InPlacePodVerticalScaling is disabled", "feature_gate_off")
    if is_static(pod):
        return Pending("Infeasible", "In-place resize of static-pods is not supported", "static_pod")
    if rules.refusal:
        return Pending("Infeasible", f"In-place resize is not possible on this node: {rules.refusal}", "runtime")
    if _moves_swap(pod, allocated, rules):
        message = "In-place resize of containers with swap is not supported."
        return Pending("Infeasible", message, "swap_limitation")
    if qos_class(pod) == "Guaranteed":
        for name, manager in ((CPU, "CPU"), (MEMORY, "Memory")):
            if name in rules.pinned and _requests_differ(pod, allocated, name):
                message = f"Resize is infeasible for Guaranteed Pods alongside {manager} Manager policy "
                policy = "static" if name == CPU else "Static"
                return Pending(
                    "Infeasible", f'{message}"{policy}"', f"guaranteed_pod_{manager.lower()}_manager_static_policy"
                )
    return None


def too_large(pod: Pod, allocatable: ResourceList) -> Pending | None:
    """Why the node could not hold the pod if it were empty."""
    asked = {name: _asked(pod, name) for name in (MEMORY, CPU)}
    for name in (MEMORY, CPU):
        much, capacity = (
            (asked[name].milli, allocatable.get(name, _ZERO).milli)
            if name == CPU
            else (asked[name].value, allocatable.get(name, _ZERO).value)
        )
        if much > capacity:
            message = f"Node didn't have enough capacity: {name}, requested: {much}, capacity: {capacity}"
            return Pending("Infeasible", message, "insufficient_node_allocatable")
    return None


def resize_order(pods: Iterable[tuple[Pod, Allocation, PodCondition | None]]) -> list[Pod]:
    """Who gets its turn first: who asks for no more than it has, then by priority, class of service, and how long each
    has waited. With each pod what it has, and its pending condition."""

    def rank(each: tuple[Pod, Allocation, PodCondition | None]) -> tuple[bool, int, bool, bool, datetime]:
        pod, allocation, pending = each
        since = pending.last_transition_time if pending is not None else None
        return (
            asks_for_more(pod, with_allocation(pod, allocation)),
            -(pod.spec.priority or 0),
            qos_class(pod) != "Guaranteed",
            since is None,
            since or _LAST,
        )

    return [pod for pod, _, _ in sorted(pods, key=rank)]


def asks_for_more(pod: Pod, allocated: Pod) -> bool:
    wanted, has = pod_requests(pod.spec), pod_requests(allocated.spec)
    return any(wanted.get(name, _ZERO) > has.get(name, _ZERO) for name in (CPU, MEMORY))


def _asked(pod: Pod, name: str) -> Quantity:
    """Overhead comes on top of a request, never alone; and a pod with resources of its own counts only by those."""
    whole = pod.spec.resources
    is_pod_level = whole is not None and any(map(is_pod_level_resource, (*whole.requests, *whole.limits)))
    requests = pod_level_requests(pod.spec) if is_pod_level else container_requests(pod.spec)
    own = requests.get(name, _ZERO)
    return own + pod.spec.overhead.get(name, _ZERO) if own else own


def _requests_differ(pod: Pod, allocated: Pod, name: str) -> bool:
    has = {each.name: each.resources.requests for each in resizable_containers(allocated)}
    return any(
        each.resources.requests.get(name, _ZERO) != has.get(each.name, {}).get(name, _ZERO)
        for each in resizable_containers(pod)
    )


def _moves_swap(pod: Pod, allocated: Pod, rules: ResizeRules) -> bool:
    """How much swap a container gets follows from its memory request, and cannot change while it runs."""
    if not rules.limited_swap:
        return False
    has = {each.name: each for each in (*allocated.spec.containers, *allocated.spec.init_containers)}
    for wanted in (*pod.spec.containers, *pod.spec.init_containers):
        given = has[wanted.name]
        if wanted.resources.requests.get(MEMORY, _ZERO) == given.resources.requests.get(MEMORY, _ZERO):
            continue
        if _restarts_for(given, MEMORY):
            continue
        if _may_swap(pod, wanted) or _may_swap(allocated, given):
            return True
    return False


def _may_swap(pod: Pod, container: Container) -> bool:
    wanted, most = container.resources.requests.get(MEMORY, _ZERO), container.resources.limits.get(MEMORY, _ZERO)
    return not is_critical(pod) and qos_class(pod) == "Burstable" and wanted != most


def _restarts_for(container: Container, name: str) -> bool:
    policy = next((each for each in container.resize_policy if each.resource_name == name), None)
    return policy is not None and policy.restart_policy == "RestartContainer"

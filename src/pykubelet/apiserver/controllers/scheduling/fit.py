"""Whether a pod fits on a node, and on which of several it fits best. In the words of the Kubernetes scheduler."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.node import Node
from pykubelet.api.pod import PodSpec
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.host_ports import HostPort, collide, host_ports
from pykubelet.api.rules.node_affinity import is_attracted, term_holds
from pykubelet.api.rules.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, pod_requests, total
from pykubelet.api.rules.taints import tolerates
from pykubelet.api.rules.well_known import NOT_READY_TAINT, UNSCHEDULABLE_TAINT
from pykubelet.api.scheduling import Taint
from pykubelet.apiserver.objects import Object, at

NO_NODES: Final = "no nodes available to schedule pods"
CORDONED: Final = "node(s) were unschedulable"
TAINTED: Final = "node(s) had untolerated taint(s)"
UNATTRACTIVE: Final = "node(s) didn't match Pod's node affinity/selector"
HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")
_MOST: Final = 100.0


class Wish(Struct, frozen=True):
    """What a pod asks of a node."""

    spec: PodSpec
    requests: Mapping[str, Quantity]
    ports: tuple[HostPort, ...]


class Place(Struct, frozen=True):
    """A node, as far as pods are concerned."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Mapping[str, Quantity]
    is_cordoned: bool


class Use(Struct, frozen=True):
    """What is taken of a node already."""

    requests: Mapping[str, Quantity] = {}
    ports: frozenset[HostPort] = frozenset()
    pods: int = 0


def wish(spec: PodSpec) -> Wish:
    return Wish(spec, pod_requests(spec), host_ports(spec))


def place(node: Object) -> Place:
    """A node that cannot be read takes no pods."""
    try:
        typed = convert(Node, node)
    except DecodeError:
        return Place(str(at(node, "metadata.name", "")), {}, (), {}, True)
    taints = typed.spec.taints
    is_ready = any(each.type == "Ready" and each.status == "True" for each in typed.status.conditions)
    if not is_ready and not any(taint.key == NOT_READY_TAINT for taint in taints):
        taints = (*taints, Taint(key=NOT_READY_TAINT, effect="NoSchedule"))
    allocatable = typed.status.allocatable or typed.status.capacity
    return Place(typed.metadata.name, typed.metadata.labels, taints, allocatable, bool(typed.spec.unschedulable))


def use(wishes: Iterable[Wish]) -> Use:
    everything = list(wishes)
    ports = frozenset(port for each in everything for port in each.ports)
    return Use(total(each.requests for each in everything), ports, len(everything))


def reasons(pod: Wish, node: Place, used: Use) -> list[str]:
    """Why the pod does not fit; empty when it does. The first kind of obstacle hides the later ones."""
    spec = pod.spec
    if node.is_cordoned and not tolerates(spec.tolerations, Taint(key=UNSCHEDULABLE_TAINT, effect="NoSchedule")):
        return [CORDONED]
    for taint in node.taints:
        if taint.effect in HARD_EFFECTS and not tolerates(spec.tolerations, taint):
            return [TAINTED]
    if not is_attracted(spec, node.name, node.labels):
        return [UNATTRACTIVE]
    if any(collide(one, other) for one in pod.ports for other in used.ports):
        return ["node(s) didn't have free ports for the requested pod ports"]
    return _shortages(pod, node, used)


def exceeds(pod: Wish, node: Place) -> bool:
    """Whether the pod asks for more than the node would have if it were empty."""
    return any(amount > node.allocatable.get(name, Quantity(0)) for name, amount in pod.requests.items() if amount)


def message(faults: Collection[Sequence[str]]) -> str:
    """For a pod that fits nowhere: how many nodes stand in its way, and by what."""
    if not faults:
        return NO_NODES
    counted = Counter(reason for each in faults for reason in each)
    listed = sorted(f"{count} {reason}" for reason, count in counted.items())
    return f"0/{len(faults)} nodes are available: {', '.join(listed)}."


def score(pod: Wish, node: Place, used: Use) -> float:
    """The more of the node is left with the pod on it, the better; what it prefers itself counts for more."""
    left = []
    for name in (CPU, MEMORY):
        has = node.allocatable.get(name)
        if has is None or has.nanos <= 0:
            left.append(0.0)
            continue
        taken = sum(each.nanos for each in (used.requests.get(name), pod.requests.get(name)) if each is not None)
        left.append(max(0.0, 1 - taken / has.nanos))
    result = _MOST * sum(left) / len(left)
    terms = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    preferred = terms.preferred_during_scheduling_ignored_during_execution if terms else ()
    wanted = sum(each.weight for each in preferred)
    if wanted:
        met = sum(each.weight for each in preferred if term_holds(each.preference, node.name, node.labels))
        result += 2 * _MOST * met / wanted
    shunned = [taint for taint in node.taints if taint.effect == "PreferNoSchedule"]
    return result - 3 * _MOST * any(not tolerates(pod.spec.tolerations, taint) for taint in shunned)


def chosen(
    pod: Wish,
    nodes: Mapping[str, tuple[Place, Use]],
    also: Callable[[Place], list[str]] = lambda node: [],
    bonus: Callable[[Sequence[Place]], Mapping[str, float]] = lambda nodes: {},
) -> tuple[str, dict[str, list[str]]]:
    """The node for the pod, or else what speaks against each. `also`: what else may speak against a node that it fits
    on; `bonus`: what else speaks for some of those that are left."""
    faults, left = dict[str, list[str]](), []
    for name, (node, used) in sorted(nodes.items()):
        if found := reasons(pod, node, used) or also(node):
            faults[name] = found
        else:
            left.append((node, used))
    if not left:
        return "", faults
    more = bonus([node for node, _ in left])
    best, _ = max(left, key=lambda each: (score(pod, *each) + more.get(each[0].name, 0.0), -each[1].pods))
    return best.name, {}


def _shortages(pod: Wish, node: Place, used: Use) -> list[str]:
    found = []
    most = node.allocatable.get(PODS)
    if most is not None and used.pods + 1 > most.value:
        found.append("Too many pods")
    for name, amount in sorted(pod.requests.items(), key=_order):
        has = node.allocatable.get(name, Quantity(0))
        taken = used.requests.get(name, Quantity(0))
        if amount and amount > has - taken:
            found.append(f"Insufficient {name}")
    return found


def _order(request: tuple[str, Quantity]) -> tuple[int, str]:
    first = (CPU, MEMORY, EPHEMERAL_STORAGE)
    return (first.index(request[0]) if request[0] in first else len(first), request[0])


def is_waiting(pod: Object, scheduler: str) -> bool:
    """Whether a pod wants this scheduler to find it a node."""
    spec = pod.get("spec") or {}
    return (
        not spec.get("nodeName")
        and spec.get("schedulerName", scheduler) == scheduler
        and not spec.get("schedulingGates")
        and not at(pod, "metadata.deletionTimestamp")
        and at(pod, "status.phase", "Pending") not in ("Succeeded", "Failed")
    )

"""Whether a pod fits on a node, and on which of several it fits best. In the words of the Kubernetes scheduler."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.node import Node
from pykubelet.api.pod import PodSpec
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.resources import CPU, MEMORY, container_requests, is_pod_level_resource, total
from pykubelet.api.scheduling import NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from pykubelet.api.selectors import requirement
from pykubelet.apiserver.objects import Object, at

UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
NO_NODES: Final = "no nodes available to schedule pods"
_HARD: Final = ("NoSchedule", "NoExecute")
_MOST: Final = 100.0
_PODS: Final = "pods"
HostPort = tuple[str, str, int]
"""address, protocol, port"""


class Wish(Struct, frozen=True):
    """What a pod asks of a node."""

    spec: PodSpec
    requests: Mapping[str, Quantity]
    ports: frozenset[HostPort]


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
    if not is_ready and not any(taint.key == NOT_READY for taint in taints):
        taints = (*taints, Taint(key=NOT_READY, effect="NoSchedule"))
    allocatable = typed.status.allocatable or typed.status.capacity
    return Place(typed.metadata.name, typed.metadata.labels, taints, allocatable, bool(typed.spec.unschedulable))


def pod_requests(spec: PodSpec) -> dict[str, Quantity]:
    requests = container_requests(spec)
    if spec.resources is not None:
        requests |= {name: amount for name, amount in spec.resources.requests.items() if is_pod_level_resource(name)}
    return total([requests, spec.overhead])


def host_ports(spec: PodSpec) -> frozenset[HostPort]:
    return frozenset(
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # noqa: S104 - any address, in a pod's spec
        for container in (*spec.init_containers, *spec.containers)
        for port in container.ports
        if port.host_port
    )


def use(wishes: Iterable[Wish]) -> Use:
    everything = list(wishes)
    ports = frozenset(port for each in everything for port in each.ports)
    return Use(total(each.requests for each in everything), ports, len(everything))


def reasons(pod: Wish, node: Place, used: Use) -> list[str]:
    """Why the pod does not fit; empty when it does. The first kind of obstacle hides the later ones."""
    spec = pod.spec
    if node.is_cordoned and not tolerates(spec.tolerations, Taint(key=UNSCHEDULABLE, effect="NoSchedule")):
        return ["node(s) were unschedulable"]
    for taint in node.taints:
        if taint.effect in _HARD and not tolerates(spec.tolerations, taint):
            return ["node(s) had untolerated taint(s)"]
    if not _selects(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    if any(_collide(one, other) for one in pod.ports for other in used.ports):
        return ["node(s) didn't have free ports for the requested pod ports"]
    return _shortages(pod, node, used)


def message(faults: Sequence[Sequence[str]]) -> str:
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
        met = sum(each.weight for each in preferred if _matches(each.preference, node))
        result += 2 * _MOST * met / wanted
    shunned = [taint for taint in node.taints if taint.effect == "PreferNoSchedule"]
    return result - 3 * _MOST * any(not tolerates(pod.spec.tolerations, taint) for taint in shunned)


def chosen(
    pod: Wish,
    nodes: Mapping[str, tuple[Place, Use]],
    also: Callable[[Place], list[str]] = lambda node: [],
) -> tuple[str, str]:
    """The node for the pod, or else why there is none. `also`: what else may speak against a node that it fits on."""
    faults, best = [], None
    for name, (node, used) in sorted(nodes.items()):
        if found := reasons(pod, node, used) or also(node):
            faults.append(found)
            continue
        rank = (score(pod, node, used), -used.pods)
        if best is None or rank > best[0]:
            best = (rank, name)
    return (best[1], "") if best is not None else ("", message(faults))


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(is_tolerated_by(taint, each) for each in tolerations)


def is_tolerated_by(taint: Taint, toleration: Toleration) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value


def _selects(spec: PodSpec, node: Place) -> bool:
    if any(node.labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or any(_matches(term, node) for term in required.node_selector_terms)


def _matches(term: NodeSelectorTerm, node: Place) -> bool:
    """A term that asks for nothing selects nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.name}
    return all(_holds(each, node.labels) for each in term.match_expressions) and all(
        _holds(each, fields) for each in term.match_fields
    )


def _holds(asked: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    try:
        return requirement(asked.key, asked.operator, asked.values).holds(labels)
    except ValueError:
        return False


def _collide(one: HostPort, other: HostPort) -> bool:
    anywhere = ("0.0.0.0", "::")  # noqa: S104 - any address, in a pod's spec
    return one[1:] == other[1:] and (one[0] == other[0] or one[0] in anywhere or other[0] in anywhere)


def _shortages(pod: Wish, node: Place, used: Use) -> list[str]:
    found = []
    most = node.allocatable.get(_PODS)
    if most is not None and used.pods + 1 > most.value:
        found.append("Too many pods")
    for name, amount in sorted(pod.requests.items(), key=_order):
        has = node.allocatable.get(name, Quantity(0))
        taken = used.requests.get(name, Quantity(0))
        if amount and amount > has - taken:
            found.append(f"Insufficient {name}")
    return found


def _order(request: tuple[str, Quantity]) -> tuple[int, str]:
    first = (CPU, MEMORY, "ephemeral-storage")
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

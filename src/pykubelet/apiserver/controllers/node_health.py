"""What becomes of a node and its pods when it is not well: its taints, and how long each pod stays. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.rules.taints import is_tolerated_by
from pykubelet.api.rules.well_known import NOT_READY_TAINT, UNREACHABLE_TAINT, UNSCHEDULABLE_TAINT
from pykubelet.api.scheduling import Taint, Toleration
from pykubelet.apiserver.controllers.conditions import condition, conditioned
from pykubelet.apiserver.objects import Object, at, has_ended

_OWN_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_PRESSURES: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OURS: Final = frozenset((NOT_READY_TAINT, UNREACHABLE_TAINT, UNSCHEDULABLE_TAINT, *_PRESSURES.values()))


def lost(node: Object, now: str) -> Object:
    """A node of which nothing was heard for too long: nobody knows how it is."""
    for kind in _OWN_CONDITIONS:
        was = condition(node, kind)
        if was.get("status") == "Unknown":
            continue
        never = not was
        unknown = {
            "type": kind,
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
            "message": "Kubelet never posted node status." if never else "Kubelet stopped posting node status.",
        }
        if never:
            unknown["lastHeartbeatTime"] = at(node, "metadata.creationTimestamp", now)
        node = conditioned(node, unknown, now)
    return node


def drives_away(nodes: Sequence[Object]) -> bool:
    """Whether pods leave nodes that are not well: not when none is."""
    return any(condition(each, "Ready").get("status") == "True" for each in nodes)


def tainted(node: Object, now: str, *, drives: bool = True) -> Object | None:
    """The node with the taints that its conditions call for; None when it has just those. `drives`: pods have to leave
    nodes that are not well."""
    there = at(node, "spec.taints", [])
    wanted = [each for each in _wanted(node) if drives or each[1] != "NoExecute"]
    kept = [each for each in there if each.get("key") not in _OURS or (each["key"], each.get("effect")) in wanted]
    have = {(each.get("key"), each.get("effect")) for each in kept}
    new = [{"key": key, "effect": effect, "timeAdded": now} for key, effect in wanted if (key, effect) not in have]
    if not new and len(kept) == len(there):
        return None
    spec = {name: value for name, value in node.get("spec", {}).items() if name != "taints"}
    return {**node, "spec": {**spec, **({"taints": [*kept, *new]} if kept or new else {})}}


def _wanted(node: Object) -> list[tuple[str, str]]:
    found = []
    ready = condition(node, "Ready").get("status", "Unknown" if at(node, "status.conditions") else "False")
    if ready != "True":
        key = NOT_READY_TAINT if ready == "False" else UNREACHABLE_TAINT
        found += [(key, "NoSchedule"), (key, "NoExecute")]
    found += [(key, "NoSchedule") for kind, key in _PRESSURES.items() if condition(node, kind).get("status") == "True"]
    if at(node, "spec.unschedulable"):
        found.append((UNSCHEDULABLE_TAINT, "NoSchedule"))
    return found


class Stay(Struct, frozen=True):
    """A pod on a node, as far as being driven from it goes."""

    namespace: str
    name: str
    node: str
    is_leaving: bool
    is_ready: bool
    tolerations: tuple[Toleration, ...]


def stay(pod: Object) -> Stay:
    try:
        tolerations = tuple(convert(Toleration, each) for each in at(pod, "spec.tolerations", []))
    except DecodeError:
        tolerations = (Toleration(operator="Exists"),)  # what cannot be read is left in peace
    over = has_ended(pod)
    return Stay(
        at(pod, "metadata.namespace", ""),
        at(pod, "metadata.name", ""),
        at(pod, "spec.nodeName", ""),
        over or bool(at(pod, "metadata.deletionTimestamp")),
        condition(pod, "Ready").get("status") == "True",
        tolerations,
    )


def driving_taints(node: Object) -> list[Taint]:
    found = [each for each in at(node, "spec.taints", []) if each.get("effect") == "NoExecute"]
    try:
        return [convert(Taint, each) for each in found]
    except DecodeError:
        return []


def leaves_at(pod: Stay, taints: Sequence[Taint], now: datetime) -> datetime | None:
    """When the pod has to leave its node; None: it may stay."""
    end: datetime | None = None
    for taint in taints:
        matching = [each for each in pod.tolerations if is_tolerated_by(taint, each)]
        if not matching:
            return now
        limits = [each.toleration_seconds for each in matching if each.toleration_seconds is not None]
        if not limits:
            continue
        since = taint.time_added or now
        until = datetime.fromtimestamp(since.timestamp() + max(0, min(limits)), now.tzinfo)
        end = until if end is None else min(end, until)
    return end


def not_ready(pod: Object, now: str) -> Object | None:
    """The pod of a node that is not ready is not ready either."""
    is_ready = condition(pod, "Ready").get("status") == "True"
    return conditioned(pod, {"type": "Ready", "status": "False"}, now) if is_ready else None

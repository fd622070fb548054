"""Which volumes are to be attached to which nodes, and when one may be detached. Pure; names and words are upstream's.

Everything is decided from what is there: what pods claim, what nodes say they have in use, and the attachments. The one
thing that has to be remembered is since when nobody wants an attachment any longer.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from pykubelet.api.rules.csi_names import attachment_name, of_unique_name, unique_name
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.volumes.binding_rules import claim_names, own_claim_names
from pykubelet.apiserver.controllers.workloads.ownership import belongs_to
from pykubelet.apiserver.objects import Object, at, has_ended

MANAGED: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
PATIENCE: Final = 360.0
"""Seconds for which a node that is not well may keep what nobody wants any longer."""


class Attachable(Struct, frozen=True):
    """A volume that its driver attaches to nodes."""

    volume: str
    driver: str
    handle: str
    is_shared: bool
    """Whether several nodes may have it at once."""

    @property
    def name(self) -> str:
        """By which nodes speak of it."""
        return unique_name(self.driver, self.handle)

    def at_node(self, node: str) -> str:
        """The name of its attachment."""
        return attachment_name(self.driver, self.handle, node)


class Host(Struct, frozen=True):
    """A node, as far as volumes are concerned."""

    name: str
    is_managed: bool
    is_ready: bool
    is_out_of_service: bool
    in_use: frozenset[str]
    attached: tuple[dict[str, Any], ...]
    """What its status says."""


class Holder(Struct, frozen=True):
    """A pod that has a node, with its claims."""

    pod: Object
    node: str
    claims: tuple[tuple[str, bool], ...]
    """Each with whether it has to be the pod's own."""


class Wish(Struct, frozen=True):
    """An attachment that pods need."""

    name: str
    node: str
    volume: Attachable
    pods: tuple[Object, ...]


class Attachment(Struct, frozen=True):
    """One that is there."""

    name: str
    node: str
    volume: str
    """The volume as nodes call it."""
    shown: str
    """And as people do."""
    is_attached: bool
    is_leaving: bool


class Plan(Struct, frozen=True):
    detach: tuple[str, ...]
    attach: tuple[Wish, ...]
    blocked: tuple[tuple[Wish, tuple[str, ...]], ...]
    """Each with the nodes that have the volume now."""


# --- what is there


def attachable(volume: Object, unattached: frozenset[str]) -> Attachable | None:
    """None: nobody has to attach it. `unattached` are drivers that say so of all of theirs."""
    driver, handle = at(volume, "spec.csi.driver", ""), at(volume, "spec.csi.volumeHandle", "")
    if not driver or not handle or driver in unattached:
        return None
    modes = at(volume, "spec.accessModes", ())
    shared = not modes or any(mode in ("ReadWriteMany", "ReadOnlyMany") for mode in modes)
    return Attachable(volume["metadata"]["name"], driver, handle, shared)


def host(node: Object) -> Host:
    return Host(
        node["metadata"]["name"],
        at(node, "metadata.annotations", {}).get(MANAGED) == "true",
        condition(node, "Ready").get("status") == "True",
        any(taint.get("key") == OUT_OF_SERVICE for taint in at(node, "spec.taints", ())),
        frozenset(at(node, "status.volumesInUse", ())),
        tuple(at(node, "status.volumesAttached", ())),
    )


def holder(pod: Object) -> Holder | None:
    """None: it needs nothing attached, or no longer does."""
    node = at(pod, "spec.nodeName", "")
    if not node or _is_over(pod):
        return None
    own = frozenset(own_claim_names(pod))
    claims = tuple((name, name in own) for name in claim_names(pod))
    return Holder(pod, node, claims) if claims else None


def _is_over(pod: Object) -> bool:
    """Also when it is to go and nothing of it runs."""
    if has_ended(pod):
        return True
    if not at(pod, "metadata.deletionTimestamp"):
        return False
    states = (at(each, "state", {}) for each in at(pod, "status.containerStatuses", ()))
    return all(state.get("terminated") or state.get("waiting") for state in states)


def attachment(obj: Object, volumes: Mapping[str, Attachable], hosts: Mapping[str, Host]) -> Attachment | None:
    """None: it is somebody else's. Where its volume has gone, its node may still know what it was."""
    name, node = obj["metadata"]["name"], at(obj, "spec.nodeName", "")
    volume = volumes.get(at(obj, "spec.source.persistentVolumeName", ""))
    if volume is not None and volume.at_node(node) == name:
        called, shown = volume.name, volume.volume
    else:
        there = hosts.get(node)
        known = [each.get("name", "") for each in there.attached] if there is not None else []
        called = shown = next((each for each in known if _attachment_of(each, node) == name), "")
    if not called:
        return None
    leaving = bool(at(obj, "metadata.deletionTimestamp"))
    return Attachment(name, node, called, shown, bool(at(obj, "status.attached")), leaving)


def _attachment_of(volume: str, node: str) -> str:
    found = of_unique_name(volume)
    return attachment_name(*found, node) if found is not None else ""


# --- what is wanted


def wishes(
    holders: Iterable[Holder],
    claims: Mapping[tuple[str, str], Object],
    volumes: Mapping[str, Object],
    attachables: Mapping[str, Attachable],
    hosts: Mapping[str, Host],
) -> dict[str, Wish]:
    """By the name of the attachment."""
    found: dict[str, Wish] = {}
    for each in holders:
        if each.node not in hosts or not hosts[each.node].is_managed:
            continue
        for name, is_own in each.claims:
            claim = claims.get((each.pod["metadata"]["namespace"], name))
            if claim is None or (is_own and not belongs_to(claim, each.pod)):
                continue
            bound = at(claim, "spec.volumeName", "") if at(claim, "status.phase") == "Bound" else ""
            wanted = attachables.get(bound)
            if wanted is None or at(volumes[bound], "spec.claimRef.uid") != claim["metadata"]["uid"]:
                continue
            key = wanted.at_node(each.node)
            others = found[key].pods if key in found else ()
            found[key] = Wish(key, each.node, wanted, (*others, each.pod))
    return found


def may_detach(volume: str, node: Host | None, waited: float) -> bool:
    """Whether what nobody wants may be taken from a node: not while it is mounted, as far as anybody can know."""
    if node is None:
        return waited > PATIENCE
    if volume not in node.in_use or node.is_out_of_service:
        return True
    return not node.is_ready and waited > PATIENCE


def plan(
    wanted: Mapping[str, Wish],
    there: Sequence[Attachment],
    hosts: Mapping[str, Host],
    waited: Mapping[str, float],
) -> Plan:
    """`waited`: attachments that nobody wants, and for how many seconds. Only those are detached."""
    detach = tuple(
        each.name
        for each in there
        if each.name in waited
        and not each.is_leaving
        and may_detach(each.volume, hosts.get(each.node), waited[each.name])
    )
    names = {each.name for each in there}
    holding: dict[str, list[str]] = {}
    for each in there:
        holding.setdefault(each.volume, []).append(each.node)
    attach, blocked = list[Wish](), list[tuple[Wish, tuple[str, ...]]]()
    for wish in wanted.values():
        if wish.name in names:
            continue
        others = holding.setdefault(wish.volume.name, [])
        if others and not wish.volume.is_shared:
            blocked.append((wish, tuple(others)))
            continue
        others.append(wish.node)
        attach.append(wish)
    return Plan(detach, tuple(attach), tuple(blocked))


def reported(node: Host, there: Iterable[Attachment], leaving: Iterable[str]) -> list[dict[str, Any]] | None:
    """What the status of a node says is attached to it: what others have written there stays. None: it says so."""
    gone = frozenset(leaving)
    ours = {
        each.volume
        for each in there
        if each.node == node.name and each.is_attached and not each.is_leaving and each.name not in gone
    }
    kept = [each for each in node.attached if of_unique_name(each.get("name", "")) is None or each["name"] in ours]
    have = {each["name"] for each in kept}
    result = [*kept, *({"name": name, "devicePath": ""} for name in sorted(ours - have))]
    return None if result == list(node.attached) else result


# --- what is said


def succeeded(volume: str) -> str:
    return f'AttachVolume.Attach succeeded for volume "{volume}" '


def failed(volume: str, why: str) -> str:
    return f'AttachVolume.Attach failed for volume "{volume}" : {why}'


def nobody_came(volume: Attachable) -> str:
    return f"timed out waiting for external-attacher of {volume.driver} CSI driver to attach volume {volume.handle}"


def exclusive(volume: str, pod: Object, users: Iterable[Object]) -> str:
    """Nobody is told the names of pods in other namespaces."""
    others = list(users)
    near = [each["metadata"]["name"] for each in others if _namespace(each) == _namespace(pod)]
    far = len(others) - len(near)
    if near:
        more = f" and {far} pod(s) in different namespaces" if far else ""
        text = f"Volume is already used by pod(s) {', '.join(near)}{more}"
    elif far:
        text = f"Volume is already used by {far} pod(s) in different namespaces"
    else:
        text = "Volume is already exclusively attached to one node and can't be attached to another"
    return f'Multi-Attach error for volume "{volume}" {text}'


def _namespace(obj: Object) -> str:
    namespace: str = obj["metadata"].get("namespace", "")
    return namespace

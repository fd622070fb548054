"""Which nodes a pod's claims let it run on, and what has to be settled before it does. Pure."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from pykubelet.api.quantity import Quantity
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.selectors import from_json, matches
from pykubelet.apiserver.controllers.scheduling.fit import Place
from pykubelet.apiserver.controllers.scheduling.volume_limits import (
    EXCEEDED,
    Key,
    NodeVolumes,
    PodClaims,
    driver_volume,
)
from pykubelet.apiserver.controllers.volumes import binding_rules as rules
from pykubelet.apiserver.controllers.workloads.ownership import belongs_to
from pykubelet.apiserver.objects import Object, at, has_ended
from pykubelet.apiserver.strategies.storage_classes import class_of

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
ZONE = "node(s) had no available volume zone"
NONE_FITS = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
FOR_GOOD = frozenset((CONFLICT, ZONE, NONE_FITS, NO_SPACE, GONE))
"""What nobody's leaving would change."""
_NEWER = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_AT_A_GLANCE = 100
"""Claims times volumes, on each node."""
_ZONES = frozenset((*_NEWER, *_NEWER.values()))


class Settlement(Struct, frozen=True):
    """What is still to be done for a pod's claims once its node is known."""

    kept: tuple[tuple[Object, Object], ...] = ()
    """Volumes, each with the claim that it is to be kept for."""
    made: tuple[Object, ...] = ()
    """Claims for which a volume is to be made on the node."""

    @property
    def is_empty(self) -> bool:
        return not self.kept and not self.made


class PodVolumes:
    """The claims of one pod. `trouble` speaks against every node."""

    def __init__(self, pod: Object, storage: "Storage") -> None:
        self._storage = storage
        self._key = pod["metadata"].get("namespace", ""), pod["metadata"]["name"]
        self._bound: list[Object] = []
        self._open: list[Object] = []
        self._found: dict[str, Settlement | str] = {}
        self._alone: list[str] = []
        """Claims that only one pod may use."""
        self.trouble = self._sorted(pod)

    def _sorted(self, pod: Object) -> str:
        namespace, own = self._key[0], frozenset(rules.own_claim_names(pod))
        for name in rules.claim_names(pod):
            claim = self._storage.claims.get((namespace, name))
            if claim is None and name in own:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if name in own and not belongs_to(claim, pod):
                return f"PVC {namespace}/{name} was not created for pod {'/'.join(self._key)} (pod is not owner)"
            if at(claim, "metadata.deletionTimestamp"):
                return f'persistentvolumeclaim "{name}" is being deleted'
            if at(claim, "status.phase") == "Lost":
                volume = at(claim, "spec.volumeName", "")
                return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
            if "ReadWriteOncePod" in at(claim, "spec.accessModes", ()):
                self._alone.append(name)
            if at(claim, "spec.volumeName", ""):
                if not rules.annotation(claim, rules.BIND_COMPLETED):
                    return UNBOUND
                self._bound.append(claim)
            elif self._storage.is_delayed(claim):
                self._open.append(claim)
            else:
                return UNBOUND
        return ""

    @property
    def takes_long(self) -> bool:
        """Whether so many volumes are held against claims that others would have to wait."""
        return len(self._open) * len(self._storage.volumes) > _AT_A_GLANCE

    def reasons(self, node: Place) -> list[str]:
        if self.trouble:
            return [self.trouble]
        if crowded := self.crowded(node.name):
            return crowded
        for claim in self._bound:
            volume = self._storage.volumes.get(at(claim, "spec.volumeName"))
            if volume is None:
                return [GONE]
            if not rules.reaches(volume, node.name, node.labels):
                return [CONFLICT]
            if not _is_in_zone(volume, node.labels):
                return [ZONE]
        found = self._settle(node) if self._open else None
        return [found] if isinstance(found, str) else []

    def crowded(self, node: str, leaving: Collection[Key] = ()) -> list[str]:
        """What stands in the way as long as others are there. `leaving`: those who are thought away."""
        namespace = self._key[0]
        for name in self._alone:
            if any(
                user not in leaving and user != self._key for user in self._storage.users.get((namespace, name), ())
            ):
                return [IN_USE]
        there = self._storage.nodes.get(node)
        if there is None:
            return []
        found = (
            driver_volume(claim, self._storage.volumes, self._storage.classes) for claim in (*self._bound, *self._open)
        )
        return [] if there.has_room([each for each in found if each is not None], leaving) else [EXCEEDED]

    def settlement(self, node: Place) -> Settlement | None:
        """None: the node cannot give the pod what it claims."""
        found = self._settle(node)
        return None if isinstance(found, str) else found

    def _settle(self, node: Place) -> Settlement | str:
        """A text says why not. It is found once for each node."""
        found = self._found.get(node.name)
        if found is None:
            found = self._found[node.name] = self._settled(node)
        return found

    def _settled(self, node: Place) -> Settlement | str:
        kept: list[tuple[Object, Object]] = []
        made: list[Object] = []
        for claim in sorted(self._open, key=rules.size_of):
            chosen = rules.annotation(claim, rules.SELECTED_NODE)
            if chosen not in ("", node.name):
                return NONE_FITS  # it is being made elsewhere
            taken = frozenset(volume["metadata"]["name"] for volume, _ in kept)
            where = node.name, node.labels
            volume = rules.best_volume(claim, self._storage.volumes.values(), node=where, taken=taken)
            if volume is not None:
                kept.append((volume, claim))
            elif not self._storage.can_make(claim, node):
                return NONE_FITS
            elif not chosen and not self._storage.has_space(claim, node):
                return NO_SPACE
            else:
                made.append(claim)
        return Settlement(tuple(kept), tuple(made))


class Storage(Struct, frozen=True):
    """All that is known of claims, in one look."""

    claims: Mapping[tuple[str, str], Object] = {}
    volumes: Mapping[str, Object] = {}
    classes: Mapping[str, Object] = {}
    users: Mapping[Key, frozenset[Key]] = {}
    """By claim: the pods that use it and have a node."""
    nodes: Mapping[str, NodeVolumes] = {}
    """Those that can only have so many volumes."""
    measured: frozenset[str] = frozenset()
    """Drivers that say how much room they have, and where."""
    capacities: Sequence[Object] = ()

    def is_delayed(self, claim: Object) -> bool:
        found = self.classes.get(class_of(claim))
        return found is not None and found.get("volumeBindingMode") == rules.DELAYED

    def can_make(self, claim: Object, node: Place) -> bool:
        """Whether somebody says that he makes volumes for the class, and on that node."""
        found = self.classes.get(class_of(claim))
        if found is None or found.get("provisioner", "") in ("", rules.NO_PROVISIONER):
            return False
        terms = found.get("allowedTopologies") or ()
        return not terms or any(_is_in(term, node.labels) for term in terms)

    def has_space(self, claim: Object, node: Place) -> bool:
        """Whether whoever makes the volume has room for it where the node can reach it, if he says anything of it."""
        name = class_of(claim)
        if self.classes[name].get("provisioner", "") not in self.measured:
            return True
        wanted = rules.size_of(claim)
        return any(
            each.get("storageClassName") == name and _offers(each, node.labels) >= wanted for each in self.capacities
        )


def _offers(capacity: Object, labels: Mapping[str, str]) -> Quantity:
    """The largest volume that a node with these labels can have of it."""
    most = capacity.get("maximumVolumeSize") or capacity.get("capacity")
    where = capacity.get("nodeTopology")
    if most is None or where is None or not matches(from_json(where), labels):
        return Quantity(-1)
    return parse_quantity(str(most))


def _is_in_zone(volume: Object, labels: Mapping[str, str]) -> bool:
    """Whether the node is where the volume's labels say; one of which nobody says where it is, is everywhere."""
    if _ZONES.isdisjoint(labels):
        return True
    for key, value in at(volume, "metadata.labels", {}).items():
        where = labels.get(key, labels.get(_NEWER.get(key, key)))
        if key in _ZONES and where not in value.split("__"):
            return False
    return True


def _is_in(term: Object, labels: Mapping[str, str]) -> bool:
    return all(
        labels.get(each.get("key", "")) in (each.get("values") or ())
        for each in term.get("matchLabelExpressions") or ()
    )


def claims_in_use(pod: Object) -> PodClaims:
    is_over = has_ended(pod)
    node = at(pod, "spec.nodeName", "")
    names = rules.claim_names(pod) if node and not is_over else ()
    return PodClaims((pod["metadata"].get("namespace", ""), pod["metadata"]["name"]), node, names)

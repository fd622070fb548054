"""Which nodes a pod's claims let it run on, and what has to be settled before it does. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from pykubelet.apiserver.controllers.scheduling.fit import Place
from pykubelet.apiserver.controllers.volumes import binding_rules as rules
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.storage_classes import class_of

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
CONFLICT = "node(s) had volume node affinity conflict"
NONE_FITS = "node(s) didn't find available persistent volumes to bind"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IN_USE = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


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
        self._bound: list[Object] = []
        self._open: list[Object] = []
        self.trouble = self._sorted(pod)

    def _sorted(self, pod: Object) -> str:
        namespace = pod["metadata"].get("namespace", "")
        for name in rules.claim_names(pod):
            claim = self._storage.claims.get((namespace, name))
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if at(claim, "metadata.deletionTimestamp"):
                return f'persistentvolumeclaim "{name}" is being deleted'
            if at(claim, "status.phase") == "Lost":
                volume = at(claim, "spec.volumeName", "")
                return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
            if "ReadWriteOncePod" in at(claim, "spec.accessModes", ()) and self._storage.is_used(pod, name):
                return IN_USE
            if at(claim, "spec.volumeName", ""):
                if not rules.annotation(claim, rules.BIND_COMPLETED):
                    return UNBOUND
                self._bound.append(claim)
            elif self._storage.is_delayed(claim):
                self._open.append(claim)
            else:
                return UNBOUND
        return ""

    def reasons(self, node: Place) -> list[str]:
        if self.trouble:
            return [self.trouble]
        for claim in self._bound:
            volume = self._storage.volumes.get(at(claim, "spec.volumeName"))
            if volume is None:
                return [GONE]
            if not rules.reaches(volume, node.name, node.labels):
                return [CONFLICT]
        return [] if not self._open or self.settlement(node) is not None else [NONE_FITS]

    def settlement(self, node: Place) -> Settlement | None:
        """None: the node cannot give the pod what it claims."""
        kept: list[tuple[Object, Object]] = []
        made: list[Object] = []
        for claim in sorted(self._open, key=rules.size_of):
            chosen = rules.annotation(claim, rules.SELECTED_NODE)
            if chosen not in ("", node.name):
                return None  # it is being made elsewhere
            taken = frozenset(volume["metadata"]["name"] for volume, _ in kept)
            where = node.name, node.labels
            volume = rules.best_volume(claim, self._storage.volumes.values(), node=where, taken=taken)
            if volume is not None:
                kept.append((volume, claim))
            elif self._storage.can_make(claim, node):
                made.append(claim)
            else:
                return None
        return Settlement(tuple(kept), tuple(made))


class Storage(Struct, frozen=True):
    """All that is known of claims, in one look."""

    claims: Mapping[tuple[str, str], Object] = {}
    volumes: Mapping[str, Object] = {}
    classes: Mapping[str, Object] = {}
    users: Mapping[tuple[str, str], frozenset[str]] = {}
    """By claim: the pods that use it and have a node."""

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

    def is_used(self, pod: Object, claim: str) -> bool:
        """By another pod."""
        users = self.users.get((pod["metadata"].get("namespace", ""), claim), frozenset())
        return bool(users - {pod["metadata"]["name"]})


def _is_in(term: Object, labels: Mapping[str, str]) -> bool:
    return all(
        labels.get(each.get("key", "")) in (each.get("values") or ())
        for each in term.get("matchLabelExpressions") or ()
    )


def claims_in_use(pod: Object) -> tuple[str, str, tuple[str, ...]]:
    """Namespace and name of a pod, and the claims that it keeps others from; none: it uses none, or does not run."""
    is_over = at(pod, "status.phase") in ("Succeeded", "Failed")
    names = rules.claim_names(pod) if at(pod, "spec.nodeName") and not is_over else ()
    return pod["metadata"].get("namespace", ""), pod["metadata"]["name"], names

"""The volume claims of a stateful set's pods: what they are called, and with whom they go."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykubelet.apiserver.controllers.workloads.ownership import controller_reference
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied

_DELETE: Final = "Delete"
References = list[dict[str, Any]]


class ClaimView(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    is_leaving: bool
    owners: tuple[dict[str, Any], ...]

    def head(self) -> Object:
        return {"metadata": {"namespace": self.namespace, "name": self.name, "uid": self.uid}}


def claim_view(obj: Object) -> ClaimView:
    metadata = obj["metadata"]
    return ClaimView(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        is_leaving="deletionTimestamp" in metadata,
        owners=tuple(metadata.get("ownerReferences") or ()),
    )


def claim_names(obj: Object, ordinal: int) -> dict[str, str]:
    """The name of the claim behind each volume that the set gives to this pod."""
    name = obj["metadata"]["name"]
    templates = at(obj, "spec.volumeClaimTemplates", ())
    return {each["metadata"]["name"]: f"{each['metadata']['name']}-{name}-{ordinal}" for each in templates}


def claims_of(obj: Object, ordinal: int) -> list[Object]:
    """The claims of one pod, as they are made."""
    names, labels = claim_names(obj, ordinal), at(obj, "spec.selector.matchLabels", {})
    made = []
    for template in at(obj, "spec.volumeClaimTemplates", ()):
        given = copied(template)
        metadata = {**given["metadata"], "name": names[given["metadata"]["name"]]}
        metadata["namespace"] = obj["metadata"]["namespace"]
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        if goes_with_set(obj):
            metadata["ownerReferences"] = [controller_reference(obj)]
        made.append({"metadata": metadata, "spec": given.get("spec") or {}})
    return made


def policy(obj: Object) -> tuple[bool, bool]:
    """Whether claims are deleted with the set, and with a pod that is no longer wanted."""
    given = at(obj, "spec.persistentVolumeClaimRetentionPolicy", {})
    return given.get("whenDeleted") == _DELETE, given.get("whenScaled") == _DELETE


def goes_with_set(obj: Object) -> bool:
    return policy(obj)[0]


def owners_wanted(claim: ClaimView, obj: Object, pod: Object, *, is_wanted: bool) -> References | None:
    """The owners that a claim is to have; None: as it is. `is_wanted`: the pod is one of those that the set wants.

    A claim that belonged to an earlier set or pod of the name is left alone: it is on its way out, or somebody else's.
    """
    if any(_is_of(each, other) and each.get("uid") != _uid(other) for each in claim.owners for other in (obj, pod)):
        return None
    others = [each for each in claim.owners if not _is_of(each, obj) and not _is_of(each, pod)]
    with_set, with_pod = policy(obj)
    wanted = list(others)
    if not any(each.get("controller") for each in others) or not (with_set or with_pod):
        if with_pod and not is_wanted:
            wanted.append(controller_reference(pod))
        elif with_set:
            wanted.append(controller_reference(obj))
    return None if _facts(wanted) == _facts(claim.owners) else wanted


def is_stale(claim: ClaimView, obj: Object, pod_name: str) -> bool:
    """Whether it still goes with a pod that was there before: it has to be gone before there is another."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_name}}
    return policy(obj)[1] and any(_is_of(each, pod) for each in claim.owners)


def _is_of(reference: Mapping[str, Any], obj: Object) -> bool:
    its = (reference.get("apiVersion"), reference.get("kind"), reference.get("name"))
    return its == (obj["apiVersion"], obj["kind"], obj["metadata"]["name"])


def _uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid", ""))


def _facts(references: Any) -> set[tuple[Any, ...]]:
    return {(each.get("uid"), bool(each.get("controller"))) for each in references}

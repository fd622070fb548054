"""Claims on devices and their pods: whose a claim is, what is made from a template, and what goes back when. Pure."""

from collections.abc import Collection
from typing import Final

from pykubelet.api.rules.pod_claims import PodClaim
from pykubelet.apiserver.controllers.workloads.ownership import controller_reference
from pykubelet.apiserver.objects import Object, at, has_ended
from pykubelet.apiserver.schema.schema import copied

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Holds a claim as long as it has devices."""
POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""What a pod calls the claim that was made for it."""
_LONGEST: Final = 57
"""Of a name to which a hyphen and five letters are added."""


def owner_of(claim: Object) -> tuple[str, str]:
    """Name and uid of the pod that it was made for; empty: it was not."""
    for each in at(claim, "metadata.ownerReferences", ()):
        if each.get("controller") and (each.get("apiVersion"), each.get("kind")) == ("v1", "Pod"):
            return each.get("name", ""), each.get("uid", "")
    return "", ""


def made_for(claim: Object) -> tuple[str, str, str]:
    """Namespace and uid of the pod that it was made for, and what that calls it."""
    namespace, called = at(claim, "metadata.namespace", ""), at(claim, "metadata.annotations", {}).get(POD_CLAIM, "")
    return namespace, owner_of(claim)[1], called


def is_reserved(claim: Object, pod: Object) -> bool:
    uid = pod["metadata"].get("uid")
    return any(each.get("uid") == uid for each in at(claim, "status.reservedFor", ()))


def is_done(pod: Object) -> bool:
    """Whether it will never again use what it claims."""
    if has_ended(pod):
        return True
    return bool(at(pod, "metadata.deletionTimestamp")) and not at(pod, "spec.nodeName")


def claim_for(pod: Object, wanted: PodClaim, template: Object) -> Object:
    metadata, given = pod["metadata"], at(template, "spec.metadata", {})
    return {
        "metadata": {
            "generateName": generated_name(metadata["name"], wanted.name),
            "namespace": metadata["namespace"],
            "labels": dict(given.get("labels") or {}),
            "annotations": {**(given.get("annotations") or {}), POD_CLAIM: wanted.name},
            "ownerReferences": [controller_reference(pod)],
        },
        "spec": copied(at(template, "spec.spec", {})),
    }


def generated_name(pod: str, claim: str) -> str:
    """Of long names both parts are shortened alike."""
    whole = f"{pod}-{claim}-"
    if len(whole) <= _LONGEST:
        return whole
    return f"{pod[: len(pod) * _LONGEST // len(whole)]}-{claim[: len(claim) * _LONGEST // len(whole)]}"


# --- what is written


def named(pod: Object, made: dict[str, str]) -> Object:
    """The pod with the claims that were made for it."""
    status = pod.get("status") or {}
    told = [each for each in status.get("resourceClaimStatuses") or () if each.get("name") not in made]
    new = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
    return {**pod, "status": {**status, "resourceClaimStatuses": [*told, *new]}}


def reserved_for(claim: Object, pod: Object) -> Object | None:
    """One more may use it; None: he may already, or there is nothing to use."""
    status, metadata = claim.get("status") or {}, pod["metadata"]
    if status.get("allocation") is None or is_reserved(claim, pod) or at(claim, "metadata.deletionTimestamp"):
        return None
    user = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
    return {**claim, "status": {**status, "reservedFor": [*(status.get("reservedFor") or ()), user]}}


def left_by(claim: Object, gone: Collection[str]) -> Object | None:
    """The claim without those, by their uids; with the last of them go the devices, if they are ours to take. None:
    nothing changes."""
    status = claim.get("status") or {}
    users = status.get("reservedFor") or []
    left = [each for each in users if each.get("uid") not in gone]
    is_leaving = bool(at(claim, "metadata.deletionTimestamp"))
    is_freed = not left and is_protected(claim) and status.get("allocation") is not None
    if len(left) == len(users) and not (is_freed and is_leaving):
        return None
    dropped = {"reservedFor", *(("allocation",) if is_freed else ())}
    kept = {name: value for name, value in status.items() if name not in dropped}
    return {**claim, "status": {**kept, **({"reservedFor": left} if left else {})}}


def is_protected(claim: Object) -> bool:
    return FINALIZER in at(claim, "metadata.finalizers", ())


def let_go(claim: Object) -> Object | None:
    """Not held any more: it has no devices. None: it is not held, or has some."""
    if not is_protected(claim) or at(claim, "status.allocation") is not None:
        return None
    left = [each for each in claim["metadata"]["finalizers"] if each != FINALIZER]
    return {**claim, "metadata": {**claim["metadata"], "finalizers": left}}

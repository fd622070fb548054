"""What every write has to fulfil, whatever the kind: who the object is, which version it replaces, what holds it."""

from itertools import islice
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid
from pykubelet.api.validation.pod import MOST_FAULTS
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.options import DeleteOptions, Preconditions
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.strategies.base import FOREGROUND, ORPHAN, Strategy

_REPEATED: Final = ("metadata.labels", "metadata.annotations", "metadata.ownerReferences")
"""Whose faults upstream finds at four places on an update; clients that compare see them as often."""


def check_version(strategy: Strategy, obj: Object, old: Object, *, is_patch: bool) -> None:
    """That `obj` is meant to replace `old`. Raises 409 and 422.

    A patch may not change who the object is; a whole object that is somebody else comes too late.
    """
    resource, name = strategy.resource, old["metadata"]["name"]
    given, current = obj["metadata"].get("resourceVersion") or "", old["metadata"]["resourceVersion"]
    if given in ("", "0"):
        if not strategy.updates_unconditionally:
            error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise status.invalid(resource.kind, resource.group, name, [error])
    elif given != current:
        raise status.conflict(resource.plural, name, group=resource.group)
    uid, was = obj["metadata"].get("uid") or "", old["metadata"].get("uid", "")
    if uid and uid != was and not is_patch:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {was}"
        raise status.conflict(resource.plural, name, why, resource.group)


def identity_faults(metadata: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    faults = [
        invalid(f"metadata.{name}", metadata[name], "field is immutable")
        for name in ("name", "uid")
        if metadata.get(name) and metadata[name] != old.get(name)
    ]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if metadata.get(name) is not None and old.get(name) is None:
            faults.append(invalid(f"metadata.{name}", metadata[name], "field is immutable"))
    return faults


def update_faults(
    strategy: Strategy, identity: list[FieldError], obj: Object, old: Object, part: str
) -> list[FieldError]:
    errors = [*identity, *_finalizer_faults(obj, old)] * 2  # once for every object, and once for those of this kind
    own = list(islice(strategy.validate_update(obj, old, part), MOST_FAULTS))  # which looks at the metadata, too
    if own:
        errors += [each for each in strategy.validate_meta(obj) if each.field in _REPEATED] * 3
    return [*errors, *own]


def _finalizer_faults(obj: Object, old: Object) -> list[FieldError]:
    if not at(old, "metadata.deletionTimestamp"):
        return []
    held = set(at(old, "metadata.finalizers", []))
    new = [each for each in at(obj, "metadata.finalizers", []) if each not in held]
    if not new:
        return []
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {new}"
    return [forbidden("metadata.finalizers", detail)]


def check_preconditions(resource: Resource, old: Object, wanted: Preconditions | None) -> None:
    """Raises 409 when the object that is there is not the one that was meant."""
    if wanted is None:
        return
    metadata = old["metadata"]
    uid, version = metadata.get("uid", ""), metadata["resourceVersion"]
    why = ""
    if wanted.uid is not None and wanted.uid != uid:
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
    elif wanted.resource_version is not None and wanted.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the ResourceVersion "
            f"in record ({version}). The object might have been modified"
        )
    if why:
        raise status.conflict(resource.kind, metadata["name"], why, resource.group)


def hold_of(strategy: Strategy, wanted: DeleteOptions) -> str:
    """The finalizer that an object gets when it is deleted, for the sake of what belongs to it; empty: none."""
    if wanted.propagation_policy == "Foreground":
        return FOREGROUND
    if wanted.propagation_policy is None and wanted.orphan_dependents is None:
        return ORPHAN if strategy.orphans_by_default else ""
    return ORPHAN if wanted.propagation_policy == "Orphan" or wanted.orphan_dependents else ""


def is_emptied(strategy: Strategy, obj: Object) -> bool:
    """Whether nothing holds the object any longer that is to be deleted: it goes instead of being changed."""
    metadata = obj["metadata"]
    is_leaving = metadata.get("deletionTimestamp") and not metadata.get("deletionGracePeriodSeconds")
    return bool(is_leaving) and not strategy.is_held(obj)


def is_same(obj: Object, old: Object) -> bool:
    """Apart from its version."""
    version = old["metadata"]["resourceVersion"]
    return same({**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}, old)


def without_finalizer(obj: Object, finalizer: str) -> Object | None:
    """None when it has no such hold on it."""
    metadata = dict(obj["metadata"])
    held = metadata.pop("finalizers", None) or ()
    rest = [each for each in held if each != finalizer]
    if finalizer not in held:
        return None
    return {**obj, "metadata": {**metadata, "finalizers": rest} if rest else metadata}


def without_owners(obj: Object, uids: set[str]) -> Object:
    metadata = dict(obj["metadata"])
    owners = [each for each in metadata.pop("ownerReferences", ()) if each.get("uid") not in uids]
    return {**obj, "metadata": {**metadata, "ownerReferences": owners} if owners else metadata}

"""Delete: at once, or by marking the object so that whoever holds it can let go first."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.field_errors import not_supported
from pykubelet.api.struct import Int64, Struct, rfc3339
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, of_entry
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.requests import META_GROUP, list_options, number
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.status import ApiError, status_object
from pykubelet.apiserver.store.port import Entry, Stale
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.namespaces import NamespaceStrategy
from pykubelet.apiserver.verbs.bodies import parsed
from pykubelet.apiserver.verbs.orphan import orphan
from pykubelet.apiserver.verbs.selection import selection

_POLICIES: Final = ("Background", "Foreground", "Orphan")
_ANSWERED_WITH_OBJECT: Final = (
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "resourcequotas",
    "serviceaccounts",
    "services",
    "storageclasses",
)
_FOREGROUND: Final = "foregroundDeletion"
"""Holds an object until the garbage collector has seen that all that belonged to it is gone."""
_IMMORTAL: Final = ("default", "kube-system", "kube-public")


class Preconditions(Struct, frozen=True):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Struct, frozen=True):
    grace_period_seconds: Int64 | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: tuple[str, ...] = ()


async def delete(backend: Backend, call: Call) -> Answer:
    options = _options(call)
    obj, is_gone = await delete_object(backend, call, call.info.namespace, call.info.name, options)
    if not is_gone or call.resource.plural in _ANSWERED_WITH_OBJECT:
        return Answer(200, obj)
    resource, metadata = call.resource, obj["metadata"]
    details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural, "uid": metadata["uid"]}
    return Answer(200, status_object("Success", details={key: value for key, value in details.items() if value}))


async def delete_collection(backend: Backend, call: Call) -> Answer:
    options = _options(call)
    chosen = selection(backend.strategy(call.resource), list_options(call.query, call.info.verb))
    listing = await backend.cache.list_newest(call.resource.folder(call.info.namespace))
    gone: list[Object] = []
    for entry in listing.entries:
        if not chosen.holds(entry):
            continue
        metadata = of_entry(entry)["metadata"]
        try:
            obj, _ = await delete_object(backend, call, metadata.get("namespace", ""), metadata["name"], options)
        except ApiError as error:
            if error.reason != "NotFound":
                raise
        else:
            gone.append({key: value for key, value in obj.items() if key not in ("apiVersion", "kind")})
    resource = call.resource
    head: Object = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
    return Answer(200, {**head, "metadata": {"resourceVersion": str(listing.revision)}, "items": gone})


async def delete_object(
    backend: Backend, call: Call, namespace: str, name: str, options: DeleteOptions
) -> tuple[Object, bool]:
    """-> the object as it was last, and whether it is gone"""
    resource, strategy = call.resource, backend.strategy(call.resource)
    if isinstance(strategy, NamespaceStrategy) and name in _IMMORTAL:
        raise status.forbidden("namespaces", name, "this namespace may not be deleted")
    entry: Entry | None = None
    while True:
        entry = entry or await backend.read(resource, namespace, name)
        old = backend.object_of(resource, entry.value, entry.revision)
        _check_preconditions(call, old, options.preconditions)
        await backend.gate.check_body(call.user, call.info, None, old)
        marked, goes = _marked(strategy, old, options, backend.now())
        if options.dry_run:
            return marked, goes
        if options.propagation_policy == "Orphan" or options.orphan_dependents:
            await orphan(backend, old["metadata"].get("uid", ""))
        try:
            if marked is not old:
                old = await backend.update(resource, namespace, name, _if_unchanged(old, marked))
            if goes:
                await backend.remove(resource, old)
            return old, goes
        except Stale as stale:
            entry = stale.entry
        except _Changed:
            entry = None


class _Changed(Exception):
    """Somebody else has written in between."""


def _if_unchanged(old: Object, new: Object) -> Any:
    async def change(current: Object) -> Object:
        if current["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
            raise _Changed
        return new

    return change


def _marked(strategy: Strategy, old: Object, options: DeleteOptions, now: datetime) -> tuple[Object, bool]:
    """-> the object as it is to be written first (itself: as it is), and whether it is then to go"""
    metadata = old["metadata"]
    if isinstance(strategy, NamespaceStrategy):
        return _marked_namespace(strategy, old, now)
    waits = options.propagation_policy == "Foreground" and not metadata.get("deletionTimestamp")
    is_held = waits or bool(metadata.get("finalizers"))
    wanted = options.grace_period_seconds
    wanted = 1 if wanted is not None and wanted < 0 else wanted
    if metadata.get("deletionTimestamp"):
        left = metadata.get("deletionGracePeriodSeconds", 0)
        if not left:
            return old, not is_held
        if wanted is None or wanted >= left:
            return old, False
        return _shortened(old, left, wanted, now), wanted == 0 and not is_held
    grace = strategy.grace(old, wanted)
    if grace is None and not is_held:
        return old, True
    new = copied(old)
    new["metadata"]["deletionTimestamp"] = rfc3339(now + timedelta(seconds=grace or 0))
    new["metadata"]["deletionGracePeriodSeconds"] = grace or 0
    if waits and _FOREGROUND not in new["metadata"].get("finalizers", ()):
        new["metadata"]["finalizers"] = [*new["metadata"].get("finalizers", ()), _FOREGROUND]
    if metadata.get("generation"):
        new["metadata"]["generation"] = metadata["generation"] + 1
    return new, not grace and not is_held


def _shortened(old: Object, left: int, wanted: int, now: datetime) -> Object:
    new = copied(old)
    begun = datetime.fromisoformat(old["metadata"]["deletionTimestamp"]) - timedelta(seconds=left)
    end = begun + timedelta(seconds=wanted)
    if end < now:
        end, wanted = now, min(wanted, 1)
    new["metadata"]["deletionTimestamp"] = rfc3339(end)
    new["metadata"]["deletionGracePeriodSeconds"] = wanted
    return dict(new)


def _marked_namespace(strategy: NamespaceStrategy, old: Object, now: datetime) -> tuple[Object, bool]:
    is_held = strategy.is_held(old) or bool(old["metadata"].get("finalizers"))
    if old["metadata"].get("deletionTimestamp"):
        if is_held:
            what = "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace"
            message = f"{what} will automatically be purged by the system."
            raise status.conflict("namespaces", old["metadata"]["name"], message)
        return old, True
    new = copied(old)
    new["metadata"]["deletionTimestamp"] = rfc3339(now)
    new["status"] = {**new.get("status", {}), "phase": "Terminating"}
    return new, not is_held


def _check_preconditions(call: Call, old: Object, wanted: Preconditions | None) -> None:
    if wanted is None:
        return
    resource, metadata = call.resource, old["metadata"]
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


def _options(call: Call) -> DeleteOptions:
    if call.body.strip():
        value, _ = parsed(call, "DeleteOptions")
        try:
            options = convert(DeleteOptions, value)
        except DecodeError as error:
            raise status.bad_request(f"the body has to be DeleteOptions: {error}") from None
    else:
        options = DeleteOptions(
            grace_period_seconds=number(call.query, "gracePeriodSeconds"),
            propagation_policy=call.query.get("propagationPolicy") or None,
        )
    if call.dry_run:
        options = msgspec.structs.replace(options, dry_run=call.dry_run)
    errors = []
    if options.propagation_policy not in (None, *_POLICIES):
        errors.append(not_supported("propagationPolicy", options.propagation_policy, _POLICIES))
    if any(each != "All" for each in options.dry_run):
        errors.append(not_supported("dryRun", list(options.dry_run), ("All",)))
    if errors:
        raise status.invalid("DeleteOptions", META_GROUP, "", errors)
    return options

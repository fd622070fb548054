"""Update: a whole object, or a part of it, in place of the one that is there."""

from typing import Any

from pykubelet.api.field_errors import FieldError, forbidden, invalid
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at, without
from pykubelet.apiserver.patch.server_side_apply import track_update
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.requests import WriteOptions
from pykubelet.apiserver.schema.schema import copied, same
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Stale
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.namespaces import NamespaceStrategy
from pykubelet.apiserver.verbs.bodies import read_object
from pykubelet.apiserver.verbs.create import create_object

_REPEATED = ("metadata.labels", "metadata.annotations", "metadata.ownerReferences")
"""Whose faults upstream finds at four places on an update; clients that compare see them as often."""
_FIXED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")


async def update(backend: Backend, call: Call) -> Answer:
    strategy, info = backend.strategy(call.resource), call.info
    options = call.write_options()
    given = read_object(call, strategy)
    check_name(call, given)
    is_new = False
    try:
        await backend.read(call.resource, info.namespace, info.name)
    except ApiError:
        if not strategy.creates_on_update or info.subresource or at(given, "metadata.resourceVersion"):
            raise
        is_new = True
    if is_new:
        return Answer(201, await create_object(backend, call, given, options))

    async def change(old: Object) -> Object:
        return await changed(backend, call, strategy, copied(given), old, options)

    return Answer(200, await write(backend, call, change, options))


class Emptied(Exception):
    """Nothing holds the object any longer: it goes instead of being changed."""

    def __init__(self, old: Object, new: Object) -> None:
        self.old = old
        self.new = new


async def write(backend: Backend, call: Call, change: object, options: WriteOptions) -> Object:
    """Store a change, or remove the object when that change was the last that it waited for."""
    while True:
        try:
            return await backend.update(
                call.resource,
                call.info.namespace,
                call.info.name,
                change,  # type: ignore[arg-type]
                dry_run=options.dry_run,
            )
        except Emptied as emptied:
            if options.dry_run:
                return emptied.new
            try:
                await backend.remove(call.resource, emptied.old)
            except Stale:
                continue
            return emptied.new


def check_name(call: Call, obj: Object) -> None:
    metadata, info = obj["metadata"], call.info
    name = metadata.get("name") or ""
    if not name:
        raise status.bad_request("the name of the object must be given in its metadata, as it is in the path")
    if name != info.name:
        raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({info.name})")
    if call.resource.namespaced:
        if metadata.get("namespace") and metadata["namespace"] != info.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata["namespace"] = info.namespace


async def changed(
    backend: Backend,
    call: Call,
    strategy: Strategy,
    obj: Object,
    old: Object,
    options: WriteOptions,
    *,
    is_tracked: bool = True,
    is_patch: bool = False,
) -> Object:
    """`obj`, which has its defaults, as it may replace `old`. Raises 409 and 422.

    A patch may not change who the object is; a whole object that is somebody else comes too late.
    """
    resource, part = call.resource, call.info.subresource
    _check_version(call, strategy, obj, old, is_patch=is_patch)
    metadata = obj["metadata"]
    identity = _identity_faults(metadata, old["metadata"])
    for name in _FIXED:
        metadata.pop(name, None)
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
    if is_tracked:
        obj = track_update(
            old,
            obj,
            manager=options.manager,
            kind=resource.kind,
            api_version=resource.api_version,
            subresource=part,
            now=backend.now(),
        )
    await strategy.admit(obj, old, part, backend)
    await backend.gate.check_body(call.user, call.info, obj, old)
    strategy.prepare_update(obj, old, part)
    errors = [*identity, *_finalizer_faults(obj, old)] * 2  # once for every object, and once for those of this kind
    errors += [each for each in strategy.validate_meta(obj) if each.field in _REPEATED] * 3
    errors += strategy.validate_update(obj, old, part)
    if errors:
        raise status.invalid(resource.kind, resource.group, metadata.get("name") or call.info.name, errors)
    if _is_emptied(strategy, obj, old):
        raise Emptied(old, obj)
    return old if _is_same(obj, old) else obj


def _identity_faults(metadata: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    faults = [
        invalid(f"metadata.{name}", metadata[name], "field is immutable")
        for name in ("name", "uid")
        if metadata.get(name) and metadata[name] != old.get(name)
    ]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if metadata.get(name) is not None and old.get(name) is None:
            faults.append(invalid(f"metadata.{name}", metadata[name], "field is immutable"))
    return faults


def _check_version(call: Call, strategy: Strategy, obj: Object, old: Object, *, is_patch: bool) -> None:
    resource, name = call.resource, call.info.name
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


def _finalizer_faults(obj: Object, old: Object) -> list[FieldError]:
    if not at(old, "metadata.deletionTimestamp"):
        return []
    new = [each for each in at(obj, "metadata.finalizers", []) if each not in at(old, "metadata.finalizers", [])]
    if not new:
        return []
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {new}"
    return [forbidden("metadata.finalizers", detail)]


def _is_emptied(strategy: Strategy, obj: Object, old: Object) -> bool:
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if isinstance(strategy, NamespaceStrategy):
        return not strategy.is_held(obj)
    return not metadata.get("deletionGracePeriodSeconds")


def _is_same(obj: Object, old: Object) -> bool:
    one = {**obj, "metadata": without(obj["metadata"], ("resourceVersion",))}
    return same(one, {**old, "metadata": without(old["metadata"], ("resourceVersion",))})

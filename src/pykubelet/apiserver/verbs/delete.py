"""Delete: one object or many, at once or marked so that whoever holds them can let go first."""

import asyncio
from typing import Final

import msgspec

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.field_errors import invalid, not_supported
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, of_entry
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.options import META_GROUP, DeleteOptions, flag, list_options, number
from pykubelet.apiserver.status import ApiError, status_object
from pykubelet.apiserver.verbs.bodies import parsed
from pykubelet.apiserver.verbs.selection import selection
from pykubelet.apiserver.writer.author import Author
from pykubelet.apiserver.writer.writer import Writer

_AT_ONCE: Final = 256 << 10
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


async def delete(backend: Backend, call: Call) -> Answer:
    options = _options(call)
    obj, is_gone = await deleter(backend, call, options).delete(
        call.resource, call.info.namespace, call.info.name, options
    )
    if not is_gone or call.resource.plural in _ANSWERED_WITH_OBJECT:
        return Answer(200, obj)
    resource, metadata = call.resource, obj["metadata"]
    details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural, "uid": metadata["uid"]}
    return Answer(200, status_object("Success", details={key: value for key, value in details.items() if value}))


async def delete_collection(backend: Backend, call: Call) -> Answer:
    options = _options(call)
    chosen = selection(backend.strategy(call.resource), list_options(call.query, call.info.verb))
    listing = await backend.cache.list_newest(call.resource.folder(call.info.namespace))
    resource, writer = call.resource, deleter(backend, call, options)
    gone: list[Object] = []
    looked_at = 0
    for entry in listing.entries:
        looked_at += len(entry.value)
        if looked_at > _AT_ONCE:  # most may be none of those that are meant, and each is looked into
            looked_at = 0
            await asyncio.sleep(0)
        if not chosen.holds(entry):
            continue
        metadata = of_entry(entry)["metadata"]
        try:
            obj, _ = await writer.delete(resource, metadata.get("namespace", ""), metadata["name"], options)
        except ApiError as error:
            if error.reason != "NotFound":
                raise
        else:
            gone.append({key: value for key, value in obj.items() if key not in ("apiVersion", "kind")})
    head: Object = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
    return Answer(200, {**head, "metadata": {"resourceVersion": str(listing.revision)}, "items": gone})


def deleter(backend: Backend, call: Call, options: DeleteOptions) -> Writer:
    """Who deletes owns nothing by it."""
    return Writer(backend, Author(call.user, "", call.info, bool(options.dry_run), call.warnings, call.notes))


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
            orphan_dependents=flag(call.query, "orphanDependents") if "orphanDependents" in call.query else None,
            propagation_policy=call.query.get("propagationPolicy") or None,
        )
    if call.dry_run:
        options = msgspec.structs.replace(options, dry_run=call.dry_run)
    errors = []
    if options.orphan_dependents is not None and options.propagation_policy is not None:
        said = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", options.propagation_policy, said))
    if options.propagation_policy not in (None, *_POLICIES):
        errors.append(not_supported("propagationPolicy", options.propagation_policy, _POLICIES))
    if any(each != "All" for each in options.dry_run):
        errors.append(not_supported("dryRun", list(options.dry_run), ("All",)))
    if errors:
        raise status.invalid("DeleteOptions", META_GROUP, "", errors)
    return options

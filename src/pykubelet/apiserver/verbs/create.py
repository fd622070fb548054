"""Create: an object that was not there before, as its author gave it, with what the server adds."""

from typing import Final

from pykubelet.api.validation import names
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at, name_suffix
from pykubelet.apiserver.patch.server_side_apply import track_update
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.requests import WriteOptions
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.services import ServiceStrategy
from pykubelet.apiserver.verbs.bodies import read_object

_LONGEST_BASE: Final = 58
_TRIES: Final = 8


async def create(backend: Backend, call: Call) -> Answer:
    strategy = backend.strategy(call.resource)
    options = call.write_options()
    obj = read_object(call, strategy)
    return Answer(201, await create_object(backend, call, obj, options))


async def create_object(
    backend: Backend, call: Call, obj: Object, options: WriteOptions, *, is_tracked: bool = True
) -> Object:
    """Admit, check and store a new object. `is_tracked`: whoever creates it comes to own its fields."""
    strategy, metadata = backend.strategy(call.resource), obj["metadata"]
    _place(call, metadata)
    if metadata.get("resourceVersion"):
        raise status.ApiError(500, "", "resourceVersion should not be set on objects to be created")
    prefix = metadata.get("generateName", "") if not metadata.get("name") else ""
    await check_namespace(backend, call, metadata)
    if is_tracked:  # before anything is added that the author did not ask for
        obj = track_update(
            None,
            obj,
            manager=options.manager,
            kind=call.resource.kind,
            api_version=call.resource.api_version,
            now=backend.now(),
        )
    for attempt in range(_TRIES if prefix else 1):
        if prefix:
            obj["metadata"]["name"] = prefix[:_LONGEST_BASE] + name_suffix()
        try:
            return await _create_once(backend, call, strategy, obj, options)
        except status.ApiError as error:
            if error.reason != "AlreadyExists" or not prefix or attempt == _TRIES - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


async def _create_once(backend: Backend, call: Call, strategy: Strategy, obj: Object, options: WriteOptions) -> Object:
    resource = call.resource
    strategy.attribute(obj, call.user)
    await strategy.admit(obj, None, "", backend)
    await backend.gate.check_body(call.user, call.info, obj, None)
    backend.stamp(obj)
    strategy.prepare_create(obj, backend.now())
    errors = list(strategy.validate(obj))
    if errors:
        raise status.invalid(resource.kind, resource.group, obj["metadata"].get("name", ""), errors)
    if isinstance(strategy, ServiceStrategy):
        await _refuse_if_there(backend, call, obj)
        await strategy.allocate(obj, backend)
        if options.dry_run:
            await strategy.deleted(obj, backend)
    if options.dry_run:
        await _refuse_if_there(backend, call, obj)
        return obj
    try:
        created = await backend.create(resource, obj)
    except status.ApiError:
        if isinstance(strategy, ServiceStrategy):
            await strategy.deleted(obj, backend)
        raise
    await strategy.created(created, backend)
    return created


async def _refuse_if_there(backend: Backend, call: Call, obj: Object) -> None:
    metadata = obj["metadata"]
    if await backend.store.get(call.resource.key(metadata.get("namespace", ""), metadata["name"])):
        raise status.already_exists(call.resource.plural, metadata["name"], call.resource.group)


def _place(call: Call, metadata: dict[str, object]) -> None:
    """The namespace is that of the path."""
    namespace = call.info.namespace if call.resource.namespaced else ""
    given = metadata.get("namespace") or ""
    if not call.resource.namespaced:
        return
    if not namespace and not given:
        raise status.bad_request("namespace is required: create the object at the path of a namespace")
    if given and given != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


async def check_namespace(backend: Backend, call: Call, metadata: dict[str, object]) -> None:
    """Nothing is made in a namespace that does not exist, or is about to go."""
    if not call.resource.namespaced:
        return
    name = call.info.namespace
    if names.dns_label(name):
        raise status.not_found("namespaces", name)
    namespace = await backend.find("", "namespaces", "", name)
    if namespace is None:
        raise status.not_found("namespaces", name)
    if at(namespace, "metadata.deletionTimestamp"):
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        plural, group = call.resource.plural, call.resource.group
        raise status.forbidden(plural, str(metadata.get("name", "")), why, group, (cause,))

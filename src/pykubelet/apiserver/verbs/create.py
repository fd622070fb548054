"""Create: an object that was not there before, as its author gave it, with what the server adds."""

import msgspec

from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.options import WriteOptions
from pykubelet.apiserver.verbs.bodies import read_object
from pykubelet.apiserver.writer.author import Author
from pykubelet.apiserver.writer.writer import Writer


async def create(backend: Backend, call: Call) -> Answer:
    options = call.write_options
    obj = read_object(call, backend.strategy(call.resource))
    return Answer(201, await create_object(backend, call, obj, options))


async def create_object(
    backend: Backend, call: Call, obj: Object, options: WriteOptions, *, is_tracked: bool = True
) -> Object:
    """Where the path says, by one who may create. `is_tracked`: whoever creates it comes to own its fields."""
    _place(call, obj["metadata"])
    if call.info.verb != "create":  # who may change what is there may not therefore make what is not
        await backend.access.check(call.user, msgspec.structs.replace(call.info, verb="create"))
    return await writer_for(backend, call, options).create(call.resource, obj, is_tracked=is_tracked)


def writer_for(backend: Backend, call: Call, options: WriteOptions) -> Writer:
    return Writer(backend, Author(call.user, options.manager, call.info, options.dry_run, call.warnings, call.notes))


def _place(call: Call, metadata: dict[str, object]) -> None:
    """The namespace is that of the path."""
    if not call.resource.namespaced:
        return
    namespace, given = call.info.namespace, metadata.get("namespace") or ""
    if not namespace and not given:
        raise status.bad_request("namespace is required: create the object at the path of a namespace")
    check_namespace(given, namespace)
    metadata["namespace"] = namespace


def check_namespace(given: object, expected: str) -> None:
    """Raises 400 for an object that belongs elsewhere."""
    if given and given != expected:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )

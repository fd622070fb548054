"""Update: a whole object, or a part of it, in place of the one that is there."""

from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.verbs.bodies import read_object
from pykubelet.apiserver.verbs.create import check_namespace, create_object, writer_for


async def update(backend: Backend, call: Call) -> Answer:
    strategy, info = backend.strategy(call.resource), call.info
    options = call.write_options
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
    writer = writer_for(backend, call, options)
    changed = await writer.change(
        call.resource, info.namespace, info.name, lambda old: dict(copied(given)), part=info.subresource
    )
    return Answer(200, changed)


def check_name(call: Call, obj: Object) -> None:
    metadata, info = obj["metadata"], call.info
    name = metadata.get("name") or ""
    if not name:
        raise status.bad_request("the name of the object must be given in its metadata, as it is in the path")
    if name != info.name:
        raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({info.name})")
    if call.resource.namespaced:
        check_namespace(metadata.get("namespace"), info.namespace)
        metadata["namespace"] = info.namespace

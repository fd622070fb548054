"""Binding: a scheduler says on which node a pod is to run."""

from pykubelet.api.codec import DecodeError, convert, to_builtins
from pykubelet.api.field_errors import not_supported, required
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import ObjectReference
from pykubelet.api.struct import Struct, rfc3339, written
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.status import status_object
from pykubelet.apiserver.verbs.bodies import read_object
from pykubelet.apiserver.verbs.create import writer_for
from pykubelet.apiserver.writer.asking import ask
from pykubelet.apiserver.writer.writer import Writer


class Binding(Struct, frozen=True):
    metadata: ObjectMeta = written(ObjectMeta)
    target: ObjectReference = written(ObjectReference)


async def bind(backend: Backend, call: Call) -> Answer:
    pods = backend.resources.of("", "pods")
    value = read_object(call, backend.strategy(pods), kind="Binding", api_version="v1")
    try:
        binding = convert(Binding, value)
    except DecodeError as error:
        raise status.unfit("Binding", "v1", str(error)) from None
    name = call.info.name or binding.metadata.name
    if binding.metadata.name and binding.metadata.name != name:
        raise status.bad_request("name in URL does not match name in Binding object")
    _check(binding, name)
    writer = writer_for(backend, call, call.write_options)
    await bind_pod(writer, call.info.namespace, name, binding)
    return Answer(201, status_object("Success", 201))


async def bind_pod(writer: Writer, namespace: str, name: str, binding: Binding) -> Object:
    """Put a pod on its node. Raises 404, and 409 when it is not there to be bound any more.

    As upstream has it, nobody comes to own the fields that this sets.
    """
    backend = writer.backend
    pods, now = backend.resources.of("", "pods"), rfc3339(backend.now())
    told = to_builtins(binding)
    told["metadata"] = {**(told.get("metadata") or {}), "name": name, "namespace": namespace}
    await ask(backend, writer.author, pods, "binding", {"kind": "Binding", "apiVersion": "v1", **told})
    return await writer.change(
        pods, namespace, name, lambda old: bound(old, binding, now), part="binding", is_tracked=False
    )


def _check(binding: Binding, name: str) -> None:
    errors = []
    if binding.target.kind not in ("", "Node"):
        errors.append(not_supported("target.kind", binding.target.kind, ("Node", "<empty>")))
    if not binding.target.name:
        errors.append(required("target.name", ""))
    if errors:
        raise status.invalid("Binding", "", name, errors)


def bound(old: Object, binding: Binding, now: str) -> Object:
    """The pod on its node. Raises 409."""
    name = old["metadata"]["name"]
    if old["metadata"].get("deletionTimestamp"):
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if at(old, "spec.nodeName"):
        raise _refused(name, f'pod {name} is already assigned to node "{at(old, "spec.nodeName")}"')
    if at(old, "spec.schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")
    for field, given in (("uid", binding.metadata.uid), ("resourceVersion", binding.metadata.resource_version)):
        if given and given != old["metadata"].get(field):
            raise status.conflict("pods", name, f"Precondition failed: {field} in precondition: {given}")
    new: Object = copied(old)
    new["spec"]["nodeName"] = binding.target.name
    metadata, state = new["metadata"], new.setdefault("status", {})
    if binding.metadata.annotations:
        metadata["annotations"] = {**metadata.get("annotations", {}), **binding.metadata.annotations}
    if binding.metadata.labels:
        metadata["labels"] = {**metadata.get("labels", {}), **binding.metadata.labels}
    state.pop("nominatedNodeName", None)
    others = [each for each in state.get("conditions", ()) if each.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    state["conditions"] = [*others, scheduled]
    return new


def _refused(name: str, why: str) -> status.ApiError:
    return status.conflict("pods/binding", name, why)

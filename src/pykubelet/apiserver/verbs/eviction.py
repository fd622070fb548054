"""Eviction: the polite way to delete a pod. There are no disruption budgets here, so none can refuse it."""

from typing import Any

from pykubelet.api.codec import DecodeError, convert
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import at
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.options import DeleteOptions
from pykubelet.apiserver.status import status_object
from pykubelet.apiserver.verbs.bodies import read_object
from pykubelet.apiserver.verbs.delete import deleter


async def evict(backend: Backend, call: Call) -> Answer:
    eviction = read_object(call, backend.strategy(call.resource), kind="Eviction", api_version="policy/v1")
    name = call.info.name
    if (at(eviction, "metadata.name") or name) != name:
        raise status.bad_request(f"name in URL does not match name in Eviction object: {at(eviction, 'metadata.name')}")
    given: dict[str, Any] = {**(eviction.get("deleteOptions") or {})}
    if call.dry_run:
        given["dryRun"] = list(call.dry_run)
    try:
        options = convert(DeleteOptions, given)
    except DecodeError as error:
        raise status.bad_request(f"deleteOptions: {error}") from None
    await deleter(backend, call, options).delete(call.resource, call.info.namespace, name, options)
    return Answer(201, status_object("Success", 201))

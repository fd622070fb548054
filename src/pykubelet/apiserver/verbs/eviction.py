"""Eviction: the polite way to delete a pod, which the disruption budget that is for it may refuse."""

from typing import Any, Final

import msgspec

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.options import DeleteOptions, Preconditions
from pykubelet.apiserver.status import ApiError, status_object
from pykubelet.apiserver.strategies.disruption_rules import is_for, may_go_anyway, spent, still_processed
from pykubelet.apiserver.verbs.bodies import read_object
from pykubelet.apiserver.verbs.delete import deleter
from pykubelet.apiserver.writer.asking import ask
from pykubelet.apiserver.writer.author import KUBE_APISERVER
from pykubelet.apiserver.writer.checks import check_preconditions
from pykubelet.apiserver.writer.writer import Writer

_FREE: Final = ("Succeeded", "Failed", "Pending")
"""Pods that nobody misses."""
_TRIES: Final = 20


async def evict(backend: Backend, call: Call) -> Answer:
    eviction = read_object(call, backend.strategy(call.resource), kind="Eviction", api_version="policy/v1")
    name = call.info.name
    if (at(eviction, "metadata.name") or name) != name:
        raise status.bad_request(f"name in URL does not match name in Eviction object: {at(eviction, 'metadata.name')}")
    options = _options(eviction, call)
    where = {"name": name, "namespace": call.info.namespace}
    whole = {**eviction, "metadata": {**(eviction.get("metadata") or {}), **where}}
    await ask(backend, deleter(backend, call, options).author, call.resource, "eviction", whole)
    await backend.access.check_body(call.user, call.info, whole, None)  # before anything is spent, or told to the pod
    for _ in range(_TRIES):
        pod = await backend.live("pods", call.info.namespace, name)
        wanted, budget = await _judged(backend, call, pod, options)
        try:
            await _delete(backend, call, wanted)
            break
        except ApiError as error:
            is_ours = wanted is not options and error.code == 409
            if is_ours and budget:
                raise still_processed(budget) from None
            if not is_ours:
                raise
    else:
        raise still_processed(name)
    return Answer(201, status_object("Success", 201))


def _options(eviction: Object, call: Call) -> DeleteOptions:
    given: dict[str, Any] = {**(eviction.get("deleteOptions") or {})}
    if call.dry_run:
        given["dryRun"] = list(call.dry_run)
    try:
        return convert(DeleteOptions, given)
    except DecodeError as error:
        raise status.bad_request(f"deleteOptions: {error}") from None


async def _judged(backend: Backend, call: Call, pod: Object, options: DeleteOptions) -> tuple[DeleteOptions, str]:
    """-> how the pod may be deleted, and which budget allows it as long as the pod is as it was. Raises 429."""
    phase, is_leaving = at(pod, "status.phase", ""), bool(at(pod, "metadata.deletionTimestamp"))
    if phase in _FREE or is_leaving:
        must_be_same = phase == "Pending" and not is_leaving
        return (_same(options, pod) if must_be_same else options), ""
    budgets = await backend.all("policy", "poddisruptionbudgets", call.info.namespace)
    found = [each for each in budgets if is_for(each, at(pod, "metadata.labels", {}))]
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "", text)
    if not found:
        return options, ""
    budget = found[0]
    ready = any(
        each.get("type") == "Ready" and each.get("status") == "True" for each in at(pod, "status.conditions", ())
    )
    if may_go_anyway(budget, ready):
        return _same(options, pod), budget["metadata"]["name"]
    await _spend(backend, call, budget, bool(options.dry_run))
    return options, ""


async def _spend(backend: Backend, call: Call, budget: Object, is_dry: bool) -> None:
    if is_dry:
        spent(budget, call.info.name, backend.now())
        return
    resource, namespace = backend.resources.of("policy", "poddisruptionbudgets"), call.info.namespace
    await Writer(backend, KUBE_APISERVER).change(
        resource,
        namespace,
        budget["metadata"]["name"],
        lambda live: spent(live, call.info.name, backend.now()),
        part="status",
    )


def _same(options: DeleteOptions, pod: Object) -> DeleteOptions:
    """Only the pod that was looked at, as it was."""
    given = options.preconditions or Preconditions()
    if given.resource_version is not None:
        return options
    version = pod["metadata"]["resourceVersion"]
    return msgspec.structs.replace(options, preconditions=msgspec.structs.replace(given, resource_version=version))


async def _delete(backend: Backend, call: Call, options: DeleteOptions) -> None:
    """Tell the pod why it goes, and delete it."""
    resource, namespace, name = call.resource, call.info.namespace, call.info.name
    if not options.dry_run:

        def told(live: Object) -> Object:
            check_preconditions(resource, live, options.preconditions)
            return _disrupted(live, rfc3339(backend.now()))

        changed = await Writer(backend, KUBE_APISERVER).change(resource, namespace, name, told, part="status")
        if options.preconditions is not None and options.preconditions.resource_version is not None:
            options = msgspec.structs.replace(
                options,
                preconditions=msgspec.structs.replace(
                    options.preconditions, resource_version=changed["metadata"]["resourceVersion"]
                ),
            )
    await deleter(backend, call, options).delete(resource, namespace, name, options)


def _disrupted(pod: Object, now: str) -> Object:
    new = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    others = [each for each in at(pod, "status.conditions", ()) if each.get("type") != new["type"]]
    return {**pod, "status": {**(pod.get("status") or {}), "conditions": [*others, new]}}

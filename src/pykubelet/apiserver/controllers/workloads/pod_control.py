"""Makes and deletes the pods of an owner, and tells people about it."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from pykubelet.api.validation import names
from pykubelet.apiserver.controllers.client import PODS, ControllerClient
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.workloads.ownership import controller_reference
from pykubelet.apiserver.controllers.workloads.pod_views import PodView
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.status import ApiError

_TERMINATING: Final = "NamespaceTerminating"
MOST_AT_ONCE: Final = 500
"""Pods that one look at an owner makes or deletes."""
REST: Final = 5.0
"""Seconds until the next look at one that has made so many: who asks for a million by mistake has time to notice."""


class PodControl:
    def __init__(self, client: ControllerClient, events: EventRecorder) -> None:
        self._client = client
        self._events = events

    async def create(self, owner: Object, pod: Object) -> Object:
        """Raises ApiError."""
        try:
            made = await self._client.make(PODS, pod)
        except ApiError as error:
            if not is_terminating(error):
                await self._events.record(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
            raise
        await self._events.record(owner, "Normal", "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        return made

    async def create_all(self, owner: Object, pods: list[Object]) -> tuple[int, ApiError | None]:
        """-> how many were made, and why not all. Slowly at first, and then twice as many at a time: what is refused is
        not asked for a hundred times."""
        done, batch = 0, 1
        while done < len(pods):
            some = pods[done : done + batch]
            results = await asyncio.gather(*(self.create(owner, pod) for pod in some), return_exceptions=True)
            failures = [each for each in results if isinstance(each, BaseException)]
            done += len(some) - len(failures)
            for failure in failures:
                if not isinstance(failure, ApiError):
                    raise failure
                return done, None if is_terminating(failure) else failure
            batch *= 2
        return done, None

    async def delete(self, owner: Object, pod: PodView) -> None:
        """Raises ApiError. One that is gone already is no error."""
        try:
            await self._client.delete(PODS, pod.head())
        except ApiError as error:
            if error.code == 404:
                return
            await self._events.record(owner, "Warning", "FailedDelete", f"Error deleting: {error.message}")
            raise
        await self._events.record(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")

    async def delete_all(self, owner: Object, pods: Iterable[PodView]) -> ApiError | None:
        """-> why not all went."""
        results = await asyncio.gather(*(self.delete(owner, pod) for pod in pods), return_exceptions=True)
        failures = [each for each in results if isinstance(each, BaseException)]
        for failure in failures:
            if not isinstance(failure, ApiError):
                raise failure
        return failures[0] if failures and isinstance(failures[0], ApiError) else None


def pod_of(owner: Object, template: dict[str, Any], change: Callable[[Object], None] | None = None) -> Object:
    """A pod as a template has it, which belongs to the owner."""
    given, name = template.get("metadata") or {}, owner["metadata"]["name"]
    prefix = name if names.name_prefix(f"{name}-") else f"{name}-"
    pod: Object = {
        "metadata": {
            "generateName": prefix,
            "namespace": owner["metadata"]["namespace"],
            **{key: copied(given[key]) for key in ("labels", "annotations", "finalizers") if given.get(key)},
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": copied(template.get("spec") or {}),
    }
    if change is not None:
        change(pod)
    return pod


def is_terminating(error: ApiError) -> bool:
    """Whether the namespace is about to go: nothing can be made in it any more, and nobody has to know."""
    causes = (error.details or {}).get("causes") or ()
    return any(each.get("reason") == _TERMINATING for each in causes)

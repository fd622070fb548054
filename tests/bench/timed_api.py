"""The API server of the kit with a clock at its door: when each pod was first as somebody waits for it to be."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from kit.api_server import ObjectServer
from kit.list_watch import serving_on_loopback

Object = dict[str, Any]


class TimedApi(ObjectServer):
    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[Callable[[str, Object], None]] = []

    def names(self, resource: str) -> list[str]:
        return [item["metadata"]["name"] for (kind, _), item in self.objects.items() if kind == resource]

    @contextmanager
    def noted(self, condition: Callable[[str, Object], bool]) -> Iterator[dict[str, float]]:
        """When (time.perf_counter) the condition on the kind of a change and the pod first held, by the pod's name."""
        times: dict[str, float] = {}

        def listener(kind: str, pod: Object) -> None:
            if condition(kind, pod):
                times.setdefault(pod["metadata"]["name"], time.perf_counter())

        self._listeners.append(listener)
        try:
            yield times
        finally:
            self._listeners.remove(listener)

    async def _record(self, kind: str, key: tuple[str, str], item: Object) -> None:
        if key[0] == "pods":
            for listener in self._listeners:
                listener(kind, item)
        await super()._record(kind, key, item)


def is_ready(kind: str, pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_gone(kind: str, pod: Object) -> bool:
    return kind == "DELETED"


@asynccontextmanager
async def timed_api(server: TimedApi | None = None) -> AsyncIterator[TimedApi]:
    """A new one, or one that has served before, with its objects."""
    server = server or TimedApi()
    async with serving_on_loopback(server):
        yield server

"""As much of an API server as a node agent needs, and a clock at its door: it knows when each pod was asked for, and
when the agent said of it what.

It keeps any kind of object and knows none of them; only pods are deleted in two steps.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from kit.api_server import merged, place

Object = dict[str, Any]


class TimedApi:
    def __init__(self) -> None:
        self.url = ""
        self.requests: dict[str, int] = {}
        """How often each verb was used on each kind of object."""
        self._objects: dict[tuple[str, str, str], Object] = {}
        """By resource, namespace and name."""
        self._version = 0
        self._watches: set[tuple[str, str, asyncio.Queue[tuple[str, Object]]]] = set()
        self._listeners: list[Callable[[str, Object], None]] = []

    # --- what the benchmark does

    def create(self, resource: str, item: Object) -> None:
        meta = item.setdefault("metadata", {})
        meta.setdefault("uid", str(uuid.uuid4()))
        meta.setdefault("creationTimestamp", _now())
        self._store("ADDED", resource, item)

    def delete(self, resource: str, namespace: str, name: str, grace: int) -> None:
        """Of a pod with grace only the wish is written down; its agent deletes it when it has ended."""
        item = self._objects[resource, namespace, name]
        if resource != "pods" or grace == 0:
            del self._objects[resource, namespace, name]
            self._store("DELETED", resource, item)
            return
        meta = {**item["metadata"], "deletionTimestamp": _now(), "deletionGracePeriodSeconds": grace}
        self._store("MODIFIED", resource, {**item, "metadata": meta})

    def names(self, resource: str) -> list[str]:
        return [name for kind, _, name in self._objects if kind == resource]

    def is_watched(self, resource: str) -> bool:
        return any(watched == resource for watched, _, _ in self._watches)

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

    # --- what the agent asks

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        resource, namespace, name = place(request.path)
        verb = "WATCH" if request.query.get("watch") else request.method
        self.requests[f"{verb} {resource}"] = self.requests.get(f"{verb} {resource}", 0) + 1
        if verb == "WATCH":
            return await self._watch(request, resource)
        if not name:
            return self._list(request, resource) if verb == "GET" else self._create(resource, await request.json())
        item = self._objects.get((resource, namespace, name))
        if item is None:
            return _refusal(404, "NotFound", f"{resource} {name!r} not found")
        if verb == "DELETE":
            options = await request.json()
            self.delete(resource, namespace, name, options.get("gracePeriodSeconds", 30))
        elif verb in ("PATCH", "PUT"):
            change = await request.json()
            item = self._store("MODIFIED", resource, merged(item, change) if verb == "PATCH" else change)
        return web.json_response(item)

    def _create(self, resource: str, item: Object) -> web.Response:
        meta = item["metadata"]
        if (resource, meta.get("namespace", ""), meta["name"]) in self._objects:
            return _refusal(409, "AlreadyExists", f"{resource} {meta['name']!r} already exists")
        if resource != "events":  # nobody reads them: they need not pile up
            self.create(resource, item)
        return web.json_response(item, status=201)

    def _list(self, request: web.BaseRequest, resource: str) -> web.Response:
        selector = request.query.get("fieldSelector", "")
        items = [each for (kind, _, _), each in self._objects.items() if kind == resource and _fits(each, selector)]
        return web.json_response(
            {"kind": "List", "metadata": {"resourceVersion": str(self._version)}, "items": items or None}
        )

    async def _watch(self, request: web.BaseRequest, resource: str) -> web.StreamResponse:
        """What has changed since the version that the agent knows, then what changes. Nobody deletes in between."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        changes: asyncio.Queue[tuple[str, Object]] = asyncio.Queue()
        selector, since = request.query.get("fieldSelector", ""), int(request.query["resourceVersion"])
        for (kind, _, _), item in self._objects.items():
            if kind == resource and _fits(item, selector) and int(item["metadata"]["resourceVersion"]) > since:
                changes.put_nowait(("MODIFIED", item))
        watch = resource, selector, changes
        self._watches.add(watch)
        try:
            while True:
                kind, item = await changes.get()
                await response.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")
        except ConnectionError:
            return response
        finally:
            self._watches.discard(watch)

    def _store(self, kind: str, resource: str, item: Object) -> Object:
        self._version += 1
        meta = {**item["metadata"], "resourceVersion": str(self._version)}
        item = {**item, "metadata": meta}
        if kind != "DELETED":
            self._objects[resource, meta.get("namespace", ""), meta["name"]] = item
        if resource == "pods":
            for listener in self._listeners:
                listener(kind, item)
        for watched, selector, changes in self._watches:
            if watched == resource and _fits(item, selector):
                changes.put_nowait((kind, item))
        return item


def is_ready(kind: str, pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_gone(kind: str, pod: Object) -> bool:
    return kind == "DELETED"


def _fits(item: Object, selector: str) -> bool:
    path, _, wanted = selector.partition("=")
    value: Any = item
    for part in path.split(".") if selector else ():
        value = value.get(part, {})
    return not selector or value == wanted


def _refusal(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
    return web.json_response(body, status=code)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@asynccontextmanager
async def timed_api(server: TimedApi | None = None) -> AsyncIterator[TimedApi]:
    """A new one, or one that has served before, with its objects."""
    server = server or TimedApi()
    runner = web.ServerRunner(
        web.Server(server.handle, handler_cancellation=True, access_log=None), shutdown_timeout=0.1
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()

"""A list/watch server on loopback that is as well or as badly behaved as a test wants it.

It keeps real semantics where they matter to a reflector (versions, history, selectors, pages, bookmarks, 410) and has a
queue of `faults` that spoil the next requests.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from pykubelet.api import codec
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.pod.moments import Journal

Fault = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ListWatchServer:
    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, str]] = []
        """The query of each request, with its path and the loop's time under `path` and `at`."""
        self.faults: deque[Fault] = deque()
        self.version = 100
        self.page_limit: int | None = None
        """Serve at most so many objects a page, whatever was asked for."""
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._history: list[tuple[int, str, str, dict[str, Any]]] = []
        self._oldest = 0
        self._wake = asyncio.Condition()
        self._watches: dict[asyncio.Transport, str] = {}
        """The open ones, and what each is about."""

    # --- what happens in the world

    async def apply(self, value: object, resource: str = "pods") -> None:
        """Create or change an object: a Struct, or a plain dict that may be nonsense."""
        item = dict(value) if isinstance(value, dict) else codec.to_builtins(value)
        meta = item.setdefault("metadata", {})
        key = resource, f"{meta.get('namespace', '')}/{meta.get('name', '')}"
        await self._record("MODIFIED" if key in self.objects else "ADDED", key, item)
        self.objects[key] = item

    async def delete(self, name: str, resource: str = "pods", namespace: str = "default") -> None:
        key = resource, f"{namespace}/{name}"
        await self._record("DELETED", key, dict(self.objects.pop(key)))

    async def say(self, line: bytes, resource: str = "pods") -> None:
        """A line of our own making on every open watch."""
        self._history.append((self.version, resource, "", {"": line.decode("latin-1")}))
        await self._notify()

    async def bookmark(self, resource: str = "pods") -> None:
        self.version += 1
        item = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.version)}}
        self._history.append((self.version, resource, "BOOKMARK", item))
        await self._notify()

    def compact(self) -> None:
        """Forget the past: a watch from before now is answered with 410."""
        self._oldest = self.version
        self._history.clear()

    def drop_connections(self) -> None:
        for transport in (*self._watches,):
            transport.abort()

    @property
    def open_watches(self) -> int:
        return len(self._watches)

    def is_watched(self, resource: str) -> bool:
        return resource in self._watches.values()

    async def _record(self, kind: str, key: tuple[str, str], item: dict[str, Any]) -> None:
        self.version += 1
        if isinstance(item.get("metadata"), dict):
            item["metadata"] = {**item["metadata"], "resourceVersion": str(self.version)}
        self._history.append((self.version, key[0], kind, item))
        await self._notify()

    async def _notify(self) -> None:
        async with self._wake:
            self._wake.notify_all()

    # --- what is answered

    async def handle(self, request: web.Request) -> web.StreamResponse:
        at = str(asyncio.get_running_loop().time())
        self.requests.append({**request.query, "path": request.path, "at": at})
        if self.faults:
            return await self.faults.popleft()(request)
        parts = request.path.strip("/").split("/")
        if parts[-3:-2] == ["namespaces"] or "namespaces" not in parts:
            resource, namespace = parts[-1], parts[-2] if "namespaces" in parts else ""
            if request.query.get("watch"):
                return await self._watch(request, resource, namespace)
            return self.list(request, resource, namespace)
        found = self.objects.get((parts[-2], f"{parts[-3]}/{parts[-1]}"))
        return await status(404)(request) if found is None else web.json_response(found)

    def list(self, request: web.Request, resource: str, namespace: str = "") -> web.Response:
        items = [item for key, item in sorted(self.objects.items()) if key[0] == resource]
        items = [item for item in items if _selected(item, request.query.get("fieldSelector", ""), namespace)]
        start = int(request.query.get("continue", "0"))
        limit = self.page_limit or int(request.query.get("limit", "0")) or len(items)
        meta: dict[str, Any] = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            meta["continue"] = str(start + limit)
        return web.json_response({"kind": "List", "metadata": meta, "items": items[start : start + limit] or None})

    async def _watch(self, request: web.Request, resource: str, namespace: str) -> web.StreamResponse:
        selector = request.query.get("fieldSelector", "")
        if not selector.startswith("metadata.name="):
            selector = ""  # what a test spoils may well have lost what it is selected by
        since = int(request.query["resourceVersion"])
        if since < self._oldest:
            return await status(410)(request)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        transport = request.transport
        assert transport is not None
        self._watches[transport] = resource
        sent, begun = 0, len(self._history)
        try:
            async with asyncio.timeout(float(request.query["timeoutSeconds"])):
                while True:
                    for version, name, kind, item in self._history[sent:]:
                        sent += 1
                        if name != resource or not (version > since if kind else sent > begun):
                            continue
                        if kind in ("", "BOOKMARK") or _selected(item, selector, namespace):
                            await response.write(_line(kind, item))
                    async with self._wake:
                        await self._wake.wait()
                    sent = min(sent, len(self._history))
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self._watches.pop(transport, None)
        return response


def _line(kind: str, item: dict[str, Any]) -> bytes:
    if not kind:
        return str(item[""]).encode("latin-1") + b"\n"
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def _selected(item: dict[str, Any], selector: str, namespace: str) -> bool:
    if namespace and item["metadata"].get("namespace") != namespace:
        return False
    path, _, wanted = selector.partition("=")
    value: Any = item
    for part in path.split(".") if selector else ():
        value = value.get(part, "") if isinstance(value, dict) else ""
    return not selector or value == wanted


# --- faults


def status(code: int, **headers: str) -> Fault:
    async def answer(_: web.Request) -> web.StreamResponse:
        body = {"kind": "Status", "status": "Failure", "message": f"code {code} for a test", "code": code}
        return web.json_response(body, status=code, headers=headers)

    return answer


def body(text: bytes) -> Fault:
    """A whole answer, then the end."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=text, content_type="application/json")

    return answer


async def hang_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


# --- use


@asynccontextmanager
async def list_watch_server() -> AsyncIterator[ListWatchServer]:
    server = ListWatchServer()
    async with serving_on_loopback(server):
        yield server


@asynccontextmanager
async def serving_on_loopback(server: ListWatchServer) -> AsyncIterator[None]:
    """From then on it has a `url`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = site.name if not site.name.endswith(":0") else f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield
    finally:
        server.drop_connections()
        await runner.cleanup()


@asynccontextmanager
async def client_of(server: ListWatchServer, journal: Journal | None = None) -> AsyncIterator[ApiClient]:
    config = ClientConfig(cluster=Cluster(server=server.url), user=User())
    async with ApiClient(Credentials(config), journal=journal) as client:
        yield client

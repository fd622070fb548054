"""An API server for a real agent: it keeps nodes, pods and leases as one does, in a thread of its own.

Lists and watches are those of `kit.list_watch`; here is what is done to single objects.
"""

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from aiohttp import web

from kit.list_watch import ListWatchServer, serving_on_loopback

_MERGE_KEYS: Final = {"conditions": "type", "podIPs": "ip", "hostIPs": "ip", "addresses": "type"}
_PATIENCE: Final = 30.0

T = TypeVar("T")


class ObjectServer(ListWatchServer):
    """Takes every object that it is given: it judges nobody, but says what it knows of those whom others ask about."""

    def __init__(self) -> None:
        super().__init__()
        self.people: dict[str, tuple[str, ...]] = {}
        """Tokens, which are names as well, and the subresources of nodes that they may use."""
        self.reviews: list[str] = []
        """What was asked about whom."""
        self.events: list[dict[str, Any]] = []
        """Reason and message of those that came."""
        self.speaks = asyncio.Event()
        """Until it is set again once it was cleared, nobody gets an answer."""
        self.speaks.set()

    async def ask_to_delete(self, name: str, grace: int | None = None, namespace: str = "default") -> None:
        """As `kubectl delete` does with a pod: the node has the last word."""
        pod = self.objects["pods", f"{namespace}/{name}"]
        seconds = pod["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
        ending = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": seconds}
        await self.apply({**pod, "metadata": {**pod["metadata"], **ending}})

    async def handle(self, request: web.Request) -> web.StreamResponse:
        await self.speaks.wait()
        resource, namespace, name = place(request.path)
        if request.method == "GET" and not name:
            return await super().handle(request)
        content = await request.json() if request.can_read_body else {}
        if resource in ("tokenreviews", "subjectaccessreviews"):
            return self._review(resource, content["spec"])
        if resource == "events":
            if request.method == "POST":
                self.events.append(content)
            return web.json_response(content, status=201)
        if request.path.endswith("/token"):
            status = {"token": "t", "expirationTimestamp": "2999-01-01T00:00:00Z"}
            return web.json_response({**content, "status": status}, status=201)
        if request.method == "POST":
            return await self._create(resource, namespace, content)
        item = self.objects.get((resource, f"{namespace}/{name}"))
        if item is None:
            return _refusal(404, "NotFound", f'{resource} "{name}" not found')
        uid = (content.get("preconditions") or content.get("metadata") or {}).get("uid")
        if uid not in (None, item["metadata"]["uid"]):
            return _refusal(409, "Conflict", f"the uid is {item['metadata']['uid']}, not {uid}")
        match request.method:
            case "PATCH":
                await self.apply(merged(item, content), resource)
            case "PUT":
                await self.apply(content, resource)
            case "DELETE":
                await self.delete(name, resource, namespace)
                return web.json_response(item)
        return web.json_response(self.objects[resource, f"{namespace}/{name}"])

    def _review(self, resource: str, spec: dict[str, Any]) -> web.Response:
        name = spec.get("token") or spec.get("user", "")
        self.reviews.append(f"{resource} {name}")
        if resource == "tokenreviews":
            known = name in self.people
            return web.json_response({"status": {"authenticated": known, "user": {"username": name} if known else {}}})
        allowed = spec["resourceAttributes"]["subresource"] in self.people.get(name, ())
        return web.json_response({"status": {"allowed": allowed}})

    async def _create(self, resource: str, namespace: str, content: dict[str, Any]) -> web.Response:
        meta = content["metadata"]
        key = resource, f"{namespace}/{meta['name']}"
        if key in self.objects:
            return _refusal(409, "AlreadyExists", f'{resource} "{meta["name"]}" already exists')
        await self.apply({**content, "metadata": {**meta, "uid": str(uuid4())}}, resource)
        return web.json_response(self.objects[key], status=201)


class LoopbackApi:
    """The handle that a test has on it, from its own thread."""

    def __init__(self, server: ObjectServer, loop: asyncio.AbstractEventLoop) -> None:
        self.url = server.url
        self.loop = loop
        self._server = server

    def node(self, name: str) -> dict[str, Any]:
        """Empty while there is none."""
        return self._server.objects.get(("nodes", f"/{name}"), {})

    def condition(self, node: str, kind: str = "Ready") -> tuple[str, str]:
        """Status and message; both empty while nobody has said a word."""
        conditions = self.node(node).get("status", {}).get("conditions", [])
        return next(((each["status"], each["message"]) for each in conditions if each["type"] == kind), ("", ""))

    def pods(self) -> dict[str, dict[str, Any]]:
        """By name."""
        return {item["metadata"]["name"]: item for key, item in [*self._server.objects.items()] if key[0] == "pods"}

    def events(self) -> list[tuple[str, str]]:
        """Reason and message of each."""
        return [(each["reason"], each["message"]) for each in self.whole_events()]

    def whole_events(self) -> list[dict[str, Any]]:
        return [*self._server.events]

    def speak(self, is_heard: bool) -> None:
        """Or fall silent: whoever asks waits, which is the worst way of not being there."""
        self.loop.call_soon_threadsafe(self._server.speaks.set if is_heard else self._server.speaks.clear)

    def knows(self, token: str, *subresources: str) -> None:
        """Somebody, by a token that is also the name, who may use these subresources of nodes."""
        self._server.people[token] = subresources

    def reviews(self) -> list[str]:
        return [*self._server.reviews]

    def apply(self, item: dict[str, Any], resource: str = "pods") -> None:
        self._do(self._server.apply(item, resource))

    def ask_to_delete(self, name: str) -> None:
        self._do(self._server.ask_to_delete(name))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_PATIENCE)


@contextmanager
def loopback_api(kubeconfig: Path) -> Iterator[LoopbackApi]:
    """One that runs, and a file that tells how to reach it."""
    started: queue.SimpleQueue[LoopbackApi] = queue.SimpleQueue()
    over = asyncio.Event()

    async def serve() -> None:
        async with _object_server() as server:
            started.put(LoopbackApi(server, asyncio.get_running_loop()))
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="api server")
    thread.start()
    api = started.get(timeout=_PATIENCE)
    try:
        kubeconfig.write_text(kubeconfig_for(api.url))
        yield api
    finally:
        api.loop.call_soon_threadsafe(over.set)
        thread.join(_PATIENCE)


@asynccontextmanager
async def _object_server() -> AsyncIterator[ObjectServer]:
    server = ObjectServer()
    async with serving_on_loopback(server):
        yield server


def place(path: str) -> tuple[str, str, str]:
    """Resource, namespace and name of what a request is about. A subresource is a way to the same object."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    return parts[0], namespace, parts[1] if len(parts) > 1 else ""


def merged(item: Any, patch: Any, field: str = "") -> Any:
    """As much of the strategic merge patch as statuses need."""
    if isinstance(item, dict) and isinstance(patch, dict):
        result = {**item, **{name: merged(item.get(name), value, name) for name, value in patch.items()}}
        return {name: value for name, value in result.items() if value is not None and not name.startswith("$")}
    key = _MERGE_KEYS.get(field)
    if not isinstance(patch, list) or key is None:
        return merged({}, patch) if isinstance(patch, dict) else patch
    if {"$patch": "replace"} in patch:
        return [each for each in patch if "$patch" not in each]
    result = {each[key]: each for each in item or ()}
    for each in patch:
        result[each[key]] = merged(result.get(each[key], {}), each)
        if each.get("$patch") == "delete":
            del result[each[key]]
    return [*result.values()]


def _refusal(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
    return web.json_response({**body, "code": code}, status=code)


def kubeconfig_for(url: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )

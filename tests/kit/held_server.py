"""The embedded API server with its access control, in a thread whose loop is watched: what one request does to all."""

import asyncio
import gc
import http.client
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from kit.api_fuzz import Ask
from kit.heavy_objects import config_map, pod
from kit.loop_hold import LoopHold, watched_loop
from pykubelet.apiserver.requests.users import MASTERS, authenticated
from pykubelet.apiserver.security.addresses import ClusterAddresses
from pykubelet.apiserver.security.cluster_access import ClusterAccess
from pykubelet.apiserver.security.pki import Pki
from pykubelet.apiserver.server import ApiServer
from pykubelet.apiserver.settings import ApiSettings
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.strategies.base import normal
from pykubelet.apiserver.subresources.all import register_all
from pykubelet.apiserver.writer.author import KUBE_APISERVER
from pykubelet.apiserver.writer.writer import Writer
from pykubelet.web.serving import serving

ADMIN: Final = "the-token-of-the-administrator"
_PATIENCE: Final = 120.0

http.client._MAXHEADERS = 1000  # type: ignore[attr-defined]  # for each warning is one


class Cost(NamedTuple):
    code: int
    seconds: float
    cpu: float
    step: float
    beside: float
    where: str


class HeldServer:
    def __init__(self, port: int, hold: LoopHold, loop: asyncio.AbstractEventLoop, server: ApiServer) -> None:
        self.port = port
        self.hold = hold
        self.loop = loop
        self.server = server

    def ask(self, ask: Ask, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        try:
            given = {"Authorization": f"Bearer {ADMIN}", **headers}
            if ask.body:
                given["Content-Type"] = ask.kind
            connection.request(ask.method, ask.path, ask.body or None, given)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def cost(self, ask: Ask, **headers: str) -> Cost:
        """Of one request, while nothing else is asked."""
        self.hold.forget()
        began, cpu = time.perf_counter(), time.process_time()
        code, _ = self.ask(ask, **headers)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), self.loop).result()  # the step that answered is over
        hold = self.hold
        return Cost(code, time.perf_counter() - began, time.process_time() - cpu, hold.step, hold.beside, hold.where)

    def add(self, group: str, plural: str, *objects: dict[str, Any]) -> None:
        """Objects that are there, whoever made them."""
        asyncio.run_coroutine_threadsafe(_add(self.server, group, plural, objects), self.loop).result(_PATIENCE)


async def _add(server: ApiServer, group: str, plural: str, objects: tuple[dict[str, Any], ...]) -> None:
    backend = server.backend
    resource, writer = backend.resources.of(group, plural), Writer(backend, KUBE_APISERVER)
    for each in objects:
        whole = {**each, "metadata": {**each["metadata"]}}
        if resource.namespaced:
            whole["metadata"].setdefault("namespace", "default")
        await writer.create(resource, normal(backend.strategy(resource), whole))


@contextmanager
def held_server(folder: Path) -> Iterator[HeldServer]:
    """With the pod and the config map that `heavy_bodies` are about."""
    started: queue.SimpleQueue[HeldServer | BaseException] = queue.SimpleQueue()
    over = asyncio.Event()

    async def serve() -> None:
        pki = Pki.open(folder, lambda: datetime.now(UTC))
        static = {ADMIN: authenticated("admin", (MASTERS,))}
        server = ApiServer(
            MemoryStore(),
            ApiSettings(),
            access=lambda backend: ClusterAccess(backend, pki.service_account_key(), static_tokens=static),
        )
        access = server.backend.access
        assert isinstance(access, ClusterAccess)
        addresses = ClusterAddresses(tuple, 0, ApiSettings().service_range, {})
        register_all(server, access, pki, addresses, found_at="127.0.0.1:6443")
        async with serving(server.application(), "127.0.0.1", 0) as port:
            with watched_loop() as hold:
                await _add(server, "", "pods", (pod(),))
                await _add(server, "", "configmaps", (config_map(),))
                gc.collect()
                gc.freeze()  # as the server does: what other tests have left is not looked through on its account
                started.put(HeldServer(port, hold, asyncio.get_running_loop(), server))
                await over.wait()
                gc.unfreeze()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            started.put(error)
            raise

    thread = threading.Thread(target=run, name="api server")
    thread.start()
    held = started.get(timeout=_PATIENCE)
    if isinstance(held, BaseException):
        raise held
    try:
        yield held
    finally:
        held.loop.call_soon_threadsafe(over.set)
        thread.join(_PATIENCE)

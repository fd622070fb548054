import asyncio
import errno
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from contract.pod_source import NODE, PROMISES, Dependencies, Promise
from kit.list_watch import ListWatchServer, client_of, hang_up, list_watch_server, status
from kit.loopback import serving
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from pykubelet.kube.pods import ApiSource
from pykubelet.sources import files
from pykubelet.sources.files import FileSource
from pykubelet.sources.url import UrlSource

OUTAGE = 100.0


def manifest(name: str, image: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }


class FolderOutside:
    """A folder with one file for each pod, on a disk that can fail."""

    def __init__(self, folder: Path) -> None:
        self.source = FileSource(str(folder), NODE)
        self._folder = folder
        self._read = files._read_regular
        self._fails_until = 0.0

    async def put(self, name: str, image: str) -> None:
        (self._folder / f"{name}.json").write_text(json.dumps(manifest(name, image)))

    async def take(self, name: str) -> None:
        (self._folder / f"{name}.json").unlink()

    async def spoil(self) -> None:
        for path in self._folder.iterdir():
            path.write_text("{ this is")
        (self._folder / "another").write_bytes(b"\0\xff")

    async def lose(self) -> None:
        self._fails_until = asyncio.get_running_loop().time() + OUTAGE
        next(self._folder.iterdir()).touch()

    def read(self, path: str) -> tuple[bytes | None, int]:
        if asyncio.get_running_loop().time() < self._fails_until:
            raise OSError(errno.EIO, "Input/output error")
        return self._read(path)


@asynccontextmanager
async def folder(tmp_path: Path) -> AsyncIterator[Dependencies]:
    outside = FolderOutside(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_read_regular", outside.read)
        yield outside


class UrlOutside:
    """A server that answers with a list of pods, or worse."""

    def __init__(self) -> None:
        self.source = UrlSource("http://unset.invalid", NODE)
        self._pods: dict[str, dict[str, object]] = {}
        self._spoilt = False
        self._gone_until = 0.0

    async def put(self, name: str, image: str) -> None:
        self._pods[name] = manifest(name, image)
        self._spoilt = False

    async def take(self, name: str) -> None:
        del self._pods[name]
        self._spoilt = False

    async def spoil(self) -> None:
        self._spoilt = True

    async def lose(self) -> None:
        self._gone_until = asyncio.get_running_loop().time() + OUTAGE

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if asyncio.get_running_loop().time() < self._gone_until:
            assert request.transport is not None
            request.transport.abort()
        if self._spoilt:
            return web.Response(text="<html>503, but in disguise</html>")
        return web.json_response({"apiVersion": "v1", "kind": "PodList", "items": list(self._pods.values())})


@asynccontextmanager
async def url(_: Path) -> AsyncIterator[Dependencies]:
    outside = UrlOutside()
    async with serving(outside.answer) as port:
        outside.source = UrlSource(f"http://127.0.0.1:{port}/pods", NODE)
        yield outside


class ApiOutside:
    """An API server."""

    def __init__(self, server: ListWatchServer, source: ApiSource) -> None:
        self.source = source
        self._server = server

    async def put(self, name: str, image: str) -> None:
        await self._server.apply(make_pod(name, image=image, node_name=NODE))

    async def take(self, name: str) -> None:
        await self._server.delete(name)

    async def spoil(self) -> None:
        for item in list(self._server.objects.values()):
            await self._server.apply({**item, "spec": {**item["spec"], "containers": "nonsense"}})
        await self._server.say(b"{ this is")

    async def lose(self) -> None:
        self._server.faults.extend([hang_up, status(503), status(500), hang_up])
        self._server.drop_connections()


@asynccontextmanager
async def api_server(_: Path) -> AsyncIterator[Dependencies]:
    synced = asyncio.Event()
    synced.set()
    async with list_watch_server() as server, client_of(server) as client:
        yield ApiOutside(server, ApiSource(client, NODE, synced))


Kind = Callable[[Path], AbstractAsyncContextManager[Dependencies]]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.mark.parametrize("kind", [folder, url, api_server], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@virtual_time
async def test_a_pod_source_keeps_its_promises(kind: Kind, promise: Promise, tmp_path: Path) -> None:
    async with kind(tmp_path) as outside:
        await promise(outside)

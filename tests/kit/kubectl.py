"""The real kubectl against an API server that is just large enough for it: one pod, with doors that a test opens."""

import asyncio
import json
import os
import pty
import shutil
import signal
import ssl
import struct
import subprocess
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from aiohttp import web

from pykubelet.base.errors import NotFound
from pykubelet.server.application import Route, application
from pykubelet.web.serving import serving

KUBECTL: Final = shutil.which("kubectl") or ""
"""Empty: there is none on this machine."""
SPDY: Final = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
WEB_SOCKET: Final = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "true"}
_SECONDS: Final = 45.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Done(NamedTuple):
    code: int
    stdout: bytes
    stderr: bytes


# --- where a person sits


class Terminal:
    """Its other end is for a program that believes in it."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        os.set_blocking(self.ours, False)
        self.seen = b""

    def resize(self, width: int, height: int) -> None:
        ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, text: bytes) -> None:
        os.write(self.ours, text)

    def shows(self, text: bytes) -> bool:
        with suppress(OSError):
            self.seen += os.read(self.ours, 65536)
        return text in self.seen

    def close(self) -> None:
        os.close(self.ours)


# --- the API server


def _pod() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "namespace": "ns", "uid": "uid-x"},
        "spec": {"containers": [{"name": "c", "image": "busybox", "stdin": True, "tty": True}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


_RESOURCES: Final = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [{"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get"]}],
}
_ANSWERS: Final[dict[str, Any]] = {
    "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.4"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": _RESOURCES,
    "/api/v1/namespaces/ns/pods/x": _pod(),
}


async def _answer(request: web.Request) -> web.StreamResponse:
    return web.json_response(_ANSWERS[request.path])


async def nothing(_: web.Request) -> web.StreamResponse:
    raise NotFound("this door is shut")


class Kubectl:
    def __init__(self, port: int, home: Path, environment: dict[str, str], scheme: str = "http") -> None:
        self.port = port
        self._environment = {**os.environ, **environment, "HOME": str(home), "KUBECONFIG": str(home / "config")}
        server = {"server": f"{scheme}://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
        cluster, user = {"name": "a", "cluster": server}, {"name": "a", "user": {"token": "t"}}
        context = {"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "ns"}}
        config = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "a"}
        (home / "config").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))

    async def start(self, *arguments: str, **streams: Any) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(KUBECTL, *arguments, env=self._environment, **streams)

    async def at(self, terminal: Terminal, *arguments: str) -> asyncio.subprocess.Process:
        ends = dict.fromkeys(("stdin", "stdout", "stderr"), terminal.theirs)
        try:
            return await self.start(*arguments, start_new_session=True, **ends)
        finally:
            os.close(terminal.theirs)

    async def run(self, *arguments: str, typed: bytes | None = None) -> Done:
        pipe = subprocess.PIPE
        stdin = subprocess.DEVNULL if typed is None else pipe
        process = await self.start(*arguments, stdin=stdin, stdout=pipe, stderr=pipe)
        try:
            async with asyncio.timeout(_SECONDS):
                stdout, stderr = await process.communicate(typed)
        finally:
            await ended(process)
        assert process.returncode is not None
        return Done(process.returncode, stdout, stderr)

    @asynccontextmanager
    async def forwarding(self, port: int) -> AsyncIterator[int]:
        """-> the port on this side"""
        process = await self.start("port-forward", "pod/x", f":{port}", stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            async with asyncio.timeout(_SECONDS):
                line = (await process.stdout.readline()).decode()
            reading = asyncio.create_task(process.stdout.read())  # or it would be stuck one day
            yield int(line.split("->")[0].rpartition(":")[2])
            reading.cancel()
        finally:
            await ended(process)


async def ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
    await process.wait()


@asynccontextmanager
async def kubectl_for(
    home: Path,
    environment: dict[str, str],
    *,
    execute: Handler = nothing,
    attach: Handler = nothing,
    forward: Handler = nothing,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Kubectl]:
    if not KUBECTL:
        pytest.skip("needs kubectl")
    pod = "/api/v1/namespaces/ns/pods/x"
    doors = {f"{pod}/exec": execute, f"{pod}/attach": attach, f"{pod}/portforward": forward}
    routes = [Route("GET", path, _answer, is_open=True) for path in _ANSWERS]
    routes += [Route(method, path, doors[path], is_open=True) for path in doors for method in ("GET", "POST")]
    async with serving(application(routes, None), "127.0.0.1", 0, tls=tls) as port:
        yield Kubectl(port, home, environment, "https" if tls else "http")

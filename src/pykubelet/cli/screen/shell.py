"""A shell in a container, through the API server: the remote command protocol over a WebSocket, on this terminal."""

import asyncio
import json
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pykubelet.cli.plain_text import plain
from pykubelet.cli.screen.view import Shell

if TYPE_CHECKING:
    import aiohttp

    from pykubelet.kube.client import ApiClient, Params

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN: Final = b"\0"
_OUT: Final = (1, 2)
_ERROR: Final = 3
_RESIZE: Final = b"\x04"
_COMMAND: Final = ("sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec sh")
_CHUNK: Final = 4096


async def run_shell(server: "ApiClient", shell: Shell) -> str:
    """Until it ends. -> what was wrong with it, if anything. Raises PykubeletError when it cannot be had."""
    path = f"/api/v1/namespaces/{shell.pod.namespace}/pods/{shell.pod.name}/exec"
    params: Params = {"container": shell.container, "stdin": True, "stdout": True, "tty": True, "command": _COMMAND}
    async with server.websocket(path, params, PROTOCOLS) as socket:
        with _raw(sys.stdin.fileno()):
            return await _joined(socket, sys.stdin.fileno(), sys.stdout.fileno())


async def _joined(socket: "aiohttp.ClientWebSocketResponse", keyboard: int, screen: int) -> str:
    loop, typed = asyncio.get_running_loop(), asyncio.Queue[bytes]()
    loop.add_reader(keyboard, lambda: typed.put_nowait(_STDIN + os.read(keyboard, _CHUNK)))
    loop.add_signal_handler(signal.SIGWINCH, lambda: typed.put_nowait(_RESIZE + _size(screen)))
    typed.put_nowait(_RESIZE + _size(screen))
    sender = asyncio.create_task(_send(socket, typed))
    try:
        return await _receive(socket, screen)
    finally:
        sender.cancel()
        loop.remove_reader(keyboard)
        loop.remove_signal_handler(signal.SIGWINCH)
        await asyncio.gather(sender, return_exceptions=True)


async def _send(socket: "aiohttp.ClientWebSocketResponse", typed: "asyncio.Queue[bytes]") -> None:
    while True:
        await socket.send_bytes(await typed.get())


async def _receive(socket: "aiohttp.ClientWebSocketResponse", screen: int) -> str:
    async for message in socket:
        data = message.data if isinstance(message.data, bytes) else b""
        if data and data[0] in _OUT:
            await asyncio.to_thread(_write, screen, data[1:])
        elif data and data[0] == _ERROR:
            return _trouble(data[1:])
    return ""


def _write(screen: int, data: bytes) -> None:
    while data:
        data = data[os.write(screen, data) :]


def _trouble(data: bytes) -> str:
    """A Status: a shell that ends with a code of its own is no trouble."""
    try:
        status = json.loads(data)
    except ValueError:
        return ""
    if status.get("status") == "Success" or status.get("reason") == "NonZeroExitCode":
        return ""
    return plain(str(status.get("message", "")))


def _size(screen: int) -> bytes:
    size = os.get_terminal_size(screen)
    return json.dumps({"Width": size.columns, "Height": size.lines}).encode()


@contextmanager
def _raw(keyboard: int) -> Iterator[None]:
    before = termios.tcgetattr(keyboard)
    try:
        tty.setraw(keyboard, termios.TCSANOW)  # what was typed ahead is not lost
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)

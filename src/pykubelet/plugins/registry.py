"""Plug-ins introduce themselves with a socket in a folder: who is there is found out by looking, once a second.

A socket is asked who is behind it, and whoever knows plug-ins of that type takes it in or says what is wrong. A socket
that goes, or is another one by now, takes its plug-in with it.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.base.tasks import every
from pykubelet.web.socket_door import LONGEST_PATH

if TYPE_CHECKING:
    from pykubelet.web.grpc_channel import Channel

log = logging.getLogger(__name__)

CSI: Final = "CSIPlugin"
DEVICES: Final = "DevicePlugin"
DRA: Final = "DRAPlugin"
_SERVICE: Final = "pluginregistration.Registration"
_PERIOD: Final = 1.0
_TO_ANSWER: Final = 10.0
_TO_HEAR: Final = 5.0
_SHORTEST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 122.0
_MOST_SOCKETS: Final = 200
_DEEPEST: Final = 8


class Plugins(Protocol):
    """Who takes in plug-ins of one type. Not two calls at a time for one socket."""

    async def register(self, name: str, endpoint: str, versions: tuple[str, ...]) -> None:
        """Raises base.errors; the plug-in is told the text, and is asked again later."""
        ...

    async def deregister(self, name: str, endpoint: str) -> None:
        """What was registered is gone. Never raises."""
        ...


class Identity(NamedTuple):
    """Of what lies at a path: another socket there is another plug-in."""

    device: int
    inode: int
    made: int
    """Ids are used again at once, and rights may change."""


class PluginRegistry:
    """`folder` is made if need be. `types` says who takes in which plug-ins."""

    def __init__(self, folder: str, types: Mapping[str, Plugins]) -> None:
        self._folder = folder
        self._types = types
        self._tasks: dict[str, tuple[Identity, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        os.makedirs(self._folder, 0o755, exist_ok=True)
        told = False
        try:
            async for _ in every(_PERIOD):
                found = dict(sockets(self._folder))
                if len(found) >= _MOST_SOCKETS and not told:
                    log.warning("%s: only the first %d sockets are looked at", self._folder, _MOST_SOCKETS)
                    told = True
                await self._follow(found)
        finally:
            await self._follow({})

    async def _follow(self, found: Mapping[str, Identity]) -> None:
        gone = [path for path, (identity, _) in self._tasks.items() if found.get(path) != identity]
        tasks = [self._tasks.pop(path)[1] for path in gone]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for path in found.keys() - self._tasks.keys():
            self._tasks[path] = found[path], asyncio.create_task(self._keep(path), name=f"plug-in {path}")

    async def _keep(self, path: str) -> None:
        """Have the plug-in registered until this is cancelled, however often it takes."""
        backoff = Backoff(_SHORTEST_PAUSE, _LONGEST_PAUSE, now=asyncio.get_running_loop().time)
        leave: Callable[[], Awaitable[None]] | None = None
        try:
            while leave is None:
                try:
                    leave = await self._register(path)
                except (PykubeletError, OSError) as error:
                    pause = backoff.next()
                    log.warning("the plug-in at %s is not taken in: %s; trying again in %.1f s", path, error, pause)
                    await asyncio.sleep(pause)
                except Exception:  # the boundary: whatever a plug-in says, the others go on
                    log.exception("the plug-in at %s could not be taken in", path)
                    await asyncio.sleep(backoff.next())
            await asyncio.Event().wait()
        finally:
            if leave is not None:
                await leave()

    async def _register(self, path: str) -> Callable[[], Awaitable[None]]:
        """-> how to undo it."""
        from pykubelet.plugins._gen.registration_pb2 import InfoRequest, PluginInfo  # few nodes have plug-ins
        from pykubelet.web.grpc_channel import Channel

        channel = Channel(path, deadline=_TO_ANSWER, peer=f"the plug-in at {path}")
        try:
            info = await channel.call(f"{_SERVICE}/GetInfo", InfoRequest(), PluginInfo)
            try:
                plugins = self._types.get(info.type)
                if plugins is None:
                    raise Invalid(f"no handler registered for plugin type: {info.type} at socket {path}")
                endpoint = checked_endpoint(info.endpoint or path)
                await plugins.register(info.name, endpoint, tuple(info.supported_versions))
            except PykubeletError as error:
                with suppress(PykubeletError):
                    await _notify(channel, str(error))
                raise
            leave = partial(plugins.deregister, info.name, endpoint)
            try:
                await _notify(channel, "")
            except (PykubeletError, asyncio.CancelledError):
                await leave()
                raise
            log.info("%s %s has registered at %s", info.type, info.name, endpoint)
            return leave
        finally:
            await channel.close()


async def _notify(channel: "Channel", error: str) -> None:
    from pykubelet.plugins._gen.registration_pb2 import RegistrationStatus, RegistrationStatusResponse

    status = RegistrationStatus(plugin_registered=not error, error=error and f"RegisterPlugin error -- {error}")
    method = f"{_SERVICE}/NotifyRegistrationStatus"
    await channel.call(method, status, RegistrationStatusResponse, deadline=_TO_HEAR)


def checked_endpoint(path: str) -> str:
    """Raises Invalid."""
    path = path.removeprefix("unix://")
    if not path.startswith("/") or len(os.fsencode(path)) > LONGEST_PATH or "\0" in path:
        raise Invalid(f"{path[:200]!r} is no socket: it takes an absolute path of at most {LONGEST_PATH} bytes")
    return path


def sockets(folder: str, depth: int = _DEEPEST) -> Iterator[tuple[str, Identity]]:
    """Those in a folder and below, a bounded number. Nothing whose name starts with a dot, and no folder by a link."""
    count = 0
    folders = [(folder, depth)]
    while folders:
        current, left = folders.pop()
        for path, found in _entries(current):
            if stat.S_ISDIR(found.st_mode):
                if left > 0:
                    folders.append((path, left - 1))
            elif _is_socket(path, found):
                yield path, Identity(found.st_dev, found.st_ino, found.st_mtime_ns)
                count += 1
                if count >= _MOST_SOCKETS:
                    return


def _entries(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                with suppress(OSError):
                    yield entry.path, entry.stat(follow_symlinks=False)


def _is_socket(path: str, found: os.stat_result) -> bool:
    """By a link as well, which some installers make."""
    if stat.S_ISLNK(found.st_mode):
        with suppress(OSError):
            found = os.stat(path)
    return stat.S_ISSOCK(found.st_mode)

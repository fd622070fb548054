"""A plug-in of the node that introduces itself as its test wants."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pykubelet.base.errors import Retry
from pykubelet.plugins._gen.registration_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from pykubelet.web.grpc_server import Call, answering

_SERVICE = "pluginregistration.Registration"


class Introduction:
    """`told` is what it heard of its registration: an error, or nothing."""

    def __init__(self, info: PluginInfo, *, hangs: bool = False, is_deaf: bool = False) -> None:
        self.info = info
        self.asked = 0
        self.told: list[str] = []
        self._hangs = hangs
        self._is_deaf = is_deaf

    @asynccontextmanager
    async def at(self, socket: Path) -> AsyncIterator[None]:
        calls = {
            f"{_SERVICE}/GetInfo": Call(InfoRequest, self._get_info),
            f"{_SERVICE}/NotifyRegistrationStatus": Call(RegistrationStatus, self._hear),
        }
        async with answering(str(socket), calls):
            yield
        with suppress(FileNotFoundError):
            os.unlink(socket)

    async def _get_info(self, _: InfoRequest) -> PluginInfo:
        self.asked += 1
        if self._hangs:
            await asyncio.sleep(3600)
        return self.info

    async def _hear(self, status: RegistrationStatus) -> RegistrationStatusResponse:
        if self._is_deaf:
            raise Retry("what?")
        self.told.append("" if status.plugin_registered else status.error)
        return RegistrationStatusResponse()

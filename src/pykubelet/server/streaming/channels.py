"""The WebSocket channel protocol: each message begins with the number of the channel that it belongs to."""

import base64
import binascii
from typing import Final

from aiohttp import WSMsgType, web

from pykubelet.web.upgrade import close_web_socket

CLOSED: Final = 255
"""In the fifth version, a message on this channel says that another one has ended."""


class Channels:
    def __init__(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        self.count = 0
        """Grows with everything that is said or heard."""
        self.protocol = socket.ws_protocol or ""
        self._request = request
        self._socket = socket
        self._is_base64 = "base64." in self.protocol
        self._can_close = self.protocol.startswith("v5.")

    async def receive(self) -> tuple[int, bytes | None] | None:
        """A channel's number and what came on it, or None once nothing more will. None at the end of all."""
        while True:
            message = await self._socket.receive()
            self.count += 1
            if message.type is WSMsgType.BINARY:
                data = bytes(message.data)
            elif message.type is WSMsgType.TEXT:
                data = message.data.encode()
            else:
                return None
            if not data:
                continue
            channel = data[0]
            if channel == CLOSED and self._can_close:
                if len(data) != 2:
                    return None  # it does not keep to the protocol
                return data[1], None
            if not self._is_base64:
                return channel, data[1:]
            try:
                return channel - ord("0"), base64.b64decode(data[1:], validate=True)
            except binascii.Error:
                continue

    async def send(self, channel: int, data: bytes) -> None:
        """Raises ConnectionError once the other side has gone."""
        self.count += 1
        if self._is_base64:
            await self._socket.send_str(chr(ord("0") + channel) + base64.b64encode(data).decode())
        else:
            await self._socket.send_bytes(b"".join((bytes((channel,)), data)))

    async def nudge(self) -> None:
        """Nobody answers a pong; but it shows whether there is anybody."""
        await self._socket.pong()

    async def close(self, patience: float) -> None:
        await close_web_socket(self._request, self._socket, patience=patience)

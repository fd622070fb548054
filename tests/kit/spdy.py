"""A SPDY client that does exactly what a test tells it, good or bad."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from pykubelet.server.streaming.spdy_frames import (
    Data,
    Event,
    Framing,
    GoAway,
    Replied,
    Reset,
    data_frame,
    go_away_frame,
    reset_frame,
)


class SpdyClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.framing = Framing()
        self.reader = reader
        self.writer = writer
        self.data: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.reset: set[int] = set()
        self.replied: set[int] = set()
        self.others: list[Event] = []
        self.is_at_end = False
        self.has_gone_away = False
        self._next = 1

    def write(self, frame: bytes) -> None:
        self.writer.write(frame)

    def open(self, headers: Mapping[str, str], *, ended: bool = False) -> int:
        stream_id, self._next = self._next, self._next + 2
        self.write(self.framing.open(stream_id, headers, ended=ended))
        return stream_id

    def send(self, stream_id: int, data: bytes, *, ended: bool = False) -> None:
        self.write(data_frame(stream_id, data, ended=ended))

    def give_up(self, stream_id: int) -> None:
        self.write(reset_frame(stream_id, 5))

    def go_away(self) -> None:
        self.write(go_away_frame(0))

    async def hear(self) -> None:
        """Take in one more piece of what the server says."""
        data = await self.reader.read(256 << 10)
        self.is_at_end = not data
        for event in self.framing.feed(data):
            if isinstance(event, Data):
                self.data.setdefault(event.stream_id, bytearray()).extend(event.data)
                if event.is_ended:
                    self.ended.add(event.stream_id)
            elif isinstance(event, Replied):
                self.replied.add(event.stream_id)
            elif isinstance(event, Reset):
                self.reset.add(event.stream_id)
            elif isinstance(event, GoAway):
                self.has_gone_away = True
            else:
                self.others.append(event)

    async def to_the_end(self) -> None:
        with suppress(ConnectionError):
            while not self.is_at_end:
                await self.hear()


@asynccontextmanager
async def spdy_client(port: int, path: str, protocol: str, *, method: str = "POST") -> AsyncIterator[SpdyClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 18)
    try:
        head = ("Host: a", "Connection: Upgrade", "Upgrade: SPDY/3.1", f"X-Stream-Protocol-Version: {protocol}")
        writer.write("\r\n".join((f"{method} {path} HTTP/1.1", *head, "Content-Length: 0", "", "")).encode())
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert answer.startswith("HTTP/1.1 101"), answer
        assert f"X-Stream-Protocol-Version: {protocol}" in answer
        yield SpdyClient(reader, writer)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

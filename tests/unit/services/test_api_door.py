import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pykubelet.services import api_door
from pykubelet.services.api_door import ApiDoor


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1000):
            writer.write(piece)
            await writer.drain()
        writer.write(b"that was all")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def said(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(text)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_what_a_pod_says_gets_through_and_so_does_the_answer() -> None:
    asked: list[str] = []

    def is_ours(who: str) -> bool:
        asked.append(who)
        return True

    async with (
        echo() as port,
        ApiDoor(("127.0.0.1", port), is_ours).serving("127.0.0.1") as d,
    ):
        text = b"x" * 500_000
        assert await said(d, text) == text + b"that was all"
        assert asked == ["127.0.0.1"]


async def test_nobody_else_gets_in() -> None:
    async with echo() as port, ApiDoor(("127.0.0.1", port), lambda who: False).serving("127.0.0.1") as door:
        assert await said(door, b"hello") == b""


async def test_there_is_an_end_to_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_door, "MOST", 1)
    async with echo() as port, ApiDoor(("127.0.0.1", port), lambda who: True).serving("127.0.0.1") as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door)
        writer.write(b"first")
        assert await reader.readexactly(5) == b"first"
        assert await said(door, b"second") == b""
        writer.close()


async def test_when_the_server_is_away_the_connection_ends() -> None:
    async with echo() as port:
        pass
    async with ApiDoor(("127.0.0.1", port), lambda who: True).serving("127.0.0.1") as door:
        assert await said(door, b"hello") == b""

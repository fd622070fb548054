# ruff: noqa: ASYNC240 - tests may block
"""Who may come in by a socket, and that nobody can keep the others out."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kit.waiting import eventually
from pykubelet.web import socket_door as room
from pykubelet.web.socket_door import socket_door


@asynccontextmanager
async def echoing(path: str) -> AsyncIterator[None]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(100):
            writer.write(piece)
        writer.close()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield
    finally:
        server.close()


async def echoed(path: Path) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(b"x")
        async with asyncio.timeout(10):
            return await reader.read(1)
    finally:
        writer.close()


async def test_others_may_not_connect_however_the_agent_was_started(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with socket_door(str(tmp_path / "s"), echoing):
            assert await echoed(tmp_path / "s") == b"x"
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o660
    finally:
        os.umask(before)
    assert list(tmp_path.iterdir()) == []


async def test_those_who_only_sit_there_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_MOST_GUESTS", 5)
    path, faults = tmp_path / "s", list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, fault: faults.append(fault))
    async with socket_door(str(path), echoing):
        idle = [await asyncio.open_unix_connection(path) for _ in range(30)]
        assert await echoed(path) == b"x"
        await eventually(lambda: sum(reader.at_eof() for reader, _ in idle) >= 25)
        for _, writer in idle:
            writer.close()
    assert faults == []


async def test_what_is_no_socket_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("precious")
    with pytest.raises(FileExistsError, match="remove it"):
        async with socket_door(str(tmp_path / "s"), echoing):
            pass
    assert (tmp_path / "s").read_text() == "precious"

"""Somebody who may make what he likes in a namespace tries to get more than its quota lets him have."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from kit.apiserver_process import ApiServerProcess

NS: Final = "/api/v1/namespaces/default"
MOST: Final = 8
WRITERS: Final = 12
SECONDS: Final = 4.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServerProcess]:
    running = ApiServerProcess(tmp_path)
    running.start()
    yield running
    running.kill()


@asynccontextmanager
async def client(server: ApiServerProcess) -> AsyncGenerator[aiohttp.ClientSession, None]:
    async with aiohttp.ClientSession(server.url, connector=aiohttp.TCPConnector(ssl=server.tls())) as session:
        yield session


async def ask(session: aiohttp.ClientSession, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with session.request(method, path, json=body) as answer:
        return answer.status, await answer.json()


async def until_published(session: aiohttp.ClientSession) -> None:
    """What the server itself puts into the namespace."""
    async with asyncio.timeout(20):
        while True:
            code, _ = await ask(session, "GET", f"{NS}/configmaps/kube-root-ca.crt")
            if code == 200:
                return
            await asyncio.sleep(0.05)


async def until_counted(session: aiohttp.ClientSession, used: int) -> None:
    async with asyncio.timeout(20):
        while True:
            _, quota = await ask(session, "GET", f"{NS}/resourcequotas/q")
            if (quota.get("status") or {}).get("used", {}).get("configmaps") == str(used):
                return
            await asyncio.sleep(0.05)


async def test_nobody_gets_more_than_the_quota_by_making_and_deleting_at_the_same_time(
    server: ApiServerProcess,
) -> None:
    async with client(server) as session:
        await until_published(session)
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": str(MOST)}}}
        assert (await ask(session, "POST", f"{NS}/resourcequotas", quota))[0] == 201
        await until_counted(session, 1)
        end, numbers, codes = asyncio.get_running_loop().time() + SECONDS, itertools.count(), dict[int, int]()

        async def write() -> None:
            mine: list[str] = []
            while asyncio.get_running_loop().time() < end:
                name = f"m{next(numbers)}"
                code, _ = await ask(session, "POST", f"{NS}/configmaps", {"metadata": {"name": name}})
                codes[code] = codes.get(code, 0) + 1
                if code == 201:
                    mine.append(name)
                if len(mine) > 1 or (mine and code == 403):
                    await ask(session, "DELETE", f"{NS}/configmaps/{mine.pop(0)}")

        async def look() -> int:
            most = 0
            while asyncio.get_running_loop().time() < end:
                _, listed = await ask(session, "GET", f"{NS}/configmaps")
                most = max(most, len(listed["items"]))
            return most

        _, most = await asyncio.gather(asyncio.gather(*(write() for _ in range(WRITERS))), look())
        assert most <= MOST
        assert set(codes) == {201, 403}, codes
        _, listed = await ask(session, "GET", f"{NS}/configmaps")
        await until_counted(session, len(listed["items"]))

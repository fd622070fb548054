"""The API server under SIGKILL and on a full disk: what it has acknowledged is kept, and watchers miss nothing."""

import asyncio
import itertools
import json
import os
import random
import sqlite3
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kit.apiserver_process import ApiServerProcess, plain_pod
from kit.waiting import eventually

MAPS = "/api/v1/namespaces/default/configmaps"
OURS = ("w", "last")
"""How the names begin that the test writes."""
PODS = "/api/v1/namespaces/default/pods"
WRITERS = 24
ROUNDS = 3
Fault = (aiohttp.ClientError, OSError, TimeoutError)


@asynccontextmanager
async def client(server: ApiServerProcess) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=server.tls(), limit=0)
    timeout = aiohttp.ClientTimeout(total=None, connect=10.0)
    async with aiohttp.ClientSession(server.url, connector=connector, timeout=timeout) as session:
        yield session


async def ask(session: aiohttp.ClientSession, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with asyncio.timeout(20), session.request(method, path, json=body) as answer:
        return answer.status, await answer.json()


class Ledger:
    """What was asked for and what was acknowledged, by name. A value of None: it is gone."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str | None] = {}
        self.doubtful: dict[str, str | None] = {}
        """Asked for, and never answered."""
        self.versions: dict[int, str] = {}
        """Whose each acknowledged resourceVersion is."""
        self.deletions = 0
        self.count = 0

    @property
    def newest(self) -> int:
        return max(self.versions, default=0)

    def note(self, name: str, value: str | None, version: str = "") -> None:
        self.acknowledged[name] = value
        self.doubtful.pop(name, None)
        self.count += 1
        if version:
            assert int(version) not in self.versions, "a resourceVersion was given out twice"
            self.versions[int(version)] = name
        else:
            self.deletions += 1

    def check(self, there: dict[str, str]) -> None:
        for name, value in self.acknowledged.items():
            possible = {value, self.doubtful.get(name, value)}
            assert there.get(name) in possible, f"{name}: {there.get(name)!r} instead of one of {possible}"


async def keep_writing(session: aiohttp.ClientSession, ledger: Ledger, writer: str) -> None:
    """Create, change twice, and delete every other, until nobody answers any more."""
    with suppress(*Fault):
        for number in itertools.count():
            name = f"{writer}-{number}"
            obj: dict[str, Any] = {"metadata": {"name": name}, "data": {}}
            for change in range(3):
                obj["data"]["value"] = ledger.doubtful[name] = f"{change}"
                place, method = (f"{MAPS}/{name}", "PUT") if change else (MAPS, "POST")
                code, obj = await ask(session, method, place, obj)
                assert code in (200, 201), obj
                ledger.note(name, f"{change}", obj["metadata"]["resourceVersion"])
            if number % 2:
                ledger.doubtful[name] = None
                code, gone = await ask(session, "DELETE", f"{MAPS}/{name}")
                assert code == 200, gone
                ledger.note(name, None)


class Watcher:
    """Goes on from the last resourceVersion that it has seen, whatever happens to the server."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.seen: list[tuple[str, str, int]] = []
        self.relists = 0

    async def run(self, session: aiohttp.ClientSession) -> None:
        while True:
            with suppress(*Fault):
                await self._follow(session)
            await asyncio.sleep(0.05)

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        query = {"watch": "1", "resourceVersion": str(self.version), "allowWatchBookmarks": "true"}
        async with session.get(MAPS, params=query) as answer:
            async for line in answer.content:
                if not line.endswith(b"\n"):
                    return  # it was cut off by the end of the server, and is told again
                change = json.loads(line)
                if change["type"] == "ERROR":
                    assert change["object"]["code"] == 410, change
                    await self._start_over(session)
                    return
                metadata = change["object"]["metadata"]
                version = int(metadata["resourceVersion"])
                if change["type"] != "BOOKMARK":
                    self.seen.append((change["type"], metadata["name"], version))
                self.version = version

    async def _start_over(self, session: aiohttp.ClientSession) -> None:
        _, listed = await ask(session, "GET", MAPS)
        self.version, self.relists = int(listed["metadata"]["resourceVersion"]), self.relists + 1


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServerProcess]:
    made = ApiServerProcess(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.kill()


async def test_a_kill_in_the_middle_of_thousands_of_writes_loses_nothing_that_was_acknowledged(
    server: ApiServerProcess,
) -> None:
    draw, ledger, newest = random.Random(), Ledger(), 0
    async with client(server) as session:
        _, listed = await ask(session, "GET", MAPS)
        watchers = [Watcher(int(listed["metadata"]["resourceVersion"])) for _ in range(5)]
        following = [asyncio.create_task(each.run(session)) for each in watchers]
        for round_ in range(ROUNDS):
            enough = ledger.count + draw.randrange(500, 1100)
            writing = [
                asyncio.create_task(keep_writing(session, ledger, f"w{round_}-{number}")) for number in range(WRITERS)
            ]
            await eventually(lambda: ledger.count >= enough or any(each.done() for each in writing))  # noqa: B023
            server.kill()
            await asyncio.gather(*writing)
            assert ledger.count >= enough
            newest = max(ledger.newest, *(each.version for each in watchers))
            await asyncio.to_thread(server.start)
            version, there = await _listed(session)
            ledger.check(there)
            assert version >= newest, "resourceVersions went back"
        _, last = await ask(session, "POST", MAPS, {"metadata": {"name": "last"}})
        end = int(last["metadata"]["resourceVersion"])
        assert end > newest
        await eventually(lambda: all(each.version >= end for each in watchers))
        _, there = await _listed(session)
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    for watcher in watchers:
        _check_seen(watcher, ledger, there)
    server.stop()
    _check_file(server.data / "state.db")


async def _listed(session: aiohttp.ClientSession) -> tuple[int, dict[str, str]]:
    """-> of which moment, and the values by name"""
    code, listed = await ask(session, "GET", MAPS)
    assert code == 200, listed
    values = {each["metadata"]["name"]: each.get("data", {}).get("value", "") for each in listed["items"]}
    return int(listed["metadata"]["resourceVersion"]), values


def _check_seen(watcher: Watcher, ledger: Ledger, there: dict[str, str]) -> None:
    versions = [version for _, _, version in watcher.seen]
    assert versions == sorted(set(versions)), "a change was told twice, or too late"
    if watcher.relists:
        return  # it was told to start over, and has what there is from the list
    told = {version: name for _, name, version in watcher.seen}
    missed = {version: name for version, name in ledger.versions.items() if told.get(version) != name}
    assert not missed, f"{len(missed)} changes were not told"
    kinds = Counter(kind for kind, name, _ in watcher.seen if name.startswith(OURS))  # controllers write here, too
    assert kinds["DELETED"] >= ledger.deletions
    assert kinds["ADDED"] - kinds["DELETED"] == len([name for name in there if name.startswith(OURS)])


def _check_file(path: Path) -> None:
    db = sqlite3.connect(path)
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        db.close()


# --- a disk that is full


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_on_a_full_disk_writes_fail_clearly_and_reads_go_on_until_there_is_room_again(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "24m") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(8 << 20))
        server = ApiServerProcess(disk)
        server.log = tmp_path / "apiserver.log"
        try:
            await asyncio.to_thread(server.start)
            async with client(server) as session:
                written, refused = await _filled_up(session)
                assert (refused["kind"], refused["code"]) == ("Status", 503), refused
                assert refused["reason"] == "ServiceUnavailable"
                assert "nothing can be written to the store" in refused["message"]
                assert "make room on its disk" in refused["message"]
                assert (await ask(session, "GET", f"{MAPS}/big-0"))[0] == 200
                version, there = await _listed(session)
                assert written <= there.keys()
                ballast.unlink()
                code, made = await ask(session, "POST", PODS, plain_pod("after"))
                assert code == 201, made
                assert int(made["metadata"]["resourceVersion"]) > version
                _, there = await _listed(session)
                assert written <= there.keys()
            server.stop()
            _check_file(server.data / "state.db")
        finally:
            server.kill()


async def _filled_up(session: aiohttp.ClientSession) -> tuple[set[str], Any]:
    """-> the names of what was taken, and the answer to the first that was not"""
    written: set[str] = set()
    for number in range(1000):
        name = f"big-{number}"
        body = {"metadata": {"name": name}, "data": {"value": "x" * 200_000}}
        code, answer = await ask(session, "POST", MAPS, body)
        if code != 201:
            return written, answer
        written.add(name)
    raise AssertionError("the disk never filled up")


# --- clients that do not take what they asked for


async def test_watchers_that_never_read_cost_little_and_do_not_hold_up_others(server: ApiServerProcess) -> None:
    """Each is told 40 MB, of which it takes nothing; what waits for it stays the same for all."""
    deaf = [await asyncio.to_thread(_deaf, server) for _ in range(20)]
    try:
        async with client(server) as session:
            _, listed = await ask(session, "GET", MAPS)
            watcher = Watcher(int(listed["metadata"]["resourceVersion"]))
            following = asyncio.create_task(watcher.run(session))
            before = server.rss()
            for number in range(200):
                body = {"metadata": {"name": f"a-{number % 10}"}, "data": {"value": f"{number}" + "x" * 200_000}}
                place, method = (f"{MAPS}/a-{number % 10}", "PUT") if number >= 10 else (MAPS, "POST")
                code, answer = await ask(session, method, place, body)
                assert code in (200, 201), answer
            await eventually(lambda: len(watcher.seen) >= 200)
            grown = server.rss() - before
            print(f"20 watchers that never read, 40 MB of changes: the server has grown by {grown:.0f} MiB")
            assert grown < 20 * 40 / 2, "what nobody takes is kept for each of them"
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    finally:
        for connection in deaf:
            connection.close()


def _deaf(server: ApiServerProcess) -> Any:
    connection = server.connected()
    connection.sendall(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert b" 200 " in connection.recv(100)
    return connection

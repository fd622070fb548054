import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from contract.store import watching
from kit.waiting import eventually
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.port import Expired, Store
from pykubelet.apiserver.store.sqlite import SqliteStore
from pykubelet.apiserver.store.sqlite_writer import History
from pykubelet.base.errors import Invalid, Retry


@asynccontextmanager
async def opened(path: Path, history: History | None = None) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, history=history)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "store.db"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def _read(path: Path) -> bytes:
    return path.read_bytes()


async def _fill(store: SqliteStore, acknowledged: dict[str, int]) -> None:
    for number in range(2_000):
        acknowledged[f"/registry/{number}"] = await store.create(f"/registry/{number}", b"x" * 10_000)


async def _is_well(store: SqliteStore) -> None:
    while not await store.healthy():  # noqa: ASYNC110  # nothing tells it
        await asyncio.sleep(0.02)


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    db = sqlite3.connect(path)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


async def test_what_was_written_is_there_after_opening_again(path: Path) -> None:
    async with opened(path) as store:
        first = await store.create("/registry/a", b"1")
        second = await store.update("/registry/a", b"2", revision=first)
    async with opened(path) as store:
        entry = await store.get("/registry/a")
        assert entry is not None
        assert (entry.value, entry.revision, entry.created) == (b"2", second, first)
        assert await store.revision() == second
        async with watching(store, "/registry/", 1) as view:
            assert [event.value for event in await view.take(2)] == [b"1", b"2"]


async def test_a_revision_is_never_used_again_even_when_its_row_is_gone(path: Path) -> None:
    async with opened(path) as store:
        gone = await store.delete("/registry/a", revision=await store.create("/registry/a", b"1"))
        await store.compact(gone.revision)
    assert rows(path, "SELECT * FROM log") == []
    async with opened(path) as store:
        assert await store.revision() == gone.revision
        assert await store.create("/registry/a", b"1") == gone.revision + 1


async def test_nobody_else_can_read_the_files(path: Path) -> None:
    _write(path, b"")
    os.chmod(path, 0o644)
    async with opened(path) as store:
        await store.create("/registry/a", b"secret")
        files = sorted(path.parent.iterdir())
        assert [file.name for file in files] == ["store.db", "store.db-shm", "store.db-wal", "store.db.lock"]
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


async def test_a_store_is_open_only_once(path: Path) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; from pykubelet.apiserver.store.sqlite import SqliteStore\n"
        "try: asyncio.run(SqliteStore.open(Path(sys.argv[1])))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    async with opened(path) as store:
        with pytest.raises(Invalid, match=f"in use by process {os.getpid()}"):
            await SqliteStore.open(path)
        told = await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", code, str(path)], text=True)
        assert told.startswith(f"Invalid the store {path} is in use by process {os.getpid()}")
        await store.create("/registry/a", b"1")
    async with opened(path) as store:
        assert await store.get("/registry/a") is not None


async def test_a_file_of_another_kind_is_refused_and_left_alone(path: Path) -> None:
    text = b"certainly no database, but quite some text " * 50
    _write(path, text)
    with pytest.raises(Invalid, match="cannot be used as a store"):
        await SqliteStore.open(path)
    assert _read(path) == text
    os.unlink(path)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE other (x)")
    db.close()
    with pytest.raises(Invalid, match="another program"):
        await SqliteStore.open(path)


async def test_a_file_of_a_newer_version_is_refused(path: Path) -> None:
    async with opened(path) as store:
        await store.create("/registry/a", b"1")
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 2")
    db.close()
    with pytest.raises(Invalid, match="newer version"):
        await SqliteStore.open(path)


async def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match="cannot be opened"):
        await SqliteStore.open(tmp_path / "file" / "store.db")


async def test_old_history_is_forgotten_by_itself_and_the_present_stays(path: Path) -> None:
    async with opened(path, History(seconds=0.05, revisions=10, look_every=0.05)) as store:
        first = revision = await store.create("/registry/a", b"0")
        for number in range(100):
            revision = await store.update("/registry/a", str(number).encode(), revision=revision)
        await store.delete("/registry/b", revision=await store.create("/registry/b", b"1"))
        for number in range(12):
            await store.create(f"/registry/c{number}", b"1")

        def kept() -> int:
            return len(rows(path, "SELECT 1 FROM log WHERE key IN ('/registry/a', '/registry/b')"))

        await eventually(lambda: kept() == 1)
        with pytest.raises(Expired):
            await store.list("/registry/", revision=first)
        newest = await store.list("/registry/")
        assert len(newest.entries) == 13
        assert [entry.value for entry in newest.entries if entry.key == "/registry/a"] == [b"99"]
        recent = await store.list("/registry/", revision=newest.revision - 9)
        assert len(recent.entries) == 4


async def test_room_that_is_no_longer_needed_is_given_back(path: Path) -> None:
    async with opened(path) as store:
        keys = [f"/registry/{number}" for number in range(2500)]
        made = await asyncio.gather(*(store.create(key, b"x" * 14_000) for key in keys))
        gone = await asyncio.gather(
            *(store.delete(key, revision=revision) for key, revision in zip(keys, made, strict=True))
        )
        await store.compact(max(entry.revision for entry in gone))
        await eventually(lambda: rows(path, "PRAGMA page_count")[0][0] < 1_100)  # type: ignore[operator]


async def test_who_is_cancelled_leaves_the_others_alone(path: Path) -> None:
    async with opened(path) as store:
        tasks = [asyncio.create_task(store.create(f"/registry/{number}", b"1")) for number in range(40)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, int) for each in outcomes[1::2])
        listing = await store.list("/registry/")
        assert {f"/registry/{number}" for number in range(1, 40, 2)} <= {entry.key for entry in listing.entries}


async def test_a_long_history_is_told_from_the_disk(path: Path) -> None:
    async with opened(path) as store:
        await asyncio.gather(*(store.create(f"/registry/{number}", b"1") for number in range(1_300)))
    async with opened(path) as store, watching(store, "/registry/", 1) as view:
        assert [event.revision for event in await view.take(1_300)] == list(range(2, 1_302))
        await store.create("/registry/new", b"1")
        assert (await view.next()).key == "/registry/new"


async def test_a_closed_store_says_so(path: Path) -> None:
    store = await SqliteStore.open(path)
    watch = asyncio.ensure_future(anext(store.watch("/registry/", since=1)))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    for asked in (store.get("/registry/a"), store.create("/registry/a", b"1"), store.revision(), watch):
        with pytest.raises(Retry, match="closed"):
            await asked
    assert not await store.healthy()


async def test_a_full_disk_refuses_writes_keeps_reads_and_comes_back(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 1_500_000)
    path = small_disk / "store.db"
    acknowledged: dict[str, int] = {}
    async with opened(path, History(look_every=0.05)) as store:
        with pytest.raises(Retry, match=r"nothing can be written to the store .* make room on its disk"):
            await _fill(store, acknowledged)
        assert acknowledged
        assert not await store.healthy()
        listing = await store.list("/registry/")
        assert {entry.key: entry.revision for entry in listing.entries} == acknowledged
        filler.unlink()
        async with asyncio.timeout(30):
            await _is_well(store)
        revision = await store.create("/registry/after", b"1")
        assert revision > max(acknowledged.values())
        acknowledged["/registry/after"] = revision
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    async with opened(path) as store:
        listing = await store.list("/registry/")
        assert {entry.key: entry.revision for entry in listing.entries} == acknowledged


async def test_a_watch_from_the_very_beginning_tells_all(path: Path) -> None:
    async with opened(path) as store:
        both: tuple[Store, ...] = (store, MemoryStore())
        for each in both:
            made = await each.create("/registry/a", b"1")
            async with watching(each, "/registry/", 0) as view:
                assert (await view.next()).revision == made

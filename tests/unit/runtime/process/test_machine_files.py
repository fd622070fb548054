import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykubelet.runtime.process import machine_files
from pykubelet.runtime.process.machine_files import MachineFiles, _Seen


@pytest.fixture(autouse=True)
def _nothing_is_known() -> Iterator[None]:
    known = dict(machine_files._seen)
    machine_files._seen.clear()
    yield
    machine_files._seen.clear()
    machine_files._seen.update(known)


def private(folder: Path) -> set[str]:
    seen = machine_files._current(str(folder)[1:], threading.Event())
    return {os.path.relpath(path, folder) for path in seen.private}


def make(path: Path, mode: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    path.chmod(mode)
    return path


def test_private_is_what_others_may_not_read(tmp_path: Path) -> None:
    for name, mode in (("all", 0o644), ("group", 0o640), ("own", 0o600), ("runs", 0o711), ("a/b/deep", 0o400)):
        make(tmp_path / name, mode)
    make(tmp_path / "shut" / "file", 0o644).parent.chmod(0o750)
    make(tmp_path / "listless" / "file", 0o644).parent.chmod(0o711)
    os.mkfifo(tmp_path / "pipe", 0o666)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        (tmp_path / "link").symlink_to("own")
        assert private(tmp_path) == {"group", "own", "runs", "a/b/deep", "shut", "listless", "pipe", "socket"}


def test_what_comes_or_closes_is_noticed_at_once(tmp_path: Path) -> None:
    make(tmp_path / "a" / "file", 0o644)
    assert private(tmp_path) == set()
    make(tmp_path / "a" / "new", 0o600)
    assert private(tmp_path) == {"a/new"}
    (tmp_path / "a").chmod(0o700)
    assert private(tmp_path) == {"a"}


def test_nothing_is_looked_through_again_while_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make(tmp_path / "file", 0o644)
    assert private(tmp_path) == set()
    file.chmod(0o600)  # which no folder tells
    assert private(tmp_path) == set()
    monkeypatch.setattr(machine_files, "_FRESH", 0.0)
    assert private(tmp_path) == {"file"}


def test_what_is_not_there_or_a_link_holds_nothing(tmp_path: Path) -> None:
    assert private(tmp_path / "nothing") == set()
    make(tmp_path / "real" / "file", 0o600)
    (tmp_path / "link").symlink_to("real")
    assert private(tmp_path / "link") == set()


async def test_credentials_are_hidden_by_both_of_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_files, "_look", seen_as(0.0))
    monkeypatch.setattr(machine_files, "SHOWN", (str(tmp_path)[1:],))
    monkeypatch.setattr(machine_files, "_SMALL", ())
    make(tmp_path / "real", 0o644)
    (tmp_path / "link").symlink_to("real")
    files = MachineFiles([tmp_path / "link", tmp_path / "not" / "yet", Path("/elsewhere")])
    await files.ready()
    assert set(files.hidden()) == {f"{tmp_path}/{name}" for name in ("link", "real", "not/yet")}
    await files.close()


def seen_as(age: float, walks: list[str] | None = None) -> Callable[[str, threading.Event], _Seen]:
    def look(top: str, is_closed: threading.Event) -> _Seen:
        if walks is not None:
            walks.append(top)
        seen = machine_files._seen[top] = _Seen(at=time.monotonic() - age)
        return seen

    return look


@pytest.mark.parametrize(("age", "again"), [(0.0, 0), (599.0, 0), (601.0, 1), (3601.0, 1)])
async def test_the_long_walk_is_taken_again_with_time(monkeypatch: pytest.MonkeyPatch, age: float, again: int) -> None:
    walks: list[str] = []
    monkeypatch.setattr(machine_files, "_look", seen_as(age, walks))
    files = MachineFiles([])
    await asyncio.gather(*(files.ready() for _ in range(5)))
    assert len(walks) == 1, "they share it"
    monkeypatch.setattr(machine_files, "_look", seen_as(0.0, walks))
    await files.ready()
    walk = files.look()
    if walk is not None:
        await walk
    assert len(walks) == 1 + again
    await files.close()


async def test_nobody_waits_for_a_walk_that_only_makes_it_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    is_let_go = threading.Event()

    def look(top: str, is_closed: threading.Event) -> _Seen:
        is_let_go.wait(10)
        return seen_as(0.0)(top, is_closed)

    monkeypatch.setattr(machine_files, "_look", look)
    seen_as(700.0)("usr", is_let_go)
    files = MachineFiles([])
    async with asyncio.timeout(5):
        await files.ready()
    seen_as(4000.0)("usr", is_let_go)
    waiting = asyncio.ensure_future(files.ready())
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    is_let_go.set()
    await waiting
    await files.close()


async def test_who_closes_does_not_wait_for_the_end_of_a_walk(tmp_path: Path) -> None:
    files = MachineFiles([])
    files.look()
    async with asyncio.timeout(10):
        await files.close()

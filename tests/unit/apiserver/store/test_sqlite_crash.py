"""What was acknowledged is there after the process was killed, at whatever moment."""

import asyncio
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

from pykubelet.apiserver.store.sqlite import SqliteStore

_WRITER = """
import asyncio, os, sys
from pathlib import Path
from pykubelet.apiserver.store.sqlite import SqliteStore
from pykubelet.apiserver.store.sqlite_writer import History

async def main(path, round_):
    store = await SqliteStore.open(path, history=History(seconds=0.0, revisions=50, look_every=0.01))
    async def write(writer):
        key, number = f"/registry/{round_}/{writer}", 0
        revision = await store.create(key, b"0" * 3000)
        while True:
            os.write(1, f"{key} {number} {revision}\\n".encode())
            number += 1
            revision = await store.update(key, str(number).encode() * 1000, revision=revision)
    await asyncio.gather(*(write(writer) for writer in range(20)))

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


async def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    draw = random.Random()
    told: dict[str, tuple[int, int]] = {}
    highest = 0
    for round_ in range(4):
        lines = await asyncio.to_thread(_killed_writer, path, round_, draw.randrange(200, 800))
        for line in lines:
            if line.endswith(b"\n"):
                key, number, revision = line.split()
                assert int(revision) > 1
                told[key.decode()] = (int(number), int(revision))
        assert min(at for key, (_, at) in told.items() if key.startswith(f"/registry/{round_}/")) > highest
        await _check(path, told)
        highest = max(highest, *(at for _, at in told.values()))
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def _killed_writer(path: Path, round_: int, after: int) -> list[bytes]:
    """All that it has acknowledged, when it was killed after so many."""
    command = [sys.executable, "-c", _WRITER, str(path), str(round_)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )  # or communicate() misses what a buffer holds
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(after)]
    process.kill()
    rest, complaint = process.communicate()
    assert not complaint
    return lines + rest.splitlines(keepends=True)


async def _check(path: Path, told: dict[str, tuple[int, int]]) -> None:
    store = await SqliteStore.open(path)
    try:
        held = {entry.key: entry for entry in (await store.list("/registry/")).entries}
        for key, (number, revision) in told.items():
            entry = held[key]
            assert entry.revision >= revision  # one more may be there that could not be acknowledged any more
            if entry.revision == revision:
                assert entry.value == (b"0" * 3000 if number == 0 else str(number).encode() * 1000)
            else:
                assert entry.value == str(number + 1).encode() * 1000
        newest = await store.revision()
        assert newest >= max(revision for _, revision in told.values())
        probe = await store.create("/registry/probe", b"")
        assert probe == newest + 1
        await store.delete("/registry/probe", revision=probe)
    finally:
        await store.close()

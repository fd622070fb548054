"""The file: in order, in bounds, and nothing left out."""

import asyncio
import gzip
import os
import threading
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from kit.waiting import eventually
from pykubelet.apiserver.telemetry import audit_log
from pykubelet.apiserver.telemetry.audit_log import AuditFile, AuditLog
from pykubelet.base.errors import Invalid

_LINE = b"x" * ((64 << 10) - 1) + b"\n"


async def written(log: AuditLog, lines: int) -> None:
    log.open()
    running = asyncio.create_task(log.run())
    for _ in range(lines):
        log.write(_LINE)
        await asyncio.sleep(0)
        await eventually(lambda: not log._waiting)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def renamed(folder: Path, start: str) -> list[Path]:
    return sorted(folder.glob(f"{start}*"))


async def test_what_was_said_before_the_end_is_written_and_only_for_its_owner(tmp_path: Path) -> None:
    log = AuditLog(AuditFile(str(tmp_path / "audit.log")))
    log.open()
    running = asyncio.create_task(log.run())
    await asyncio.sleep(0)
    for number in range(100):
        log.write(b"%d\n" % number)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (tmp_path / "audit.log").read_text().split() == [str(number) for number in range(100)]
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600


async def test_what_is_being_written_at_the_end_is_written_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, real = threading.Event(), threading.Event(), os.write

    def write(number: int, data: memoryview) -> int:
        begun.set()
        go.wait(10)
        return real(number, data[: len(data) // 2 + 1])

    monkeypatch.setattr("os.write", write)
    log = AuditLog(AuditFile(str(tmp_path / "a.log")))
    log.open()
    running = asyncio.create_task(log.run())
    log.write(_LINE)
    await eventually(begun.is_set)
    log.write(b"last\n")
    running.cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(running, return_exceptions=True)
    assert (tmp_path / "a.log").read_bytes() == _LINE + b"last\n"


async def test_a_disk_that_takes_nothing_keeps_no_server_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(number: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", write)
    monkeypatch.setattr(audit_log, "_LAST", 0.01)
    log = AuditLog(AuditFile(str(tmp_path / "a.log")))
    log.open()
    running = asyncio.create_task(log.run())
    log.write(_LINE)
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait_for(asyncio.gather(running, return_exceptions=True), 10)


async def test_what_has_grown_is_renamed_and_the_oldest_go(tmp_path: Path) -> None:
    ticks = count()

    def now() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(ticks))

    (tmp_path / "audit-notes.log").write_text("not ours")
    file = AuditFile(str(tmp_path / "audit.log"), most_files=2, most_megabytes=1, compress=True)
    await written(AuditLog(file, now=now), 5 * 16)
    older = renamed(tmp_path, "audit-2026")
    assert [each.name for each in older] == [
        "audit-2026-01-01T00-00-02.000.log.gz",
        "audit-2026-01-01T00-00-03.000.log.gz",
    ]
    assert len(gzip.decompress(older[0].read_bytes())) == 1 << 20
    assert (tmp_path / "audit.log").stat().st_size == 1 << 20
    assert (tmp_path / "audit-notes.log").exists()


async def test_the_old_go_by_their_days(tmp_path: Path) -> None:
    days = count(step=2)

    def now() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=next(days))

    await written(AuditLog(AuditFile(str(tmp_path / "a.log"), most_days=3, most_megabytes=1), now=now), 4 * 16)
    assert [each.name[:12] for each in renamed(tmp_path, "a-")] == ["a-2026-01-03", "a-2026-01-05"]


async def test_who_says_more_than_the_disk_takes_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_MOST_WAITING", 256 << 10)
    monkeypatch.setattr(audit_log, "_AGAIN", 0.01)
    full, real = True, os.write

    def write(number: int, data: memoryview) -> int:
        if full:
            raise OSError(28, "No space left on device")
        return real(number, data)

    monkeypatch.setattr("os.write", write)
    log = AuditLog(AuditFile(str(tmp_path / "a.log")))
    log.open()
    running = asyncio.create_task(log.run())
    for _ in range(6):
        log.write(_LINE)
    waiting = asyncio.create_task(log.room())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    full = False
    await asyncio.wait_for(waiting, 10)
    assert (tmp_path / "a.log").stat().st_size == 6 * len(_LINE)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_place_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"--audit-log-path: .* cannot be written"):
        AuditLog(AuditFile(str(tmp_path / "none/audit.log"))).open()

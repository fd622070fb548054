"""The journal on disk: what was noted is there after a restart and a kill, within its size, and without secrets."""

import asyncio
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.moments import AT, one_of_each
from pykubelet.base.journal import About, Noted, Rule
from pykubelet.host import journal_files
from pykubelet.host.journal_files import JournalFiles, read_journal, segments
from pykubelet.pod import moments as m
from pykubelet.pod.journal_rule import rule

WEB = About("u1", "default", "web")


def keep_all(_: m.Moment) -> Rule:
    return Rule()


def exited(code: int) -> m.Moment:
    return m.Exited("app", 0, code, "Error", AT, AT)


def noted(moment: m.Moment, seconds: float = 0.0, about: About = WEB) -> m.Noted:
    return Noted(AT + timedelta(seconds=seconds), about, moment)


async def write(folder: Path, *all_noted: m.Noted, total: int = 64 << 20) -> JournalFiles:
    files = JournalFiles(folder, keep_all, total=total)
    for each in all_noted:
        files.read(each)
    await files.flush()
    return files


async def test_every_kind_of_moment_comes_back_as_it_was(tmp_path: Path) -> None:
    kinds = [each for each in one_of_each() if not isinstance(each, m.HookFailed)]
    await write(tmp_path, *(noted(each) for each in kinds))
    assert [each.moment for each in read_journal(tmp_path)] == kinds
    assert {each.about for each in read_journal(tmp_path)} == {WEB}


async def test_another_agent_goes_on_where_one_has_ended(tmp_path: Path) -> None:
    await write(tmp_path, noted(exited(1)))
    await write(tmp_path, noted(exited(2), 1))
    assert [each.moment for each in read_journal(tmp_path)] == [exited(1), exited(2)]
    assert len(segments(tmp_path)) == 1


async def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    await write(tmp_path / "journal", noted(exited(1)))
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o700
    assert segments(tmp_path / "journal")[0].stat().st_mode & 0o777 == 0o600


async def test_it_stays_within_its_size_and_the_oldest_goes_first(tmp_path: Path) -> None:
    total = 64 << 10
    files = JournalFiles(tmp_path, keep_all, total=total)
    for code in range(3000):
        files.read(noted(exited(code), about=About(f"u{code}", "default", f"p{code}")))
        if code % 10 == 9:
            await files.flush()
    assert sum(each.stat().st_size for each in segments(tmp_path)) <= total
    left = [each.moment.code for each in read_journal(tmp_path) if isinstance(each.moment, m.Exited)]
    assert left == list(range(left[0], 3000))
    assert 100 < len(left) < 3000


async def test_one_noisy_pod_does_not_push_out_the_others(tmp_path: Path) -> None:
    files = JournalFiles(tmp_path, keep_all)
    for number in range(10_000):
        files.read(noted(exited(number), number / 1000))
    files.read(noted(exited(7), about=About("u2", "default", "quiet")))
    files.read(noted(exited(8), 3600))
    await files.flush()
    assert len(read_journal(tmp_path, uid="u1")) < 1100
    assert read_journal(tmp_path, uid="u1")[-1].moment == exited(8), "after an hour there is room for news again"
    assert len(read_journal(tmp_path, name="quiet")) == 1


async def test_what_says_the_same_again_is_written_once_a_minute(tmp_path: Path) -> None:
    files = JournalFiles(tmp_path, rule)
    for second in range(120):
        files.read(noted(m.StartFailed("app", "container", "ErrImagePull", "no", 1.0), second))
    await files.flush()
    assert len(read_journal(tmp_path)) == 2


async def test_what_goes_on_now_is_not_for_the_disk(tmp_path: Path) -> None:
    files = JournalFiles(tmp_path, rule)
    files.read(noted(m.WorkBegun("sync")))
    await files.flush()
    assert read_journal(tmp_path) == []


async def test_pods_are_found_by_name_or_uid(tmp_path: Path) -> None:
    other = About("u2", "other", "web")
    await write(tmp_path, noted(exited(1)), noted(exited(2), about=other), noted(m.NodeStage("ready"), about=About()))
    assert [each.about for each in read_journal(tmp_path, name="web", namespace="other")] == [other]
    assert [each.about for each in read_journal(tmp_path, uid="u1")] == [WEB]
    assert len(read_journal(tmp_path, name="web")) == 2


async def test_what_a_hook_or_a_command_answers_is_not_written(tmp_path: Path) -> None:
    secret = "hunter2"
    await write(
        tmp_path,
        noted(m.HookFailed("app", "postStart", secret)),
        noted(m.StartFailed("app", "container", "PostStartHookError", secret, 1.0)),
        noted(m.RuntimeCalled("ExecSync", 0.1, f"command ['login', '{secret}'] failed")),
    )
    assert len(read_journal(tmp_path)) == 3
    assert secret.encode() not in b"".join(each.read_bytes() for each in segments(tmp_path))


async def test_a_disk_that_takes_nothing_is_told_once_and_forgotten_when_it_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "journal").write_text("in the way")
    files = JournalFiles(tmp_path / "journal", keep_all)
    for code in range(3):
        files.read(noted(exited(code)))
        await files.flush()
    assert len([each for each in caplog.records if "cannot be written" in each.message]) == 1
    (tmp_path / "journal").unlink()
    files.read(noted(exited(9)))
    await files.flush()
    assert [each.moment for each in read_journal(tmp_path / "journal")] == [exited(9)]


async def test_it_is_written_in_groups_without_being_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_files, "_GROUP", 0.01)
    files = JournalFiles(tmp_path, keep_all)
    running = asyncio.create_task(files.run())
    files.read(noted(exited(1)))
    async with asyncio.timeout(10):
        while not read_journal(tmp_path):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    running.cancel()


@given(cut=st.integers(0, 400), noise=st.binary(max_size=40))
def test_a_torn_end_costs_no_more_than_its_line(cut: int, noise: bytes) -> None:
    """However the last write ended: cut off, with zeros of a file system in its place, or with anything else."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(write(folder, noted(exited(1)), noted(exited(2), 1)))
        path = segments(folder)[0]
        whole = path.read_bytes()
        kept = whole[: max(0, len(whole) - cut)]
        path.write_bytes(kept + noise)
        asyncio.run(write(folder, noted(exited(3), 2)))
        found = [each.moment for each in read_journal(folder)]
        assert found[-1] == exited(3)
        assert len(found) >= kept.count(b"\n") + 1 - (b"\n" in noise and not kept.endswith(b"\n"))


_WRITER = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from pykubelet.base.journal import About, Noted, Rule
from pykubelet.host import journal_files
from pykubelet.pod import moments as m
async def main():
    journal_files._GROUP = 0.0
    files = journal_files.JournalFiles(Path(sys.argv[1]), lambda _: Rule())
    task = asyncio.create_task(files.run())
    for code in range(10**9):
        files.read(Noted(datetime.now(UTC), About(f"u{code}", "d", "p"), m.Exited("app", 0, code, "", None, None)))
        await asyncio.sleep(0)
asyncio.run(main())
"""


def test_what_was_written_survives_a_kill(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)])
    try:
        deadline = time.monotonic() + 30
        while sum(each.stat().st_size for each in segments(tmp_path)) < 20_000:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.kill(process.pid, 9)
        process.wait()
    codes = [each.moment.code for each in read_journal(tmp_path) if isinstance(each.moment, m.Exited)]
    assert codes == list(range(len(codes)))
    assert len(codes) > 50


async def test_who_asks_is_told_up_to_now_also_while_a_group_is_being_written(tmp_path: Path) -> None:
    files = JournalFiles(tmp_path, keep_all)
    for code in range(200):
        files.read(noted(exited(code), about=About(f"u{code}", "default", "web")))
        if code % 20 == 0:
            await asyncio.gather(*(files.flush() for _ in range(3)))
    assert [each.moment for each in await files.history(name="web")] == [exited(code) for code in range(200)]

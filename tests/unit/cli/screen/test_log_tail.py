"""A log that is followed on disk: over rotations, restarts and half lines."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from pykubelet.base.errors import Retry
from pykubelet.cli.screen.log_tail import follow

pytestmark = pytest.mark.asyncio


def line(text: str, tag: str = "F") -> str:
    return f"2026-01-02T15:04:05.000000000Z stdout {tag} {text}\n"


async def heard(folder: Path, count: int, *steps: object) -> list[str]:
    found: list[str] = []
    waiting = list(steps)
    async with asyncio.timeout(10), aclosing(follow(folder)) as groups:
        async for group in groups:
            found += group
            if waiting:
                step = waiting.pop(0)
                assert callable(step)
                step()
            if len(found) >= count:
                return found
    return found


async def test_what_is_written_is_told_also_after_a_rotation_and_a_restart(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text(line("one") + line("half", "P"))

    def finish() -> None:
        with log.open("a") as file:
            file.write(line("and half"))

    def rotate() -> None:
        log.rename(tmp_path / "0.log.20260102-150405")
        log.write_text(line("three"))

    def restart() -> None:
        (tmp_path / "1.log").write_text(line("four"))

    assert await heard(tmp_path, 5, finish, rotate, restart) == ["one", "half", "and half", "three", "four"]


async def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_text("".join(line(f"{each:06}") for each in range(20_000)))
    found = await heard(tmp_path, 100)
    assert found[-1] == "019999"
    assert 100 < len(found) < 2000
    assert len(found[0]) == 6, "it begins with a whole line"


async def test_no_log_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(Retry, match="there is no log in"):
        await heard(tmp_path / "nowhere", 1)

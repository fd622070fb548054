import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from kit.agent_process import is_alive
from kit.waiting import eventually
from pykubelet.base.errors import Invalid
from pykubelet.up.supervisor import LARGEST_LOG, Part, holder, keep, left_something

STAYS = "import signal, sys, time; signal.signal(15, lambda *_: (print('bye', flush=True), sys.exit(0))); "
STAYS += "print('here', flush=True); time.sleep(1000)"


def part(folder: Path, name: str, program: str) -> Part:
    return Part(name=name, command=(sys.executable, "-c", program), log=str(folder / f"{name}.log"))


def said(folder: Path, name: str) -> str:
    path = folder / f"{name}.log"
    return path.read_text() if path.exists() else ""


async def test_parts_run_until_they_are_told_to_stop_the_last_first(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    parts = [part(tmp_path, name, STAYS) for name in ("server", "agent")]
    running = asyncio.create_task(keep(parts, lock))
    await eventually(lambda: said(tmp_path, "server") == said(tmp_path, "agent") == "here\n")
    assert holder(lock) == os.getpid()
    with pytest.raises(Invalid, match="it is running already"):
        await keep(parts, lock)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 20)
    assert said(tmp_path, "server") == said(tmp_path, "agent") == "here\nbye\n"
    assert not left_something(lock)
    assert (tmp_path / "agent.log").stat().st_mtime_ns <= (tmp_path / "server.log").stat().st_mtime_ns
    assert holder(lock) is None


async def test_a_part_that_dies_is_started_again(tmp_path: Path) -> None:
    parts = [part(tmp_path, "server", "import os; print(os.getpid(), flush=True)")]
    running = asyncio.create_task(keep(parts, tmp_path / "lock"))
    await eventually(lambda: len(said(tmp_path, "server").split()) >= 2)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 20)


async def test_parts_die_with_a_keeper_that_is_killed(tmp_path: Path) -> None:
    stays = "import os, time; print(os.getpid(), flush=True); time.sleep(1000)"
    program = f"""
import asyncio, sys
from pathlib import Path
from pykubelet.up.supervisor import LARGEST_LOG, Part, keep
part = Part(name="server", command=(sys.executable, "-c", {stays!r}), log={str(tmp_path / "server.log")!r})
asyncio.run(keep([part], Path({str(tmp_path / "lock")!r})))
"""
    keeper = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    await eventually(lambda: said(tmp_path, "server").endswith("\n"))
    pid = int(said(tmp_path, "server"))
    assert is_alive(pid)
    keeper.kill()
    await keeper.wait()
    await eventually(lambda: not is_alive(pid))
    assert left_something(tmp_path / "lock")


async def test_a_part_that_says_it_cannot_run_is_not_asked_again_and_the_others_end_with_it(tmp_path: Path) -> None:
    refuses = "import sys; print('pykubelet: the disk is full'); sys.exit(2)"
    parts = [part(tmp_path, "server", refuses), part(tmp_path, "agent", STAYS)]
    await asyncio.wait_for(keep(parts, tmp_path / "lock"), 20)
    assert said(tmp_path, "server") == "pykubelet: the disk is full\n"
    assert holder(tmp_path / "lock") is None


async def test_a_log_does_not_fill_the_disk_in_a_month(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(b"old\n" * (LARGEST_LOG // 4 + 1))
    running = asyncio.create_task(keep([part(tmp_path, "server", STAYS)], tmp_path / "lock"))
    await eventually(lambda: (tmp_path / "server.log").stat().st_size < 100)
    assert (tmp_path / "server.log.1").stat().st_size > LARGEST_LOG
    assert (tmp_path / "server.log.1").read_bytes().startswith(b"old\n")
    await eventually(lambda: is_told(tmp_path))
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 20)
    assert said(tmp_path, "server").endswith("bye\n")


def is_told(folder: Path) -> bool:
    """In the log, or in what it was before."""
    return "here" in said(folder, "server") or (folder / "server.log.1").read_bytes().endswith(b"here\n")

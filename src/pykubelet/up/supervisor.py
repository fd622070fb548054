"""Keeps the parts of a small cluster running, each a process of its own: one that dies is started again.

They are stopped in the reverse of their order: the agent needs the API server while it stops its pods. If their keeper
is killed, they die with it: else nobody would know of them, and the next keeper's would find their ports taken.
"""

import asyncio
import ctypes
import fcntl
import logging
import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from msgspec import DecodeError, Struct, json

from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Invalid

log = logging.getLogger(__name__)

PARTS: Final = "parts.json"
_SOONEST: Final = 0.5
_LATEST: Final = 30.0
_SETTLED: Final = 60.0
"""Who has lived for so long has not died of a bad start."""
LARGEST_LOG: Final = 16 << 20
_TRIM_EVERY: Final = 60.0
CANNOT_START: Final = " cannot be started: "
REFUSED: Final = 2
"""The exit code of a part that says what is wrong: another try would say the same."""
_LIBC: Final = ctypes.CDLL(None)
_PR_SET_PDEATHSIG: Final = 1


class Part(Struct, frozen=True, kw_only=True):
    name: str
    command: Sequence[str]
    log: str
    """The file that its output is added to."""


async def keep(parts: Sequence[Part], lock: Path) -> None:
    """Until SIGTERM or SIGINT, which is passed on, or until one refuses to start; returns when all have ended. Raises
    Invalid when another does it."""
    held = _lock(lock)
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    try:
        async with asyncio.TaskGroup() as tasks:
            keepers = [_Keeper(part, told) for part in parts]
            running = [tasks.create_task(keeper.run()) for keeper in keepers]
            trimmer = tasks.create_task(_trim([Path(part.log) for part in parts]))
            await told.wait()
            trimmer.cancel()
            ended_well = True
            for keeper, task in zip(reversed(keepers), reversed(running), strict=True):
                ended_well &= await keeper.stop()
                task.cancel()
        if ended_well:
            held.truncate(0)
    finally:
        held.close()


async def _trim(logs: Sequence[Path]) -> None:
    """Who writes them has them open, to add to their end: so they are copied and emptied. One is kept of each."""
    while True:
        for log_file in logs:
            with suppress(OSError):
                if log_file.stat().st_size > LARGEST_LOG:
                    await asyncio.to_thread(shutil.copyfile, log_file, f"{log_file}.1")
                    os.truncate(log_file, 0)
        await asyncio.sleep(_TRIM_EVERY)


class _Keeper:
    def __init__(self, part: Part, told: asyncio.Event) -> None:
        self._part = part
        self._told = told
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._refused = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        backoff, has_settled = Backoff(_SOONEST, _LATEST, now=loop.time), False
        while not self._stopping.is_set():
            began = loop.time()
            code = await self._live()
            if self._stopping.is_set():
                return
            if loop.time() - began > _SETTLED:
                backoff.reset()
                has_settled = True
            if code == REFUSED and not has_settled:
                why = last_line(Path(self._part.log)).removeprefix("pykubelet: ")
                log.error("%s%s%s", self._part.name, CANNOT_START, why)
                self._refused = True
                self._told.set()
                return
            wait = backoff.next()
            log.warning("%s has ended with code %d, and is started again in %.1f s", self._part.name, code, wait)
            await asyncio.sleep(wait)

    async def stop(self) -> bool:
        """However long it takes: pods have a grace of their own. -> whether it has ended in good order"""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return self._refused
        log.info("stopping %s", self._part.name)
        process.terminate()
        return await process.wait() == 0

    async def _live(self) -> int:
        keeper = os.getpid()

        def die_with_keeper() -> None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:  # it has died just now, and nobody will tell us
                os._exit(1)

        with Path(self._part.log).open("ab") as file:  # noqa: ASYNC230 - in a process that does nothing else
            self._process = await asyncio.create_subprocess_exec(
                *self._part.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                preexec_fn=die_with_keeper,
            )
        log.info("%s is started, pid %d", self._part.name, self._process.pid)
        return await self._process.wait()


def last_line(log: Path, after: str = "") -> str:
    """What follows that text in the last line with it; empty when there is none."""
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line.partition(after)[2] if after else line for line in reversed(lines) if line and after in line), "")


def write_parts(path: Path, parts: Sequence[Part]) -> None:
    """For a process of its own, which then needs to know nothing else."""
    path.write_bytes(json.encode(list(parts)))


def read_parts(path: Path) -> list[Part]:
    try:
        return json.decode(path.read_bytes(), type=list[Part])
    except (OSError, DecodeError) as error:
        raise Invalid(f"{path} cannot be read: {error}") from None


def holder(lock: Path) -> int | None:
    """The pid of who keeps the parts, if anybody does. It is told by the lock, not by a pid that may be another's."""
    try:
        with lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or b"0") or None
    except (OSError, ValueError):
        return None
    return None


def bereft_keeper(folder: Path) -> int | None:
    """The pid of who keeps the parts of a folder that somebody has removed: the lock is gone with it."""
    wanted = ("supervise", "--data", str(folder))
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and process.stat().st_uid == os.getuid():
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if tuple(words[-4:-1]) == wanted:
                    return int(process.name)
    return None


def left_something(lock: Path) -> bool:
    """Whether whoever kept the parts last has not seen all of them to a good end: it was killed, or one of them was."""
    try:
        return holder(lock) is None and bool(lock.read_bytes())
    except OSError:
        return False


def _lock(path: Path) -> IO[bytes]:
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise Invalid(f"it is running already: somebody holds {path}") from None
    file.truncate(0)
    file.write(str(os.getpid()).encode())
    file.flush()
    return file

"""A process of this machine that cannot be mistaken for another one: a pid is used again, a start time is not."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Self

from msgspec import Struct

from pykubelet.runtime.process.shim import files

_LOOK_AGAIN = 0.2  # seconds, for kernels without pidfd
_ROUNDS = 200
_PAUSE = 0.01


class Identity(Struct, frozen=True):
    pid: int
    start: int
    boot: str

    @property
    def is_alive(self) -> bool:
        """Whether it runs. A zombie does not."""
        try:
            fields = files.stat_fields(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return int(fields[21]) == self.start and fields[2] not in "ZX" and files.boot_id() == self.boot


class Process:
    """A handle on a running process, to signal it and to hear of its end."""

    def __init__(self, identity: Identity, handle: int | None) -> None:
        self.identity = identity
        self._handle = handle
        self._timer: asyncio.TimerHandle | None = None
        self._watched = False

    @classmethod
    def open(cls, identity: Identity) -> Self | None:
        """-> None when it is gone. The handle comes first, then the look at who it is: so no other can slip in."""
        try:
            handle: int | None = os.pidfd_open(identity.pid)
        except ProcessLookupError:
            return None
        except OSError:
            handle = None  # an old kernel
        if identity.is_alive:
            return cls(identity, handle)
        if handle is not None:
            os.close(handle)
        return None

    def send(self, number: signal.Signals) -> None:
        """Harmless when it has ended."""
        with suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, number)
            elif self.identity.is_alive:
                os.kill(self.identity.pid, number)

    def kill_and_close(self) -> None:
        self.send(signal.SIGKILL)
        self.close()

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Call back once, on the running loop."""
        loop = asyncio.get_running_loop()
        if self._handle is not None:
            loop.add_reader(self._handle, self._ended, callback)
            self._watched = True
        elif self.identity.is_alive:
            self._timer = loop.call_later(_LOOK_AGAIN, self.when_ended, callback)
        else:
            loop.call_soon(callback)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._handle is not None:
            if self._watched:
                asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None

    def _ended(self, callback: Callable[[], None]) -> None:
        if self._handle is not None:
            with suppress(ChildProcessError):  # it is our child when this agent is the machine's first process
                os.waitid(os.P_PIDFD, self._handle, os.WEXITED | os.WNOHANG)
        self.close()
        callback()


def kill_holders(pipes: Collection[str]) -> None:
    """Every process that writes to one of these pipes. No other pipe can have that name while it does."""
    for _ in range(_ROUNDS if pipes else 0):
        found = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _holds(pid, pipes)]
        if not found:
            return
        for pid in found:
            process = _open(pid)
            if process is not None and _holds(pid, pipes):
                process.send(signal.SIGKILL)
            if process is not None:
                process.close()
        time.sleep(_PAUSE)


def _open(pid: int) -> Process | None:
    try:
        return Process.open(Identity(**files.identity(pid)))
    except OSError:
        return None


def _holds(pid: int, pipes: Collection[str]) -> bool:
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{descriptor}") in pipes:
                return True
    return False

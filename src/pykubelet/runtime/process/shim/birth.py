"""How a process comes to be in a container's pid namespace with nothing of this machine left to hold on to.

A copy of the parent takes what it needs while nobody in the container can see it; then it forks into the namespace and
ends, so that its parent gets the child. The child waits until that has noted it, and from then on dies with its parent.
"""

from __future__ import annotations

import errno
import os
import select

from . import files, kernel
from .files import CannotRun
from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

_CHANGED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGCHLD, signal.SIGINT)
_SIGPIPE, _SIGXFSZ = 13, 25  # what Python ignores
_GO = b"!"


class Birth:
    """Both sides of it: `start`, `place`, `child` and `let_go` are the parent's, the others the new process's."""

    def __init__(self) -> None:
        self._said, self._says = os.pipe()
        self._go, self._goes = os.pipe()
        self._heard = b""
        self._builder = 0

    # --- the parent's side

    def start(self, handed: Iterable[int]) -> bool:
        """-> whether this is the new process. It has what was `handed` to it and nothing else; the parent no more."""
        self._builder = os.fork()
        if self._builder:
            for descriptor in (*handed, self._says, self._go):
                os.close(descriptor)
            return False
        signal.set_wakeup_fd(-1)
        for number in (*_CHANGED, _SIGPIPE, _SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        files.close_all_but({0, 1, 2, self._says, self._go, *handed})
        return True

    def place(self, cgroups: list[str]) -> None:
        """While it prepares itself: the kernel takes its time for that."""
        try:
            for path in cgroups:
                with open(path, "w", encoding="ascii") as file:
                    file.write(str(self._builder))
        except ProcessLookupError:
            return  # it has ended, and said why
        self._say_go()

    def child(self) -> int:
        """-> its pid, when it is there; CannotRun with the reason else."""
        first = self._line()
        if not first.startswith("pid "):
            raise CannotRun(first or "the process ended before the program could run")
        pid = int(first.split()[1])
        if pid:
            os.waitpid(self._builder, 0)  # only then it is our child
        return pid or self._builder

    def let_go(self) -> str:
        """-> why the program cannot run; empty when it does."""
        self._say_go()
        failure = self._line()
        os.close(self._said)
        os.close(self._goes)
        return failure

    def _say_go(self) -> None:
        try:
            os.write(self._goes, _GO)
        except BrokenPipeError:
            return  # it has ended, and said why

    def _line(self) -> str:
        while b"\n" not in self._heard:
            more = os.read(self._said, 4096)
            if not more:
                break
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode("utf-8", "replace")

    # --- the new process's side

    def announce(self, *, forks: bool) -> None:
        """Once it is placed, go on as the first process that is in the pid namespace, if there is one to go to."""
        self._wait_for_go()
        try:
            pid = os.fork() if forks else 0
        except OSError as error:
            if error.errno == errno.ENOMEM:  # so says the kernel of a namespace whose first process has ended
                raise CannotRun("the container has just ended, or there is no memory for one more process") from None
            raise
        if pid or not forks:
            os.write(self._says, f"pid {pid}\n".encode())
        if pid:
            os._exit(0)

    def wait(self) -> None:
        """Until the parent says so. It holds the other end of the pipe until the program runs, or is no more."""
        self._wait_for_go()
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        poll = select.poll()
        poll.register(self._go, 0)
        if poll.poll(0):
            os._exit(1)

    def _wait_for_go(self) -> None:
        if os.read(self._go, 1) != _GO:
            os._exit(1)

    def fail(self, error: BaseException, code: int) -> NoReturn:
        os.write(self._says, files.explain(error).encode("utf-8", "replace") + b"\n")
        os._exit(code)

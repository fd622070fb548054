"""A program on a terminal of its own, and what a person sees there. All that it sends is kept, too."""

import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from typing import Any, Final

import pyte

from kit.kubectl import Terminal
from kit.waiting import wait_for

_SECONDS: Final = 20.0
_ENVIRONMENT: Final = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


class PtyScreen:
    def __init__(self, terminal: Terminal, process: "subprocess.Popen[bytes]", columns: int, lines: int) -> None:
        self._terminal = terminal
        self.process = process
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._read = 0

    @property
    def sent(self) -> bytes:
        """All that the program has ever sent to the terminal."""
        self._terminal.shows(b"\0")
        return self._terminal.seen

    @property
    def lines(self) -> list[str]:
        data = self.sent
        self._stream.feed(data[self._read :])
        self._read = len(data)
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def sees(self, text: str, *, gone: bool = False) -> None:
        wait_for(
            lambda: (text in self.text) is not gone, seconds=_SECONDS, otherwise=lambda: f"{text!r} in\n{self.text}"
        )

    def types(self, text: str) -> None:
        self._terminal.type(text.encode())

    def resize(self, columns: int, lines: int) -> None:
        self._screen.resize(lines, columns)
        self._terminal.resize(columns, lines)

    def leaves(self) -> int:
        wait_for(
            lambda: self.process.poll() is not None or self.sent is None, seconds=_SECONDS, otherwise=lambda: self.text
        )
        return self.process.returncode

    def modes(self) -> list[Any]:
        """How the terminal is set: what is typed is shown, line by line."""
        return termios.tcgetattr(self._terminal.ours)


@contextmanager
def pty_screen(
    *arguments: str, columns: int = 80, lines: int = 24, env: dict[str, str] | None = None, shell: str = ""
) -> Iterator[PtyScreen]:
    """`pykubelet` with these arguments; it is killed at the end if it has not ended before. `shell`: a script of a
    shell with jobs that starts it, where it is `"$@"`."""
    terminal = Terminal()
    terminal.resize(columns, lines)
    process = subprocess.Popen(
        [*(("bash", "-m", "-c", shell, "bash") if shell else ()), sys.executable, "-m", "pykubelet", *arguments],
        stdin=terminal.theirs,
        stdout=terminal.theirs,
        stderr=terminal.theirs,
        env={**os.environ, **_ENVIRONMENT, **(env or {})},
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),
    )
    try:
        yield PtyScreen(terminal, process, columns, lines)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(terminal.theirs)
        terminal.close()

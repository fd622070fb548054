"""The terminal as the standard library has it: what is drawn, which keys come, and that it is left as it was found,
however this ends."""

import curses
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from pykubelet.cli.screen.drawing import Line, Style

_KEYS: Final = {
    curses.KEY_UP: "up", curses.KEY_DOWN: "down", curses.KEY_LEFT: "left", curses.KEY_RIGHT: "right",
    curses.KEY_PPAGE: "pageup", curses.KEY_NPAGE: "pagedown", curses.KEY_HOME: "home", curses.KEY_END: "end",
    curses.KEY_ENTER: "enter", curses.KEY_BACKSPACE: "backspace", curses.KEY_RESIZE: "resize",
}  # fmt: skip
_CHARS: Final = {"\n": "enter", "\r": "enter", "\x7f": "backspace", "\b": "backspace", "\x1b": "escape"}
_SOFT_RESET: Final = "\x1b[!p\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b(B\x1b[m"
"""What a program in a container may have left on: mouse, pasting, a hidden cursor, another alphabet."""
_ESCAPE_DELAY: Final = 50


class Terminal:
    """One that `opened` has opened. Only the main thread uses it."""

    def __init__(self, screen: "curses.window") -> None:
        self._screen = screen
        self._styles = _styles()
        self._drawn: list[Line] = []

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        height, width = self._screen.getmaxyx()
        return width, height

    def draw(self, lines: Sequence[Line]) -> None:
        if list(lines) == self._drawn:
            return
        self._screen.erase()
        for y, line in enumerate(lines):
            x = 0
            for span in line:
                with suppress(curses.error):  # the last place of all takes a character, and cannot move on
                    self._screen.addstr(y, x, span.text, self._styles[span.style])
                x = self._screen.getyx()[1]
        self._screen.refresh()
        self._drawn = list(lines)

    def key(self, seconds: float) -> str:
        """The next one; empty when none came in time."""
        self._screen.timeout(int(seconds * 1000))
        try:
            key = self._screen.get_wch()
        except curses.error:
            return ""
        if isinstance(key, int):
            name = _KEYS.get(key, "")
            if name == "resize":
                self._drawn = []
                self._screen.clear()
            return name
        return _CHARS.get(key, key)

    def lent(self, work: Callable[[], None]) -> None:
        """To a program that has it for itself for a while."""
        curses.def_prog_mode()
        curses.endwin()
        try:
            work()
        finally:
            sys.stdout.write(_SOFT_RESET)
            sys.stdout.flush()
            curses.reset_prog_mode()
            self._drawn = []
            self._screen.clear()
            self._screen.refresh()


@contextmanager
def opened() -> Iterator[Terminal]:
    """Until the end of the block. SIGTERM and SIGHUP end it as Ctrl-C does."""
    before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may ignore it
    os.environ.setdefault("ESCDELAY", str(_ESCAPE_DELAY))
    for name in ("LINES", "COLUMNS"):  # what a shell has exported does not change with the window
        os.environ.pop(name, None)
    screen = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        screen.keypad(True)
        with suppress(curses.error):
            curses.curs_set(0)
        if curses.has_colors() and not os.environ.get("NO_COLOR"):
            curses.start_color()
            curses.use_default_colors()
        yield Terminal(screen)
    finally:
        screen.keypad(False)
        with suppress(curses.error):
            curses.curs_set(1)
        curses.nocbreak()
        curses.echo()
        curses.endwin()
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _styles() -> dict[Style, int]:
    styles: dict[Style, int] = {
        "plain": curses.A_NORMAL, "bold": curses.A_BOLD, "dim": curses.A_DIM, "bad": curses.A_BOLD,
        "good": curses.A_NORMAL, "chosen": curses.A_REVERSE, "bar": curses.A_REVERSE,
    }  # fmt: skip
    if curses.has_colors() and not os.environ.get("NO_COLOR"):
        curses.init_pair(1, curses.COLOR_RED, -1)
        curses.init_pair(2, curses.COLOR_GREEN, -1)
        styles |= {"bad": curses.color_pair(1), "good": curses.color_pair(2)}
    return styles

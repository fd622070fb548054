"""Word from the kernel that the whole machine ran out of memory and what it killed for that.

A container that hits its own limit is its own affair, and its status tells; when the machine has no memory left,
anything may be the victim, and people have to know.
"""

import asyncio
import errno
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final

log = logging.getLogger(__name__)

_KERNEL_LOG: Final = "/dev/kmsg"
_LONGEST_RECORD: Final = 8192
_BEGINS: Final = re.compile(r"invoked oom-killer:")
_GROUP: Final = re.compile(r"oom-kill:constraint=.*,oom_memcg=([^,]*),")
_OLD_GROUP: Final = re.compile(r"Task in \S* killed as a result of limit of (\S*)")
_VICTIM: Final = re.compile(r"Killed process ([0-9]+) \((.+?)\)")


class OomParser:
    """Follows the kernel's log, line by line."""

    def __init__(self) -> None:
        self._is_inside = False
        self._group = "/"

    def read(self, line: str) -> str:
        """-> what to tell of the machine; empty: nothing."""
        if _BEGINS.search(line):
            self._is_inside, self._group = True, "/"
        if not self._is_inside:
            return ""
        if (group := _GROUP.search(line) or _OLD_GROUP.search(line)) is not None:
            self._group = group[1]
        if (victim := _VICTIM.search(line)) is None:
            return ""
        self._is_inside = False
        if self._group != "/":
            return ""
        return f"System OOM encountered, victim process: {victim[2]}, pid: {victim[1]}"


async def watch_oom_kills(tell: Callable[[str], None], path: str = _KERNEL_LOG) -> None:
    """From now on, until cancelled. Where the kernel's log may not be read, as in a container that has another file in
    its place, there is nothing to hear."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            with suppress(OSError):
                os.lseek(fd, 0, os.SEEK_END)  # what happened before was told by the agent before
            await _follow(fd, tell)
        finally:
            os.close(fd)
    except OSError as error:
        log.info("kills for want of memory on this machine are not told of: %s: %s", path, error.strerror)
    await asyncio.Event().wait()


async def _follow(fd: int, tell: Callable[[str], None]) -> None:
    """Raises OSError when it is no log, or has ended."""
    parser, ready, loop = OomParser(), asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(fd, ready.set)
    try:
        while True:
            await ready.wait()
            ready.clear()
            for line in _lines(fd):
                if told := parser.read(line):
                    tell(told)
    finally:
        loop.remove_reader(fd)


def _lines(fd: int) -> list[str]:
    """One record for each read; those that were overwritten before anybody read them are lost."""
    lines: list[str] = []
    while True:
        try:
            record = os.read(fd, _LONGEST_RECORD)
        except BlockingIOError:
            return lines
        except BrokenPipeError:
            continue
        if not record:
            raise OSError(errno.ENODATA, "has ended")
        lines.append(record.decode(errors="replace").partition(";")[2])

"""The end of a container's log on this machine, and what is added to it: over rotations and restarts."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Retry
from pykubelet.pod.container.logs import LogOptions
from pykubelet.server.logs.log_lines import Lines

_BEGIN: Final = 64 << 10
"""Bytes of what was written before."""
_BLOCK: Final = 256 << 10
_PAUSE: Final = 0.25


async def follow(folder: Path) -> AsyncGenerator[list[str], None]:
    """Groups of lines, until nobody listens. Raises Retry when there is no log."""
    path = _newest(folder)
    if path is None:
        raise Retry(f"there is no log in {folder}")
    file, lines, is_first = _open(path), Lines(LogOptions()), True
    try:
        start = max(0, os.fstat(file).st_size - _BEGIN)
        os.lseek(file, start, os.SEEK_SET)
        if start:
            _skip_line(file)
        while True:
            if block := os.read(file, _BLOCK):
                text = lines.feed(block).decode(errors="replace")
                if text or is_first:
                    yield text.splitlines()
                    is_first = False
                continue
            newest = _newest(folder)
            if newest is not None and (newest != path or _is_other(file, newest)):
                os.close(file)
                path, lines = newest, Lines(LogOptions())
                file = _open(path)
                continue
            if is_first:
                yield []
                is_first = False
            await asyncio.sleep(_PAUSE)
    finally:
        os.close(file)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Retry(f"{path}: {error.strerror}") from None


def _newest(folder: Path) -> Path | None:
    """That of the last attempt."""
    try:
        found = [each for each in folder.iterdir() if each.suffix == ".log" and each.stem.isdigit()]
    except OSError:
        return None
    return max(found, key=lambda each: int(each.stem), default=None)


def _is_other(file: int, path: Path) -> bool:
    """It was rotated away from below us."""
    try:
        there, here = os.stat(path), os.fstat(file)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)


def _skip_line(file: int) -> None:
    """Where reading begins in the middle of one."""
    at = os.lseek(file, 0, os.SEEK_CUR)
    head, newline, _ = os.read(file, _BEGIN).partition(b"\n")
    os.lseek(file, at + len(head) + len(newline), os.SEEK_SET)

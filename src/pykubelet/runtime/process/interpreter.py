"""A copy of the interpreter that nobody can write to. What enters a container is an open file of it: a container that
has it run itself, by the name /proc/self/exe, must not get hold of a file of this machine."""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from typing import Final

_MFD_EXEC: Final = 0x10  # since Linux 6.3; where executing such files is switched off, it is refused
_SEALS: Final = 0xF  # against writing, growing, shrinking, and other seals


@contextlib.contextmanager
def sealed_copy(path: str) -> Iterator[int]:
    """Its descriptor."""
    copy = _memory_file()
    try:
        with open(path, "rb") as source, open(copy, "wb", closefd=False) as target:
            shutil.copyfileobj(source, target)
        fcntl.fcntl(copy, fcntl.F_ADD_SEALS, _SEALS)
        yield copy
    finally:
        os.close(copy)


def _memory_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("python", flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.memfd_create("python", flags)

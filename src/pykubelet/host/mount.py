"""Mounting and unmounting, and what is mounted where.

A little ctypes instead of mount(8): no process to start, and an errno instead of a sentence to guess from.
"""

import ctypes
import errno
import os
import re
from typing import Final

from msgspec import Struct

_BIND: Final = 0x1000
_NOFOLLOW: Final = 8  # UMOUNT_NOFOLLOW: never unmount what a link points to
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_MOUNT_INFO: Final = "/proc/self/mountinfo"

_libc = ctypes.CDLL(None, use_errno=True)


class MountPoint(Struct, frozen=True, kw_only=True):
    """One line of mountinfo."""

    path: str
    root: str
    """What of the file system is seen here: `/`, or a folder of it for a bind mount."""
    fs_type: str
    source: str
    options: tuple[str, ...] = ()


# --- what is mounted


def parse_mount_info(text: str) -> tuple[MountPoint, ...]:
    """In the order of mounting: later mounts may hide earlier ones."""
    found = []
    for line in text.split("\n"):
        before, separator, after = line.partition(" - ")
        fields, more = before.split(" "), after.split(" ")
        if not separator or len(fields) < 6 or len(more) < 2:
            continue
        found.append(
            MountPoint(
                path=_unescaped(fields[4]),
                root=_unescaped(fields[3]),
                fs_type=more[0],
                source=_unescaped(more[1]),
                options=(*fields[5].split(","), *(more[2].split(",") if len(more) > 2 else ())),
            )
        )
    return tuple(found)


def mount_points() -> tuple[MountPoint, ...]:
    """Everything that is mounted, as this process sees it."""
    return parse_mount_info(_mount_info())


def mounts_below(folder: str) -> tuple[str, ...]:
    """The mount points in a folder, and the folder itself if it is one, in the order of mounting.

    Read from the kernel's list, never by looking at the places themselves: a dead network file system would not answer.
    """
    place = _place(folder)
    inside = place.rstrip("/") + "/"
    # A node has hundreds of mounts, and most of them elsewhere: only lines that may be about the folder are understood.
    near = "\n".join(line for line in _mount_info().split("\n") if place in line or "\\" in line)
    points = parse_mount_info(near)
    return tuple(point.path for point in points if point.path == place or point.path.startswith(inside))


def is_mount_point(path: str) -> bool:
    return _place(path) in mounts_below(path)


def _mount_info() -> str:
    with open(_MOUNT_INFO, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        return file.read()


def _place(path: str) -> str:
    """The path as the kernel spells it. The last step is not followed if it is a link: nothing is mounted on links."""
    parent, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(parent), name)


def _unescaped(text: str) -> str:
    """The kernel writes blanks, tabs, line breaks and backslashes in octal."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


# --- mounting


def mount_tmpfs(path: str, *, size: int | None = None) -> None:
    """A file system in memory, which is not swapped out where the kernel can promise that. Raises OSError."""
    limit = () if not size else (f"size={size}",)
    try:
        _mount("tmpfs", path, "tmpfs", 0, ",".join((*limit, "noswap")))
    except OSError as error:
        if error.errno != errno.EINVAL:  # an older kernel does not know noswap
            raise
        _mount("tmpfs", path, "tmpfs", 0, ",".join(limit))


def mount_huge_pages(path: str, page_size: int, *, size: int = 0) -> None:
    """A file system whose files are made of pages of that size, of which it has `size` bytes; 0: all that there are.
    Anybody may write to it. Raises OSError."""
    limit = f",size={size}" if size else ""
    _mount("nodev", path, "hugetlbfs", 0, f"pagesize={page_size},mode=0777{limit}")


def bind(source: str, target: str) -> None:
    """Show `source` at `target` too. Raises OSError."""
    _mount(source, target, None, _BIND, None)


def unmount(path: str) -> None:
    """Raises OSError. Harmless when nothing is mounted there any more."""
    if _libc.umount2(os.fsencode(path), _NOFOLLOW) != 0:
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOENT) or is_mount_point(path):
            raise OSError(code, os.strerror(code), path)


def unmount_below(folder: str) -> None:
    """Unmount everything in a folder, newest first. Tries all, then raises the OSErrors as an ExceptionGroup."""
    errors = []
    for path in reversed(mounts_below(folder)):
        try:
            unmount(path)
        except OSError as error:
            errors.append(error)
    if errors:
        raise ExceptionGroup(f"cannot unmount everything below {folder}", errors)


def is_forbidden(error: OSError) -> bool:
    """Whether this user may not mount at all, as opposed to a mount that failed."""
    return error.errno in (errno.EPERM, errno.EACCES)


def _mount(source: str, target: str, fs_type: str | None, flags: int, data: str | None) -> None:
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        None if fs_type is None else fs_type.encode(),
        ctypes.c_ulong(flags),
        None if data is None else data.encode(),
    )
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)

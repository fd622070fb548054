"""What folders and file systems hold. Folders are measured in a thread of their own and remembered for a while: a
large volume must not hold up those who ask about processor time."""

import asyncio
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final

from pykubelet.api.struct import changed
from pykubelet.host.mount import MountPoint
from pykubelet.host.stats.files import read
from pykubelet.pod.stats.stats import Disk, DiskActivity

_BLOCK: Final = 512
_LOOK_UP: Final = 1000
"""Entries after which a walk looks whether it is still wanted."""
_TELL_AFTER: Final = 50_000
"""Entries after which it is told what a walk has found so far."""
_FAREWELL: Final = 2.0
_LONG_PATH: Final = 3000
"""Bytes: the kernel takes 4095, and a name may have 255."""
_MOST_HELD: Final = 64


class FolderMeter:
    """How much is in folders, each looked at again when the last look is `period` seconds old.

    The work is done by one task, which this object owns: `close` ends it.
    """

    def __init__(self, *, period: float = 60.0) -> None:
        self._period = period
        self._known: dict[str, Disk] = {}
        self._walking: asyncio.Task[None] | None = None
        self._is_closed = False

    async def refresh(self, folders: Collection[str], *, patience: float, at_most: float | None = None) -> None:
        """See to it that these folders are measured, by adding up their content.

        Waits for those that never were, or whose last look is longer ago than `at_most` seconds, for at most `patience`
        seconds: a walk that takes longer goes on, and whoever asks then has its result.
        """
        is_urgent = at_most is not None
        if is_urgent and self._walking is not None:
            await asyncio.wait([self._walking], timeout=patience)
        if self._walking is None or self._walking.done():
            wanted = self._due(folders, self._period if at_most is None else at_most)
            self._known = {path: seen for path, seen in self._known.items() if path in folders}
            if wanted and not self._is_closed:
                self._walking = asyncio.create_task(asyncio.to_thread(self._walk, wanted))
        if self._walking is not None and (is_urgent or any(path not in self._known for path in folders)):
            await asyncio.wait([self._walking], timeout=patience)

    def known(self, folder: str) -> Disk | None:
        """None while it has not been measured."""
        return self._known.get(folder)

    async def close(self) -> None:
        """A walk that is going on stops, unless a file system does not answer."""
        self._is_closed = True
        if self._walking is not None:
            await asyncio.wait([self._walking], timeout=_FAREWELL)

    def _due(self, folders: Collection[str], period: float) -> list[str]:
        """Those that were never measured, then those whose last look is longest ago."""
        before = time.time_ns() - round(period * 1e9)
        age = {path: seen.at if (seen := self._known.get(path)) else 0 for path in folders}
        return sorted((each for each in folders if age[each] <= before), key=lambda each: age[each])

    def _walk(self, folders: Iterable[str]) -> None:
        for folder in folders:
            disk = file_system(folder, time.time_ns())
            if disk is None:
                continue
            try:
                used, inodes = self._usage(folder, disk)
            except OSError:
                continue
            if self._is_closed:
                return
            self._known[folder] = changed(disk, used=used, inodes_used=inodes)

    def _usage(self, folder: str, disk: Disk) -> tuple[int, int]:
        """Bytes and inodes, as `du` counts them: one file system, and each file once, however many names it has."""
        top = os.stat(folder)
        used, inodes, seen = top.st_blocks * _BLOCK, 1, set()
        with _Walk(os.path.realpath(folder), top.st_ino) as walk:
            for entry in walk:
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:  # one that has just gone must not hide the others
                    continue
                if found.st_dev != top.st_dev:
                    continue
                if stat.S_ISDIR(found.st_mode):
                    walk.enter(entry.name, found.st_ino)
                elif found.st_nlink > 1:
                    if found.st_ino in seen:
                        continue
                    seen.add(found.st_ino)
                used += found.st_blocks * _BLOCK
                inodes += 1
                if inodes % _LOOK_UP == 0 and self._is_closed:
                    break
                if inodes % _TELL_AFTER == 0:
                    self._tell_so_far(folder, changed(disk, used=used, inodes_used=inodes))
        return used, inodes

    def _tell_so_far(self, folder: str, found: Disk) -> None:
        """Who makes a walk long by filling a folder is seen to do so before it has ended."""
        known = self._known.get(folder)
        if known is None or (known.inodes_used or 0) < (found.inodes_used or 0):
            self._known[folder] = changed(found, used=max(found.used or 0, (known.used if known else 0) or 0))


class _Walk:
    """All entries of a folder and of those folders below it that are entered.

    What is walked through belongs to somebody who may not want it to be counted. A folder is opened only if it is still
    the one that was seen: nobody leads the walk elsewhere with a link. And no folder lies too deep for it: where paths
    become too long for the kernel they begin anew at a folder that is held open.
    """

    def __init__(self, folder: str, inode: int) -> None:
        self._waiting: list[tuple[str, int] | int] = [(folder, inode)]
        """Paths with the inodes that were seen there, and what to close when all that lies below it is done."""
        self._here = folder
        self._held = 0

    def __enter__(self) -> "_Walk":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._waiting:
            if isinstance(each, int):
                os.close(each)

    def enter(self, name: str, inode: int) -> None:
        """Look also into this folder, which lies in the one that is being looked at."""
        self._waiting.append((f"{self._here}/{name}", inode))

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        while self._waiting:
            following = self._waiting.pop()
            if isinstance(following, int):
                os.close(following)
                self._held -= 1
                continue
            path, inode = following
            with suppress(OSError):
                handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                self._here = path
                if len(os.fsencode(path)) > _LONG_PATH and self._held < _MOST_HELD:
                    self._here, self._held = f"/proc/self/fd/{handle}", self._held + 1
                    self._waiting.append(handle)
                try:
                    if os.fstat(handle).st_ino == inode:
                        with os.scandir(handle) as entries:
                            yield from entries
                finally:
                    if self._here == path:
                        os.close(handle)


def file_system(path: str, at: int, device: str = "") -> Disk | None:
    """None for a place that cannot be looked at."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return Disk(
        at=at,
        device=device,
        capacity=found.f_blocks * found.f_frsize,
        available=found.f_bavail * found.f_frsize,
        used=(found.f_blocks - found.f_bfree) * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
        inodes_used=found.f_files - found.f_ffree,
    )


def file_systems(points: Iterable[MountPoint], at: int, proc: str = "/proc") -> tuple[Disk, ...]:
    """Every one that is on a device, once, with what the device does."""
    places: dict[str, str] = {}
    for point in points:
        if point.source.startswith("/dev/"):
            places.setdefault(point.source, point.path)
    found = (file_system(path, at, device) for device, path in places.items())
    activities = _activities(proc)
    return tuple(
        changed(disk, activity=activities.get(os.path.realpath(disk.device).removeprefix("/dev/")))
        for disk in found
        if disk is not None and disk.capacity
    )


def _activities(proc: str) -> dict[str, DiskActivity]:
    """By the kernel's name of each device."""
    found = {}
    for line in (read(f"{proc}/diskstats") or b"").decode().splitlines():
        words = line.split()
        if len(words) >= 3 + len(DiskActivity.__struct_fields__):
            counts = map(int, words[3:])
            found[words[2]] = DiskActivity(**dict(zip(DiskActivity.__struct_fields__, counts, strict=False)))
    return found


def files_in(folder: str) -> tuple[int, int]:
    """Bytes and inodes of the files of one small folder, such as a container's logs; not of folders in it."""
    used = count = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                found = entry.stat()
                if stat.S_ISREG(found.st_mode):
                    used, count = used + found.st_blocks * _BLOCK, count + 1
    return used, count

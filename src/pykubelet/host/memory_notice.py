"""Word from the kernel that memory runs short, for those who look only now and then: of control groups v1 when as much
is in use as was said, else when processes begin to wait for memory. While there is enough nobody is woken."""

import asyncio
import logging
import os
import select
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from pykubelet.host.stats.cgroups import Hierarchy
from pykubelet.pod.eviction.thresholds import ALLOCATABLE_MEMORY, MEMORY_AVAILABLE, Threshold
from pykubelet.pod.stats.stats import NodeReading

log = logging.getLogger(__name__)

_STALL: Final = b"some 200000 2000000\0"
"""Processes wait for memory for a tenth of two seconds: any user may ask for that."""
_NEAR: Final = 16 << 20
"""Bytes by which a level may be off before the kernel is told another."""


class UsageNotice:
    """The MemoryNotice port on control groups v1. `folders` are those of the groups, by signal."""

    def __init__(self, folders: Mapping[str, str]) -> None:
        self._folders = folders
        self._armed: dict[Threshold, tuple[int, int]] = {}
        """The level, and where the kernel tells that it was passed."""
        self._rung = asyncio.Event()
        self._failed: set[str] = set()

    def expect(self, node: NodeReading, thresholds: Iterable[Threshold]) -> None:
        for each in thresholds:
            folder, level = self._folders.get(each.signal), _level(node, each)
            if folder is None or level is None or folder in self._failed:
                continue
            if (known := self._armed.get(each)) is not None:
                if abs(known[0] - level) < _NEAR:
                    continue
                self._disarm(each)
            try:
                self._arm(each, folder, level)
            except OSError as error:
                self._failed.add(folder)
                log.info("the kernel does not tell of memory in use: %s: %s", folder, error.strerror)

    async def wait(self) -> None:
        await self._rung.wait()
        self._rung.clear()

    def close(self) -> None:
        for each in list(self._armed):
            self._disarm(each)

    def _arm(self, threshold: Threshold, folder: str, level: int) -> None:
        bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            usage = os.open(f"{folder}/memory.usage_in_bytes", os.O_RDONLY | os.O_CLOEXEC)
            try:
                control = os.open(f"{folder}/cgroup.event_control", os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(control, f"{bell} {usage} {level}".encode())
                finally:
                    os.close(control)
            finally:
                os.close(usage)
            asyncio.get_running_loop().add_reader(bell, self._hear, bell)
        except OSError:
            os.close(bell)
            raise
        self._armed[threshold] = level, bell

    def _disarm(self, threshold: Threshold) -> None:
        _, bell = self._armed.pop(threshold)
        asyncio.get_running_loop().remove_reader(bell)
        os.close(bell)  # with which the kernel forgets it

    def _hear(self, bell: int) -> None:
        with suppress(OSError):
            os.eventfd_read(bell)
        self._rung.set()


class StallNotice:
    """The MemoryNotice port of kernels that tell for how long processes have to wait."""

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        self._file = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(self._file, _STALL)
        except OSError:
            os.close(self._file)
            raise
        self._epoll = select.epoll()  # which can wait for what a reader of the event loop cannot
        self._epoll.register(self._file, select.EPOLLPRI)
        self._rung = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._hear)

    def expect(self, node: NodeReading, thresholds: Iterable[Threshold]) -> None:
        """The kernel knows by itself."""

    async def wait(self) -> None:
        await self._rung.wait()
        self._rung.clear()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._epoll.fileno())
        self._epoll.close()
        os.close(self._file)

    def _hear(self) -> None:
        self._epoll.poll(0)
        self._rung.set()


def memory_notice(pods_group: str, proc: str = "/proc") -> UsageNotice | StallNotice | None:
    """The best that this kernel has; None when it has none, or not for us. To be closed."""
    memory = Hierarchy.found(proc).mounts.get("memory")
    if memory is not None and os.access(f"{memory}/cgroup.event_control", os.W_OK):
        return UsageNotice({MEMORY_AVAILABLE: memory, ALLOCATABLE_MEMORY: f"{memory}{pods_group}"})
    try:
        return StallNotice(f"{proc}/pressure/memory")
    except OSError as error:
        log.info("the kernel does not tell when memory runs short: %s", error.strerror)
        return None


def _level(node: NodeReading, threshold: Threshold) -> int | None:
    """What is in use when the threshold is met: less than that is left, without what can be taken back at once."""
    usage = node.usage
    if threshold.signal == ALLOCATABLE_MEMORY:
        if (pods := node.system.get("pods")) is None:
            return None
        usage = pods.usage
    if (memory := usage.memory) is None or memory.limit is None:
        return None
    level = memory.limit - threshold.least.of(memory.limit).value + memory.usage - memory.working_set
    return level if level > 0 else None

"""What processes use, added up one by one: for containers that have no control group to count for them; and what no
control group counts: what they have open, and whether they run or wait."""

import os
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final

from pykubelet.api.struct import changed
from pykubelet.host.stats.files import TICK, counters, read
from pykubelet.pod.stats.stats import Cpu, DiskIo, Memory, TaskStates, Usage

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MOST_PROCESSES: Final = 1000
_MOST_LINKS: Final = 10_000
_OPEN_FILES: Final = b"Max open files"
_STATES: Final = {b"R": "running", b"S": "sleeping", b"D": "uninterruptible", b"T": "stopped", b"t": "stopped"}


class ProcessTable:
    """All processes, or those given, at one moment. Made for one reading, and only when somebody needs it."""

    def __init__(self, proc: str = "/proc", only: Collection[str] = ()) -> None:
        self._proc = proc
        self._stat: dict[int, list[bytes]] = {}
        self._children: dict[int, list[int]] = {}
        for name in only or os.listdir(proc):
            if name.isdigit() and (fields := stat_fields(proc, name)) is not None:
                self._stat[int(name)] = fields
                self._children.setdefault(int(fields[1]), []).append(int(name))

    def below(self, pid: int) -> list[int]:
        found: list[int] = []
        waiting = list(self._children.get(pid, ()))
        while waiting:
            child = waiting.pop()
            found.append(child)
            waiting += self._children.get(child, ())
        return found

    def tree(self, pid: int, at: int) -> Usage:
        """Everything below a process. What those used that have ended is with whoever waited for them."""
        waited = self._stat.get(pid)
        reaped = (int(waited[13]), int(waited[14])) if waited else (0, 0)
        return self.usage(self.below(pid), at, reaped=reaped)

    def usage(
        self, pids: Collection[int], at: int, *, reaped: tuple[int, int] = (0, 0), with_children: bool = True
    ) -> Usage:
        """`with_children`: with what those used that they have waited for."""
        user, system, threads, minor, major, resident, shared, alive = *reaped, 0, 0, 0, 0, 0, 0
        for pid in pids:
            fields = self._stat.get(pid)
            if fields is None:
                continue
            user += int(fields[11]) + (int(fields[13]) if with_children else 0)
            system += int(fields[12]) + (int(fields[14]) if with_children else 0)
            minor += int(fields[7])
            major += int(fields[9])
            threads += int(fields[17])
            alive += fields[0] != b"Z"
            own, file_backed = _memory(self._proc, pid, fields)
            resident, shared = resident + own, shared + file_backed
        return Usage(
            at=at,
            cpu=Cpu(total=(user + system) * TICK, user=user * TICK, system=system * TICK),
            memory=Memory(
                usage=resident,
                working_set=resident,
                rss=max(resident - shared, 0),
                mapped_file=shared,
                page_faults=minor + major,
                major_page_faults=major,
            ),
            processes=alive,
            threads=threads,
        )


def stat_fields(proc: str, pid: str | int) -> list[bytes] | None:
    """/proc/<pid>/stat from the state on, which is field 0. None when it has ended; its name may hold anything."""
    data = read(f"{proc}/{pid}/stat")
    fields = data.rpartition(b") ")[2].split() if data else []
    return fields if len(fields) > 21 and fields[0] != b"X" else None


def looked_into(usage: Usage, proc: str, pids: Sequence[str], device: str) -> Usage:
    """The same with what only the processes themselves show. `device` is where they write to for all that we know.

    No container can make a look take long: of very many processes only some are looked into.
    """
    pids = pids[:_MOST_PROCESSES]
    descriptors, sockets = _open_files(proc, pids)
    return changed(
        usage,
        descriptors=descriptors,
        sockets=sockets,
        open_files_limit=_open_files_limit(proc, pids[0]) if pids else None,
        states=_states(proc, pids),
        io=usage.io or _transfers(proc, pids, device),
    )


def _open_files(proc: str, pids: Iterable[str]) -> tuple[int | None, int | None]:
    """How many there are, and how many of them are sockets; None where that may not be looked at."""
    found = sockets = None
    left = _MOST_LINKS
    for pid in pids:
        folder = f"{proc}/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        found, sockets = (found or 0) + len(names), sockets or 0
        looked_at, left = names[:left], max(left - len(names), 0)
        for name in looked_at:
            with suppress(OSError):
                sockets += os.readlink(f"{folder}/{name}").startswith("socket:")
    return found, sockets


def unlinked(proc: str, pids: Iterable[str], folder: str) -> dict[str, tuple[int, int]]:
    """Bytes and inodes of files that processes hold open or mapped although nobody can find them any more: those in
    their `root`, and in `volumes`, on the disk of the folder. Of very many only some are looked at."""
    seen: dict[tuple[int, int], tuple[str, int]] = {}
    left = _MOST_LINKS
    for pid in pids:
        try:
            volumes, root = os.stat(folder).st_dev, os.stat(f"{proc}/{pid}/root/").st_dev
        except OSError:
            continue
        places = {volumes: "volumes", root: "root"} if root != volumes else {volumes: "volumes"}
        for path in _held(f"{proc}/{pid}", left):
            left -= 1
            with suppress(OSError):
                found = os.stat(path)
                if not found.st_nlink and stat.S_ISREG(found.st_mode) and found.st_dev in places:
                    seen[found.st_dev, found.st_ino] = places[found.st_dev], found.st_blocks * 512
    totals: dict[str, tuple[int, int]] = {}
    for place, size in seen.values():
        used, inodes = totals.get(place, (0, 0))
        totals[place] = used + size, inodes + 1
    return totals


def _held(process: str, most: int) -> list[str]:
    """Where to look at what a process has open, and at mapped files without a name."""
    with suppress(OSError):
        found = [f"{process}/fd/{name}" for name in os.listdir(f"{process}/fd")[:most]]
        for line in (read(f"{process}/maps") or b"").splitlines():
            if line.endswith(b" (deleted)"):
                found.append(f"{process}/map_files/{line.partition(b' ')[0].decode()}")
        return found[:most]
    return []


def _open_files_limit(proc: str, pid: str) -> int | None:
    """-1: none."""
    for line in (read(f"{proc}/{pid}/limits") or b"").splitlines():
        if line.startswith(_OPEN_FILES):
            soft = line[len(_OPEN_FILES) :].split()[0]
            return int(soft) if soft.isdigit() else -1
    return None


def _states(proc: str, pids: Iterable[str]) -> TaskStates | None:
    letters = [fields[0] for pid in pids if (fields := stat_fields(proc, pid)) is not None]
    if not letters:
        return None
    counts = Counter(_STATES.get(letter, "") for letter in letters)
    return TaskStates(**{name: counts[name] for name in TaskStates.__struct_fields__})


def _transfers(proc: str, pids: Iterable[str], device: str) -> tuple[DiskIo, ...]:
    """Kernels that throttle nobody count nothing for the groups of version 1; and those who are not root have none.
    What children did is with whoever waited for them."""
    told = [counters(data.replace(b":", b"")) for pid in pids if (data := read(f"{proc}/{pid}/io")) is not None]
    if not told:
        return ()
    totals = [sum(each.get(name, 0) for each in told) for name in (b"read_bytes", b"write_bytes")]
    return (DiskIo(device=device, read_bytes=totals[0], written_bytes=totals[1]),)


def _memory(proc: str, pid: int, fields: list[bytes]) -> tuple[int, int]:
    """Bytes in memory, and those of them that belong to files or are shared."""
    words = (read(f"{proc}/{pid}/statm") or b"").split()
    resident, shared = (int(words[1]), int(words[2])) if len(words) > 2 else (int(fields[21]), 0)
    return resident * _PAGE, shared * _PAGE

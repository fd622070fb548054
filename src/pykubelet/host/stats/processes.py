"""What processes use, added up one by one: for containers that have no control group to count for them."""

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

from pykubelet.host.stats.files import TICK, read
from pykubelet.pod.stats.stats import Cpu, Memory, Usage

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


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

    def usage(self, pids: Collection[int], at: int, *, reaped: tuple[int, int] = (0, 0)) -> Usage:
        user, system, threads, minor, major, resident, shared, alive = *reaped, 0, 0, 0, 0, 0, 0
        for pid in pids:
            fields = self._stat.get(pid)
            if fields is None:
                continue
            user += int(fields[11]) + int(fields[13])
            system += int(fields[12]) + int(fields[14])
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
            descriptors=descriptors(self._proc, pids),
        )


def stat_fields(proc: str, pid: str | int) -> list[bytes] | None:
    """/proc/<pid>/stat from the state on, which is field 0. None when it has ended; its name may hold anything."""
    data = read(f"{proc}/{pid}/stat")
    fields = data.rpartition(b") ")[2].split() if data else []
    return fields if len(fields) > 21 and fields[0] != b"X" else None


def descriptors(proc: str, pids: Iterable[int | bytes]) -> int | None:
    """How many files they have open, where the kernel says so at a glance (6.2 and later). Counting them one by one
    would take longer than all else together."""
    found = None
    for pid in pids:
        with suppress(OSError):
            size = os.stat(f"{proc}/{pid if isinstance(pid, int) else pid.decode()}/fd").st_size
            if size == 0:
                return None
            found = (found or 0) + size
    return found


def _memory(proc: str, pid: int, fields: list[bytes]) -> tuple[int, int]:
    """Bytes in memory, and those of them that belong to files or are shared."""
    words = (read(f"{proc}/{pid}/statm") or b"").split()
    resident, shared = (int(words[1]), int(words[2])) if len(words) > 2 else (int(fields[21]), 0)
    return resident * _PAGE, shared * _PAGE

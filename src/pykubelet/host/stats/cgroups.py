"""What the kernel counts for one control group, read from either version of them into the same values."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from pykubelet.host.mount import parse_mount_info
from pykubelet.host.stats import files
from pykubelet.host.stats.files import TICK, counters, number, read
from pykubelet.pod.stats.stats import UNLIMITED, Cpu, DiskIo, Memory, Pressure, Usage

_CONTROLLERS: Final = ("cpu", "cpuacct", "memory", "blkio", "pids")
_UNIFIED: Final = ""
_MOST_WEIGHT: Final = 9999
_MOST_SHARES: Final = 262_142
_SETTLED: Final = 10 * 1_000_000_000
"""Nanoseconds for which a limit is taken to stay as it was: they are half of all files, and hardly ever change."""
_OF_CPU: Final = ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us")
_OF_MEMORY: Final = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.soft_limit_in_bytes")
_OF_PIDS: Final = ("pids.max",)
_OF_ALL: Final = ("memory.max", "memory.swap.max", "memory.min", "cpu.weight", "cpu.max", "pids.max")

Folders = Mapping[str, str]
"""A group's folders by controller; under the empty name that of version 2."""


class Hierarchy(Struct, frozen=True):
    """Where the control groups of this machine are mounted."""

    mounts: Mapping[str, str]
    """By controller; under the empty name version 2, when it is what counts here."""
    roots: Mapping[str, str] = {}
    """What each mount shows of its hierarchy, where that is not all."""

    @classmethod
    def found(cls, proc: str) -> "Hierarchy":
        mounts: dict[str, str] = {}
        roots: dict[str, str] = {}
        unified = ("", "/")
        for point in parse_mount_info((read(f"{proc}/self/mountinfo") or b"").decode(errors="surrogateescape")):
            if point.fs_type == "cgroup2":
                unified = unified if unified[0] else (point.path, point.root)
            elif point.fs_type == "cgroup":
                for name in _CONTROLLERS:
                    if name in point.options and name not in mounts:
                        mounts[name], roots[name] = point.path, point.root
        if unified[0] and "memory" not in mounts and "cpuacct" not in mounts:
            return cls({_UNIFIED: unified[0]}, {_UNIFIED: unified[1]})
        return cls(mounts, roots)

    def paths(self, membership: bytes) -> dict[str, str]:
        """The groups of a process by controller, as its /proc/<pid>/cgroup names them."""
        found: dict[str, str] = {}
        for line in membership.decode(errors="surrogateescape").splitlines():
            _, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            for name in names.split(",") if names else (_UNIFIED,):
                if name in self.mounts:
                    found[name] = path
        return found

    def folders(self, paths: Mapping[str, str]) -> dict[str, str]:
        return {name: self._folder(name, path) for name, path in paths.items() if name in self.mounts}

    def everywhere(self, path: str) -> dict[str, str]:
        """The folders of a group that has the same name under every controller."""
        return self.folders(dict.fromkeys(self.mounts, path))

    def path_of(self, folders: Folders) -> str:
        """What cAdvisor would call it: its path where memory is counted."""
        for name in (_UNIFIED, "memory", "cpuacct", "cpu"):
            mount = self.mounts.get(name)
            if name in folders and mount is not None and folders[name].startswith(mount):
                return folders[name][len(mount) :] or "/"
        return ""

    def _folder(self, name: str, path: str) -> str:
        root = self.roots.get(name, "/")
        if root != "/" and (path + "/").startswith(root + "/"):
            path = path[len(root) :]
        return self.mounts[name] + ("" if path == "/" else path)


class GroupReader:
    """All of it blocks, for microseconds."""

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self.proc = proc
        self._sys = sys
        self._devices: dict[str, str] = {}
        self._limits: dict[str, tuple[int, tuple[bytes, ...]]] = {}

    def usage(self, folders: Folders, at: int, *, details: bool) -> Usage:
        """Without `details` processor time and memory alone."""
        if (unified := folders.get(_UNIFIED)) is not None:
            return self._unified(unified, at, details)
        return self._legacy(folders, at, details)

    def pids(self, folders: Folders) -> list[bytes] | None:
        """The processes that are in the group itself, not in one below it."""
        folder = folders.get(_UNIFIED) or folders.get("cpu") or folders.get("memory")
        data = read(f"{folder}/cgroup.procs") if folder else None
        return None if data is None else data.split()

    def forget_old(self, at: int) -> None:
        """The limits of groups that nobody has asked about of late."""
        self._limits = {folder: known for folder, known in self._limits.items() if at - known[0] < 6 * _SETTLED}

    def _limits_of(self, folder: str, names: tuple[str, ...], at: int) -> tuple[bytes, ...]:
        known = self._limits.get(folder)
        if known is None or not 0 <= at - known[0] < _SETTLED:
            known = self._limits[folder] = (at, tuple(read(f"{folder}/{name}") or b"" for name in names))
        return known[1]

    # --- version 1

    def _legacy(self, folders: Folders, at: int, details: bool) -> Usage:
        cpu, memory = self._legacy_cpu(folders, at, details), None
        if (folder := folders.get("memory")) is not None:
            memory = self._legacy_memory(folder, at, details)
        if not details:
            return Usage(at=at, cpu=cpu, memory=memory)
        blkio, pids = folders.get("blkio"), folders.get("pids")
        oom = counters(read(f"{folder}/memory.oom_control")).get(b"oom_kill") if folder else None
        return Usage(
            at=at,
            cpu=cpu,
            memory=memory,
            io=self._legacy_io(blkio) if blkio else (),
            threads=number(f"{pids}/pids.current") if pids else None,
            threads_max=(_number(self._limits_of(pids, _OF_PIDS, at)[0]) or 0) if pids else None,
            oom_kills=oom,
        )

    def _legacy_cpu(self, folders: Folders, at: int, details: bool) -> Cpu | None:
        accounts, folder = folders.get("cpuacct"), folders.get("cpu")
        total = number(f"{accounts}/cpuacct.usage") if accounts else None
        if total is None:
            return None
        if not details:
            return Cpu(total=total)
        ticks = counters(read(f"{accounts}/cpuacct.stat"))
        stat = counters(read(f"{folder}/cpu.stat")) if folder else {}
        limits = self._limits_of(folder, _OF_CPU, at) if folder else (b"", b"", b"")
        shares, quota, period = map(_number, limits)
        return Cpu(
            total=total,
            user=ticks.get(b"user", 0) * TICK,
            system=ticks.get(b"system", 0) * TICK,
            periods=stat.get(b"nr_periods", 0),
            throttled_periods=stat.get(b"nr_throttled", 0),
            throttled=stat.get(b"throttled_time", 0),
            shares=shares or 0,
            quota=max(quota or 0, 0),
            period=period or 0,
        )

    def _legacy_memory(self, folder: str, at: int, details: bool) -> Memory | None:
        usage, stat = number(f"{folder}/memory.usage_in_bytes"), counters(read(f"{folder}/memory.stat"))
        if usage is None:
            return None
        limit, swap_limit, reservation = map(_number, self._limits_of(folder, _OF_MEMORY, at))
        inactive = stat.get(b"total_inactive_file", 0)
        return Memory(
            usage=usage,
            working_set=max(usage - inactive, 0),
            rss=stat.get(b"total_rss", 0),
            cache=stat.get(b"total_cache", 0),
            mapped_file=stat.get(b"total_mapped_file", 0),
            active_file=stat.get(b"total_active_file", 0),
            inactive_file=inactive,
            kernel=(number(f"{folder}/memory.kmem.usage_in_bytes") or 0) if details else 0,
            swap=stat.get(b"total_swap", 0),
            max_usage=(number(f"{folder}/memory.max_usage_in_bytes") or 0) if details else 0,
            failures=(number(f"{folder}/memory.failcnt") or 0) if details else 0,
            page_faults=stat.get(b"pgfault", 0),
            major_page_faults=stat.get(b"pgmajfault", 0),
            limit=_bounded(limit),
            reservation=_bounded(reservation) or 0,
            swap_limit=_bounded(swap_limit),
        )

    def _legacy_io(self, folder: str) -> tuple[DiskIo, ...]:
        amounts: dict[bytes, list[int]] = {}
        for column, name in enumerate(("io_service_bytes", "io_serviced")):
            for line in (read(f"{folder}/blkio.throttle.{name}_recursive") or b"").splitlines():
                words = line.split()
                if len(words) == 3 and words[1] in (b"Read", b"Write"):
                    row = amounts.setdefault(words[0], [0, 0, 0, 0])
                    row[2 * column + (words[1] == b"Write")] = int(words[2])
        return self._io(amounts)

    # --- version 2

    def _unified(self, folder: str, at: int, details: bool) -> Usage:
        limits = dict(zip(_OF_ALL, self._limits_of(folder, _OF_ALL, at), strict=True))
        events = counters(read(f"{folder}/memory.events")) if details else {}
        cpu = self._unified_cpu(folder, limits, details)
        memory = self._unified_memory(folder, limits, events, details)
        if not details:
            return Usage(at=at, cpu=cpu, memory=memory)
        return Usage(
            at=at,
            cpu=cpu,
            memory=memory,
            io=self._unified_io(folder),
            io_pressure=pressure(read(f"{folder}/io.pressure")),
            threads=number(f"{folder}/pids.current"),
            threads_max=_number(limits["pids.max"]) or 0,
            oom_kills=events.get(b"oom_kill"),
        )

    def _unified_cpu(self, folder: str, limits: Mapping[str, bytes], details: bool) -> Cpu | None:
        stat = counters(read(f"{folder}/cpu.stat"))
        if b"usage_usec" not in stat:
            return None
        quota, _, period = limits["cpu.max"].strip().partition(b" ")
        weight = _number(limits["cpu.weight"])
        return Cpu(
            total=stat[b"usage_usec"] * 1000,
            user=stat.get(b"user_usec", 0) * 1000,
            system=stat.get(b"system_usec", 0) * 1000,
            periods=stat.get(b"nr_periods", 0),
            throttled_periods=stat.get(b"nr_throttled", 0),
            throttled=stat.get(b"throttled_usec", 0) * 1000,
            quota=_number(quota) or 0,
            period=_number(period) or 0,
            shares=2 + (weight - 1) * _MOST_SHARES // _MOST_WEIGHT if weight else 0,
            pressure=pressure(read(f"{folder}/cpu.pressure")) if details else None,
        )

    def _unified_memory(
        self, folder: str, limits: Mapping[str, bytes], events: Mapping[bytes, int], details: bool
    ) -> Memory | None:
        stat = counters(read(f"{folder}/memory.stat"))
        if not stat:
            return None
        usage, inactive = number(f"{folder}/memory.current"), stat.get(b"inactive_file", 0)
        if usage is None:  # the top has no such file: what it would count is this
            usage = stat.get(b"anon", 0) + stat.get(b"file", 0)
        return Memory(
            usage=usage,
            working_set=max(usage - inactive, 0),
            rss=stat.get(b"anon", 0),
            cache=stat.get(b"file", 0),
            mapped_file=stat.get(b"file_mapped", 0),
            active_file=stat.get(b"active_file", 0),
            inactive_file=inactive,
            kernel=stat.get(b"kernel", 0),
            swap=number(f"{folder}/memory.swap.current") or 0,
            max_usage=(number(f"{folder}/memory.peak") or 0) if details else 0,
            failures=events.get(b"max", 0),
            page_faults=stat.get(b"pgfault", 0),
            major_page_faults=stat.get(b"pgmajfault", 0),
            limit=_bounded(_number(limits["memory.max"])),
            reservation=_number(limits["memory.min"]) or 0,
            swap_limit=_bounded(_number(limits["memory.swap.max"])),
            pressure=pressure(read(f"{folder}/memory.pressure")) if details else None,
        )

    def _unified_io(self, folder: str) -> tuple[DiskIo, ...]:
        amounts: dict[bytes, list[int]] = {}
        for line in (read(f"{folder}/io.stat") or b"").splitlines():
            device, *words = line.split()
            stat = dict(word.split(b"=", 1) for word in words if b"=" in word)
            amounts[device] = [int(stat.get(name, 0)) for name in (b"rbytes", b"wbytes", b"rios", b"wios")]
        return self._io(amounts)

    # --- both

    def _io(self, amounts: Mapping[bytes, list[int]]) -> tuple[DiskIo, ...]:
        return tuple(
            DiskIo(device=self.device(name), numbers=name, read_bytes=r, written_bytes=w, reads=rs, writes=ws)
            for name, (r, w, rs, ws) in ((numbers.decode(), counts) for numbers, counts in amounts.items())
        )

    def device(self, numbers: str) -> str:
        """`8:0` -> `/dev/sda`; empty for what is no device that has a name."""
        if numbers not in self._devices:
            name = ""
            for line in (files.read(f"{self._sys}/dev/block/{numbers}/uevent") or b"").decode().splitlines():
                if line.startswith("DEVNAME="):
                    name = "/dev/" + line.partition("=")[2]
            if len(self._devices) > 1000:  # devices come and go on some machines
                self._devices.clear()
            self._devices[numbers] = name
        return self._devices[numbers]


def _number(text: bytes) -> int | None:
    try:
        return int(text)
    except ValueError:  # `max`, or not there
        return None


def _bounded(amount: int | None) -> int | None:
    return amount if amount is not None and amount <= UNLIMITED else None


def pressure(data: bytes | None) -> Pressure | None:
    """`some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and the same of `full`, which not every kernel has."""
    found: dict[bytes, tuple[int, tuple[float, float, float]]] = {}
    for line in (data or b"").splitlines():
        kind, *words = line.split()
        values = [word.partition(b"=")[2] for word in words]
        if len(values) == 4:
            found[kind] = int(values[3]), (float(values[0]), float(values[1]), float(values[2]))
    if not found:
        return None
    nothing = (0, (0.0, 0.0, 0.0))
    some, full = found.get(b"some", nothing), found.get(b"full", nothing)
    return Pressure(some=some[0], full=full[0], some_shares=some[1], full_shares=full[1])

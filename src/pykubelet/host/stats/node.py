"""What the whole machine uses: its topmost control group, and /proc where that does not say."""

import time

from pykubelet.api.struct import changed
from pykubelet.host.machine import parse_meminfo
from pykubelet.host.stats.cgroups import Folders, GroupReader
from pykubelet.host.stats.files import TICK, counters, number, read
from pykubelet.pod.stats.stats import Cpu, Memory, Usage


def node_usage(reader: GroupReader, top: Folders, at: int, *, details: bool) -> Usage:
    """The limit of a node is what it has."""
    proc = reader.proc
    usage = reader.usage(top, at, details=details)
    installed = parse_meminfo((read(f"{proc}/meminfo") or b"").decode())
    swap = max(installed.get("SwapTotal", 0) - installed.get("SwapFree", 0), 0)
    memory = changed(
        usage.memory or _memory(proc, installed),
        limit=installed.get("MemTotal"),
        swap_limit=installed.get("SwapTotal"),
        swap=swap,
    )
    return changed(
        usage,
        cpu=usage.cpu or _cpu(proc),
        memory=memory,
        threads=usage.threads if usage.threads is not None else tasks(proc),
    )


def _cpu(proc: str) -> Cpu | None:
    line = (read(f"{proc}/stat") or b"").partition(b"\n")[0].split()
    if len(line) < 9 or line[0] != b"cpu":
        return None
    user, nice, system, _idle, _wait, interrupts, soft, _stolen = (int(word) * TICK for word in line[1:9])
    return Cpu(total=user + nice + system + interrupts + soft, user=user + nice, system=system + interrupts + soft)


def _memory(proc: str, installed: dict[str, int]) -> Memory:
    usage = max(installed.get("MemTotal", 0) - installed.get("MemFree", 0), 0)
    inactive, faults = installed.get("Inactive(file)", 0), counters(read(f"{proc}/vmstat"))
    return Memory(
        usage=usage,
        working_set=max(usage - inactive, 0),
        rss=installed.get("AnonPages", 0),
        cache=installed.get("Cached", 0),
        mapped_file=installed.get("Mapped", 0),
        inactive_file=inactive,
        active_file=installed.get("Active(file)", 0),
        page_faults=faults.get(b"pgfault", 0),
        major_page_faults=faults.get(b"pgmajfault", 0),
    )


def tasks(proc: str) -> int | None:
    """How many there are, from `0.10 0.20 0.30 2/345 6789`."""
    words = (read(f"{proc}/loadavg") or b"").split()
    count = words[3].partition(b"/")[2] if len(words) > 3 else b""
    return int(count) if count.isdigit() else None


def max_pid(proc: str) -> int | None:
    limits = [number(f"{proc}/sys/kernel/{name}") for name in ("pid_max", "threads-max")]
    return min((limit for limit in limits if limit is not None), default=None)


def boot_time(proc: str) -> float:
    """Seconds since 1970."""
    uptime = (read(f"{proc}/uptime") or b"").split()
    return time.time() - float(uptime[0]) if uptime else 0.0

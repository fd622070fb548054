"""How this machine is made, read from /sys: sockets, cores, threads, NUMA nodes, caches, memory and huge pages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.huge_pages import page_size
from pykubelet.host.machine import parse_meminfo
from pykubelet.pod.pinning.cpu_set import CpuSet, parse_cpu_set
from pykubelet.pod.pinning.machine_topology import Core, MachineTopology, NumaNode

_CPUS: Final = "sys/devices/system/cpu"
_NODES: Final = "sys/devices/system/node"
_LAST_PRIVATE_LEVEL: Final = 2


def read_machine_topology(root: str = "/") -> MachineTopology:
    """Blocks. `root` is where /sys and /proc are. Raises Invalid when the kernel tells too little to pin anything."""
    top = Path(root)
    online = _online(top)
    folders = sorted(_numbered(top / _NODES, "node"))
    if folders:
        nodes = [_node(top, number, folder, online) for number, folder in folders]
    else:
        nodes = _nodes_without_numa(top, online)
    if not any(node.cores for node in nodes):
        raise Invalid(f"{top / _CPUS} does not tell which cores and sockets there are, and so nothing can be pinned")
    return MachineTopology(nodes=tuple(nodes))


def _node(top: Path, number: int, folder: Path, online: CpuSet) -> NumaNode:
    cpus = [cpu for cpu, _ in sorted(_numbered(folder, "cpu"))]
    distances = _text(folder / "distance").split()
    return NumaNode(
        id=number,
        cores=_cores(top, [cpu for cpu in cpus if cpu in online]),
        memory=_node_memory(_text(folder / "meminfo")),
        hugepages=dict(_hugepages(folder / "hugepages")),
        distances=tuple(int(each) for each in distances if each.isdecimal()),
    )


def _nodes_without_numa(top: Path, online: CpuSet) -> list[NumaNode]:
    """A kernel without NUMA: each socket stands for a node, and the first one has all memory."""
    sockets: dict[int, list[int]] = {}
    for cpu in sorted(online):
        if (place := _place(top, cpu)) is not None:
            sockets.setdefault(place[0], []).append(cpu)
    memory = parse_meminfo(_text(top / "proc/meminfo")).get("MemTotal", 0)
    return [
        NumaNode(id=socket, cores=_cores(top, cpus), memory=memory if socket == min(sockets) else 0)
        for socket, cpus in sorted(sockets.items())
    ]


def _cores(top: Path, cpus: list[int]) -> tuple[Core, ...]:
    threads: dict[tuple[int, int], list[int]] = {}
    for cpu in cpus:
        if (place := _place(top, cpu)) is not None:
            threads.setdefault(place, []).append(cpu)
    count = sum(map(len, threads.values()))
    return tuple(
        Core(socket=socket, threads=tuple(some), uncore_cache=_uncore_cache(top, some[0], count))
        for (socket, _), some in threads.items()
    )


def _place(top: Path, cpu: int) -> tuple[int, int] | None:
    """Its socket and its core's number there."""
    folder = top / _CPUS / f"cpu{cpu}" / "topology"
    socket, core = _number(folder / "physical_package_id"), _number(folder / "core_id")
    return None if socket is None or core is None else (socket, core)


def _uncore_cache(top: Path, cpu: int, of_node: int) -> int | None:
    """The cache before memory, if fewer processors share it than the NUMA node has."""
    for _, folder in sorted(_numbered(top / _CPUS / f"cpu{cpu}" / "cache", "index")):
        level, number = _number(folder / "level"), _number(folder / "id")
        if level is None or number is None or level <= _LAST_PRIVATE_LEVEL:
            continue
        try:
            sharing = len(parse_cpu_set(_text(folder / "shared_cpu_list")))
        except ValueError:
            continue
        if sharing != of_node:
            return number
    return None


def _online(top: Path) -> CpuSet:
    text = _text(top / _CPUS / "online")
    try:
        return parse_cpu_set(text) or frozenset(cpu for cpu, _ in _numbered(top / _CPUS, "cpu"))
    except ValueError as error:
        raise Invalid(f"{top / _CPUS / 'online'}: {error}") from None


def _hugepages(folder: Path) -> Iterator[tuple[int, int]]:
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        size, count = page_size(each.name), _number(each / "nr_hugepages")
        if size and count is not None:
            yield size, count


def _node_memory(meminfo: str) -> int:
    found = re.search(r"MemTotal:\s+(\d+) kB", meminfo)
    return int(found[1]) * 1024 if found else 0


def _numbered(folder: Path, word: str) -> Iterator[tuple[int, Path]]:
    for each in folder.iterdir() if folder.is_dir() else ():
        if match := re.fullmatch(rf"{word}(\d+)", each.name, re.ASCII):
            yield int(match[1]), each


def _number(file: Path) -> int | None:
    text = _text(file)
    return int(text) if re.fullmatch(r"-?\d+", text, re.ASCII) else None


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""

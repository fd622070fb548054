"""The state files of the CPU and memory managers, to the byte as upstream writes them: a node can change agents.

Their checksum is over the text that Go's printer makes of upstream's types, so that text is made here, too.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from pykubelet.base.fnv import fnv1a
from pykubelet.pod.container.hash import go_json
from pykubelet.pod.pinning.cpu_set import format_cpu_set, parse_cpu_set
from pykubelet.pod.pinning.cpu_state import CpuState
from pykubelet.pod.pinning.memory_state import Block, MemoryState, MemoryTable, NodeMemory

CPU_STATE_FILE: Final = "cpu_manager_state"
MEMORY_STATE_FILE: Final = "memory_manager_state"

T = TypeVar("T")

_CORRUPTED: Final = "checkpoint is corrupted"
_END: Final = " Checksum:(checksum.Checksum)0}"


class _Table(Struct, rename="camel"):
    """In the order of the file."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


class _Node(Struct, rename="camel"):
    number_of_assignments: int
    memory_map: dict[str, _Table]
    cells: list[int]


class _Block(Struct, rename="camel"):
    numa_affinity: list[int]
    type: str
    size: int


class _CpuFile(Struct, rename="camel"):
    policy_name: str
    default_cpu_set: str
    entries: dict[str, dict[str, str]] = {}
    checksum: int = 0


class _MemoryFile(Struct, rename="camel"):
    policy_name: str
    machine_state: dict[str, _Node]
    entries: dict[str, dict[str, list[_Block]]] = {}
    checksum: int = 0


def cpu_state_file(policy: str, state: CpuState) -> bytes:
    entries: dict[str, dict[str, str]] = {}
    for uid, container, cpus in sorted(state, key=_owner):
        entries.setdefault(uid, {})[container] = format_cpu_set(cpus)
    file = _CpuFile(policy_name=policy, default_cpu_set=format_cpu_set(state.shared), entries=entries)
    file.checksum = _cpu_checksum(file)
    return _written(file)


def read_cpu_state(policy: str, content: bytes) -> CpuState:
    """Raises ValueError in upstream's words for what is spoilt, or was written under another policy."""
    file = _read(_CpuFile, content)
    if file.checksum and file.checksum != _cpu_checksum(file):
        raise ValueError(_CORRUPTED)
    if file.policy_name != policy:
        raise ValueError(f'configured policy "{policy}" differs from state checkpoint policy "{file.policy_name}"')
    assigned = {}
    for uid, containers in file.entries.items():
        assigned[uid] = {
            name: _cpus(text, f'cpuset "{text}" for container "{name}" in pod "{uid}"')
            for name, text in containers.items()
        }
    shared = _cpus(file.default_cpu_set, f'default cpu set "{file.default_cpu_set}"')
    return CpuState(shared=shared, assigned=assigned)


def memory_state_file(policy: str, state: MemoryState) -> bytes:
    entries: dict[str, dict[str, list[_Block]]] = {}
    for uid, container, blocks in sorted(state, key=_owner):
        entries.setdefault(uid, {})[container] = [_Block(list(block.nodes), block.type, block.size) for block in blocks]
    machine = {number: _told(state.machine[int(number)]) for number in sorted(map(str, state.machine))}
    file = _MemoryFile(policy_name=policy, machine_state=machine, entries=entries)
    file.checksum = _memory_checksum(file)
    return _written(file)


def read_memory_state(policy: str, content: bytes) -> MemoryState:
    """Raises ValueError in upstream's words for what is spoilt, or was written under another policy."""
    file = _read(_MemoryFile, content)
    if not all(number.isdecimal() for number in file.machine_state) or file.checksum != _memory_checksum(file):
        raise ValueError(_CORRUPTED)
    if file.policy_name != policy:
        raise ValueError(
            f'[memorymanager] configured policy "{policy}" differs from state checkpoint policy "{file.policy_name}"'
        )
    return MemoryState(
        machine={int(number): _node(node) for number, node in file.machine_state.items()},
        assigned={
            uid: {
                name: tuple(Block(nodes=tuple(each.numa_affinity), type=each.type, size=each.size) for each in blocks)
                for name, blocks in containers.items()
            }
            for uid, containers in file.entries.items()
        },
    )


def unusable(kind: str, reason: object, path: str) -> str:
    """What a person is told whose state file cannot be used: nothing is thrown away for them."""
    return (
        f"could not restore state from checkpoint: {reason}, please drain this node and delete the {kind} manager "
        f'checkpoint file "{path}" before restarting Kubelet'
    )


# --- inside


def _owner(assignment: tuple[str, str, object]) -> tuple[str, str]:
    return assignment[:2]


def _told(node: NodeMemory) -> _Node:
    tables = {
        name: _Table(table.total, table.system_reserved, table.allocatable, table.reserved, table.free)
        for name, table in sorted(node.tables.items(), key=lambda each: each[0])
    }
    return _Node(node.assignments, tables, list(node.group))


def _node(node: _Node) -> NodeMemory:
    tables = {
        name: MemoryTable(
            total=table.total,
            system_reserved=table.system_reserved,
            allocatable=table.allocatable,
            reserved=table.reserved,
            free=table.free,
        )
        for name, table in node.memory_map.items()
    }
    return NodeMemory(assignments=node.number_of_assignments, tables=tables, group=tuple(node.cells))


def _read(kind: type[T], content: bytes) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise ValueError(f"{_CORRUPTED}: {error}") from None


def _cpus(text: str, what: str) -> frozenset[int]:
    try:
        return parse_cpu_set(text)
    except ValueError as error:
        raise ValueError(f"could not parse {what}: {error}") from None


def _written(file: _CpuFile | _MemoryFile) -> bytes:
    """Without a word of entries where there are none. Maps are in order of their keys, as all of them are made here."""
    plain = msgspec.to_builtins(file)
    return go_json({key: value for key, value in plain.items() if key != "entries" or value})


# --- as Go prints it


def _cpu_checksum(file: _CpuFile) -> int:
    entries = {uid: _map(containers) for uid, containers in file.entries.items()}
    return fnv1a(
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){file.policy_name} "
        f"DefaultCPUSet:(string){file.default_cpu_set} "
        f"Entries:(map[string]map[string]string){_map(entries)}{_END}".encode()
    )


def _memory_checksum(file: _MemoryFile) -> int:
    machine = {int(number): _printed_node(node) for number, node in file.machine_state.items()}
    entries = {
        uid: _map({name: _list(map(_printed_block, blocks)) for name, blocks in containers.items()})
        for uid, containers in file.entries.items()
    }
    return fnv1a(
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){file.policy_name} "
        f"MachineState:(state.NUMANodeMap){_map(machine)} "
        f"Entries:(state.ContainerMemoryAssignments){_map(entries)}{_END}".encode()
    )


def _printed_node(node: _Node) -> str:
    tables = {
        name: f"<*>{{TotalMemSize:(uint64){table.total} SystemReserved:(uint64){table.system_reserved} "
        f"Allocatable:(uint64){table.allocatable} Reserved:(uint64){table.reserved} Free:(uint64){table.free}}}"
        for name, table in node.memory_map.items()
    }
    return (
        f"<*>{{NumberOfAssignments:(int){node.number_of_assignments} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable){_map(tables)} Cells:([]int){_list(node.cells)}}}"
    )


def _printed_block(block: _Block) -> str:
    return (
        f"{{NUMAAffinity:([]int){_list(block.numa_affinity)} Type:(v1.ResourceName){block.type} "
        f"Size:(uint64){block.size}}}"
    )


def _map(values: Mapping[Any, str]) -> str:
    return f"map[{' '.join(f'{key}:{values[key]}' for key in sorted(values))}]"


def _list(values: Iterable[object]) -> str:
    return f"[{' '.join(map(str, values))}]"

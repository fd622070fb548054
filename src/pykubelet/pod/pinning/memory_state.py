"""How much memory of each kind every NUMA node has, and which container has how much of it for itself."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.resources import HUGEPAGES_PREFIX, MEMORY
from pykubelet.pod.pinning.machine_topology import MachineTopology, NumaNode


class MemoryTable(Struct, frozen=True, kw_only=True):
    """Bytes of one kind on one NUMA node."""

    total: int = 0
    system_reserved: int = 0
    allocatable: int = 0
    reserved: int = 0
    free: int = 0


_NONE: Final = MemoryTable()


class NodeMemory(Struct, frozen=True, kw_only=True):
    """One NUMA node."""

    assignments: int = 0
    """How many blocks lie on it."""
    tables: Mapping[str, MemoryTable] = {}
    """By resource: memory and huge pages."""
    group: tuple[int, ...] = ()
    """The NUMA nodes that its blocks lie on together with it: either all of them alone here, or all on the same."""

    def table(self, resource: str) -> MemoryTable:
        """Of what a node has none of, there is nothing."""
        return self.tables.get(resource, _NONE)


class Block(Struct, frozen=True, kw_only=True):
    """Memory of one kind that a container has for itself, on some NUMA nodes together."""

    nodes: tuple[int, ...]
    type: str
    size: int


MachineMemory = Mapping[int, NodeMemory]
Reserved = Mapping[int, Mapping[str, int]]
"""Bytes that are kept for the system, by NUMA node and resource."""


class MemoryState(Struct, frozen=True, kw_only=True):
    machine: MachineMemory = {}
    assigned: Mapping[str, Mapping[str, tuple[Block, ...]]] = {}
    """By the pod's uid and the container's name."""

    def of(self, uid: str, container: str) -> tuple[Block, ...] | None:
        return self.assigned.get(uid, {}).get(container)

    def __iter__(self) -> Iterator[tuple[str, str, tuple[Block, ...]]]:
        for uid, containers in self.assigned.items():
            for name, blocks in containers.items():
                yield uid, name, blocks

    def with_blocks(self, uid: str, container: str, blocks: tuple[Block, ...]) -> "MemoryState":
        of_pod = {**self.assigned.get(uid, {}), container: blocks}
        return MemoryState(machine=self.machine, assigned={**self.assigned, uid: of_pod})

    def released(self, uid: str, container: str) -> "MemoryState":
        blocks = self.of(uid, container)
        if blocks is None:
            return self
        others = {name: each for name, each in self.assigned[uid].items() if name != container}
        pods = {each: containers for each, containers in self.assigned.items() if each != uid}
        if others:
            pods[uid] = others
        machine = dict(self.machine)
        for block in blocks:
            machine = _given_back(machine, block)
        return MemoryState(machine=machine, assigned=pods)


def allocatable_blocks(state: MemoryState) -> tuple[Block, ...]:
    """All that there is for containers, by NUMA node and kind."""
    return tuple(
        Block(nodes=(node,), type=resource, size=table.allocatable)
        for node, memory in sorted(state.machine.items())
        for resource, table in sorted(memory.tables.items())
        if table.allocatable
    )


def untouched(machine: MachineTopology, reserved: Reserved) -> MachineMemory:
    """What there is before anybody has any. Raises ValueError where more is reserved than there is."""
    return {
        node.id: NodeMemory(tables=_tables(node, reserved.get(node.id, {})), group=(node.id,)) for node in machine.nodes
    }


def taken(machine: MachineMemory, block: Block, size: int) -> dict[int, NodeMemory]:
    """The machine with a block on it of which `size` bytes are not somebody's already: from the first nodes first."""
    result = dict(machine)
    for each in block.nodes:
        node = result[each]
        table = node.table(block.type)
        much = min(table.free, size)
        size -= much
        result[each] = NodeMemory(
            assignments=node.assignments + 1,
            tables={**node.tables, block.type: _moved(table, much)} if much else node.tables,
            group=block.nodes,
        )
    return result


def _given_back(machine: MachineMemory, block: Block) -> dict[int, NodeMemory]:
    result, size = dict(machine), block.size
    for each in block.nodes:
        node = result[each]
        table = node.table(block.type)
        much = min(table.reserved, size)
        size -= much
        result[each] = NodeMemory(
            assignments=node.assignments - 1,
            tables={**node.tables, block.type: _moved(table, -much)} if much else node.tables,
            group=node.group if node.assignments != 1 else (each,),
        )
    return result


def _moved(table: MemoryTable, much: int) -> MemoryTable:
    return MemoryTable(
        total=table.total,
        system_reserved=table.system_reserved,
        allocatable=table.allocatable,
        reserved=table.reserved + much,
        free=table.free - much,
    )


def hugepage_resource(size: int) -> str:
    """`hugepages-2Mi`"""
    return f"{HUGEPAGES_PREFIX}{Quantity.of(size, 'BinarySI')}"


def memory_state_fault(state: MemoryState, machine: MachineMemory) -> str:
    """Why a state that was written down cannot be right on this machine, in upstream's words; empty: it can."""
    if not state.machine:
        return "[memorymanager] machine state can not be empty when it has memory assignments" if state.assigned else ""
    expected = dict(machine)
    for uid, container, blocks in state:
        for block in blocks:
            told = f"[memorymanager] (pod: {uid}, container: {container}) the memory assignment uses"
            if not all(node in expected for node in block.nodes):
                return f"{told} the NUMA that does not exist"
            if not all(block.type in expected[node].tables for node in block.nodes):
                return f"{told} memory resource that does not exist"
            expected = taken(expected, block, block.size)
    if not _are_equal(state.machine, expected):
        return "[memorymanager] the expected machine state is different from the real one"
    return ""


def _are_equal(told: MachineMemory, expected: MachineMemory) -> bool:
    """Nodes of a group are compared together: in which order they were filled is forgotten."""
    return told.keys() == expected.keys() and all(_is_equal(node, told, expected) for node in told)


def _is_equal(node: int, told: MachineMemory, expected: MachineMemory) -> bool:
    one, other = told[node], expected[node]
    if (one.assignments, sorted(one.group)) != (other.assignments, sorted(other.group)):
        return False
    if one.tables.keys() != other.tables.keys() or not told.keys() >= set(one.group):
        return False
    return all(
        _fixed(table) == _fixed(other.tables[resource])
        and _together(told, one.group, resource) == _together(expected, one.group, resource)
        for resource, table in one.tables.items()
    )


def _fixed(table: MemoryTable) -> tuple[int, int, int]:
    return table.total, table.system_reserved, table.allocatable


def _together(machine: MachineMemory, nodes: tuple[int, ...], resource: str) -> tuple[int, int]:
    tables = [machine[node].table(resource) for node in nodes]
    return sum(table.free for table in tables), sum(table.reserved for table in tables)


def _tables(node: NumaNode, reserved: Mapping[str, int]) -> dict[str, MemoryTable]:
    tables = {
        hugepage_resource(size): _table(count * size, 0, reserved, hugepage_resource(size), node.id)
        for size, count in node.hugepages.items()
    }
    in_pages = sum(table.total for table in tables.values())
    return {MEMORY: _table(node.memory, in_pages, reserved, MEMORY, node.id), **tables}


def _table(total: int, used: int, reserved: Mapping[str, int], resource: str, node: int) -> MemoryTable:
    kept = reserved.get(resource, 0)
    allocatable = total - used - kept
    if allocatable < 0:
        raise ValueError(
            f"reservedMemory: {kept} bytes of {resource} are more than the {total - used} that NUMA node {node} has"
        )
    return MemoryTable(total=total, system_reserved=kept, allocatable=allocatable, free=allocatable)

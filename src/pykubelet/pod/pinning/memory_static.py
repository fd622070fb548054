"""The Static memory policy: containers of guaranteed pods have their memory on as few NUMA nodes as can be.

A NUMA node holds either memory of those that need it alone, or of those that need it together with the same others.
"""

from collections.abc import Iterable, Mapping, Sequence

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.resources import HUGEPAGES_PREFIX, MEMORY, is_sidecar, total
from pykubelet.api.struct import changed
from pykubelet.pod.pinning.allocation_errors import AllocationError
from pykubelet.pod.pinning.container_demand import Demand, exclusive_memory, pod_exclusive_memory
from pykubelet.pod.pinning.machine_topology import MachineTopology
from pykubelet.pod.pinning.memory_state import (
    Block,
    MachineMemory,
    MemoryState,
    Reserved,
    memory_state_fault,
    taken,
    untouched,
)
from pykubelet.pod.pinning.pinning_counts import PinningCounts
from pykubelet.pod.pinning.topology_hints import Hint, Hints, Mask, mask_of, masks, nodes_in


class StaticMemory:
    """A HintProvider. Raises ValueError for a reservation that cannot be on this machine."""

    def __init__(self, machine: MachineTopology, reserved: Reserved, *, counts: PinningCounts | None = None) -> None:
        if not sum(kinds.get(MEMORY, 0) for kinds in reserved.values()):
            raise ValueError("[memorymanager] you should specify the system reserved memory")
        self._untouched = untouched(machine, reserved)
        self._counts = counts or PinningCounts()
        self.state = MemoryState(machine=self._untouched)
        self._reusable: tuple[str, dict[tuple[Mask, str], int]] = ("", {})
        """What init containers of a pod have had, by its uid. A pod is admitted in one go, so one is enough."""

    def restore(self, state: MemoryState) -> None:
        """Go on from what was written down. Raises ValueError when that cannot be right here."""
        if fault := memory_state_fault(state, self._untouched):
            raise ValueError(fault)
        self.state = state if state.machine else MemoryState(machine=self._untouched)

    def nodes_of(self, uid: str, container: str) -> list[int]:
        """The NUMA nodes of a container's memory; empty: any."""
        return sorted({node for block in self.state.of(uid, container) or () for node in block.nodes})

    def release(self, uid: str, container: str) -> None:
        """Harmless for one that has nothing."""
        self.state = self.state.released(uid, container)

    # --- as a hint provider

    def hints(self, pod: Pod, container: Container) -> Hints:
        wanted = exclusive_memory(pod, container)
        own = self.state.of(pod.metadata.uid, container.name)
        return self._hints(pod, wanted) if own is None else _hints_again(own, wanted)

    def pod_hints(self, pod: Pod) -> Hints:
        wanted = pod_exclusive_memory(pod)
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            own = self.state.of(pod.metadata.uid, container.name)
            if own is not None:
                return _hints_again(own, wanted)
        return self._hints(pod, wanted)

    def allocate(self, pod: Pod, container: Container, hint: Hint) -> None:
        wanted = exclusive_memory(pod, container)
        if not wanted:
            return
        self._counts.memory_requests += 1
        own = self.state.of(pod.metadata.uid, container.name)
        if own is not None:
            self._note_reusable(pod, container, own)
            return
        try:
            affinity = self._affinity(pod, wanted, hint)
        except AllocationError:
            self._counts.memory_errors += 1
            raise
        self._take(pod, container, wanted, affinity)

    # --- inside

    def _affinity(self, pod: Pod, wanted: Demand, hint: Hint) -> Mask:
        machine = self.state.machine
        best = hint
        if best.affinity is None:
            found = self._hints(pod, wanted)
            if not found:
                raise AllocationError(
                    "[memorymanager] failed to get the default NUMA affinity, "
                    "no NUMA nodes with enough memory is available"
                )
            best = _best(found.get(MEMORY) or ())
            if hint.preferred and not best.preferred:
                raise AllocationError("[memorymanager] failed to find the default preferred hint")
        assert best.affinity is not None
        if not _has_room(machine, best.affinity, wanted):
            inside = best.affinity
            wider = [
                each for each in self._hints(pod, wanted).get(MEMORY) or () if (each.affinity or 0) & inside == inside
            ]
            if not wider:
                raise AllocationError("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
            extended = _best(wider)
            if best.preferred and not extended.preferred:
                raise AllocationError("[memorymanager] failed to find the extended preferred hint")
            best = extended
        assert best.affinity is not None
        nodes = nodes_in(best.affinity)
        if len(nodes) > 1 and _is_parted(machine, nodes):
            raise AllocationError("[memorymanager] preferred hint violates NUMA node allocation")
        return best.affinity

    def _take(self, pod: Pod, container: Container, wanted: Demand, affinity: Mask) -> None:
        nodes, machine = tuple(nodes_in(affinity)), self.state.machine
        blocks = tuple(Block(nodes=nodes, type=name, size=size) for name, size in wanted.items())
        for block in blocks:
            machine = taken(machine, block, max(block.size - self._reusable_by(pod, affinity, block.type), 0))
        self._note_reusable(pod, container, blocks)
        uid = pod.metadata.uid
        self.state = changed(self.state, machine=machine).with_blocks(uid, container.name, blocks)
        self._shrink_init_containers(pod, container, blocks)

    def _reusable_by(self, pod: Pod, affinity: Mask, resource: str) -> int:
        uid, sizes = self._reusable
        return sizes.get((affinity, resource), 0) if uid == pod.metadata.uid else 0

    def _note_reusable(self, pod: Pod, container: Container, blocks: Iterable[Block]) -> None:
        uid = pod.metadata.uid
        sizes = dict(self._reusable[1]) if self._reusable[0] == uid else {}
        is_init = any(each.name == container.name and not is_sidecar(each) for each in pod.spec.init_containers)
        for block in blocks:
            key = mask_of(block.nodes), block.type
            before = sizes.get(key, 0)
            sizes[key] = max(before, block.size) if is_init else max(before - block.size, 0)
        self._reusable = uid, sizes

    def _shrink_init_containers(self, pod: Pod, container: Container, blocks: Iterable[Block]) -> None:
        """What was used again is counted once: with the one that has it now."""
        earlier: list[str] = []
        for each in pod.spec.init_containers:
            if each.name == container.name:
                break
            if not is_sidecar(each):
                earlier.append(each.name)
        for block in blocks:
            size = block.size
            for name in earlier:
                kept = []
                for before in self.state.of(pod.metadata.uid, name) or ():
                    is_same = before.type == block.type and set(before.nodes) == set(block.nodes)
                    reused = min(before.size, size) if is_same else 0
                    size -= reused
                    kept.append(changed(before, size=before.size - reused))
                if kept:
                    self.state = self.state.with_blocks(pod.metadata.uid, name, tuple(kept))

    def _hints(self, pod: Pod, wanted: Demand) -> Mapping[str, Sequence[Hint]]:
        """Every set of NUMA nodes with enough free memory of all kinds, in which no node is used otherwise; preferred
        are those with no node more than the request would need on an empty machine."""
        machine = self.state.machine
        if not wanted:
            return {}
        fewest, found = len(machine), []
        for mask in masks(sorted(machine)):
            nodes = nodes_in(mask)
            tables = {name: [machine[node].table(name) for node in nodes] for name in wanted}
            if any(sum(table.allocatable for table in tables[name]) < size for name, size in wanted.items()):
                continue
            fewest = min(fewest, len(nodes))
            if len(machine[nodes[0]].group) > 1 if len(nodes) == 1 else _is_parted(machine, nodes):
                continue
            if all(
                sum(table.free for table in tables[name]) + self._reusable_by(pod, mask, name) >= size
                for name, size in wanted.items()
            ):
                found.append(mask)
        hints = [Hint(mask, mask.bit_count() == fewest) for mask in found]
        return dict.fromkeys(wanted, hints) if hints else {}


def _is_parted(machine: MachineMemory, nodes: Sequence[int]) -> bool:
    """Whether one of several NUMA nodes is used alone already, or with others."""
    return any(machine[node].assignments > 0 and sorted(machine[node].group) != sorted(nodes) for node in nodes)


def _has_room(machine: MachineMemory, mask: Mask, wanted: Demand) -> bool:
    nodes = nodes_in(mask)
    return all(sum(machine[node].table(name).free for node in nodes) >= size for name, size in wanted.items())


def _best(hints: Sequence[Hint]) -> Hint:
    """The preferred one with the fewest NUMA nodes."""
    return min(hints, key=lambda hint: (not hint.preferred, (hint.affinity or 0).bit_count(), hint.affinity or 0))


def _hints_again(blocks: Sequence[Block], wanted: Demand) -> Hints:
    """For what was handed out before. Where it is not what is wanted now there is no preference."""
    if len(blocks) != len(wanted) or any(wanted.get(block.type) != block.size for block in blocks):
        return {}
    return {block.type: [Hint(mask_of(block.nodes), True)] for block in blocks}


def reserved_memory(
    machine: MachineTopology, by_node: Mapping[int, ResourceList], reservation: ResourceList
) -> Reserved:
    """What each NUMA node keeps for the system: together it has to be what the node keeps as a whole, which is
    kubeReserved, systemReserved and the hard threshold of eviction. Raises ValueError in upstream's words."""
    for node in by_node:
        if node not in machine.numa_ids:
            raise ValueError(
                f"the reserved memory configuration references a NUMA node {node} that does not exist on this machine"
            )
    together = total(by_node.values())
    as_whole = {name: much for name, much in reservation.items() if name == MEMORY or name.startswith(HUGEPAGES_PREFIX)}
    for name in sorted({*together, *as_whole}):
        given, needed = together.get(name, Quantity(0)), as_whole.get(name, Quantity(0))
        if given != needed:
            raise ValueError(
                f'the total amount "{given}" of type "{name}" is not equal to the value "{needed}" '
                "determined by Node Allocatable feature; reservedMemory has to add up to kubeReserved, systemReserved "
                "and evictionHard together"
            )
    return {node: {name: much.value for name, much in kinds.items()} for node, kinds in by_node.items()}

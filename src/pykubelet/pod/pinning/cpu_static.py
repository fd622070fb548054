"""The static CPU policy: containers of guaranteed pods that ask for whole processors have them for themselves.

Everybody else runs on the shared ones, which shrink and grow. The reserved ones are among the shared, and never handed
out: the agent, the system and the pods that ask for nothing always have somewhere to run.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import CPU, is_sidecar
from pykubelet.pod.pinning.allocation_errors import AllocationError, SmtAlignmentError
from pykubelet.pod.pinning.container_demand import exclusive_cpus, pod_exclusive_cpus
from pykubelet.pod.pinning.cpu_assignment import NotEnoughCpus, packed_cpus
from pykubelet.pod.pinning.cpu_distribution import distributed_cpus
from pykubelet.pod.pinning.cpu_set import NO_CPUS, CpuSet, format_cpu_set
from pykubelet.pod.pinning.cpu_state import CpuState, cpu_state_fault
from pykubelet.pod.pinning.machine_topology import CpuTopology
from pykubelet.pod.pinning.pinning_counts import PinningCounts
from pykubelet.pod.pinning.policy_options import NO_CPU_OPTIONS, CpuOptions
from pykubelet.pod.pinning.topology_hints import Hint, Hints, Mask, masks, nodes_in

_UNFULFILLABLE: Final[Hints] = {CPU: ()}
_PHYSICAL: Final = ("container", "physical_cpu")
_UNCORE: Final = ("container", "uncore_cache")


class StaticCpus:
    """A HintProvider. `reserved` are the processors that are kept for the system, or how many of them, to be chosen
    here. Raises ValueError for what cannot be on this machine, in upstream's words."""

    def __init__(
        self,
        topology: CpuTopology,
        reserved: CpuSet | int,
        options: CpuOptions = NO_CPU_OPTIONS,
        *,
        counts: PinningCounts | None = None,
    ) -> None:
        self._topology = topology
        self._options = options
        self._counts = counts or PinningCounts()
        self.reserved = self._reserved(reserved)
        cores = topology.around("core", self.reserved)
        self._reserved_cores = topology.within("core", *cores)
        self.state = CpuState(shared=self.cpus)
        for boundary in (_PHYSICAL, _UNCORE):  # series that nobody has counted yet are there all the same
            self._counts.aligned[boundary] += 0
        self._counts.failed[_PHYSICAL] += 0
        self._reusable: tuple[str, CpuSet] = ("", NO_CPUS)
        """What init containers of a pod have had, by its uid. A pod is admitted in one go, so one is enough."""

    @property
    def cpus(self) -> CpuSet:
        """All that is shared when nobody has any."""
        return self._topology.cpus - (self.reserved if self._options.strict_reservation else NO_CPUS)

    @property
    def allocatable(self) -> CpuSet:
        return self._topology.cpus - self.reserved

    def restore(self, state: CpuState) -> None:
        """Go on from what was written down. Raises ValueError when that cannot be right here."""
        fault = cpu_state_fault(state, self._topology.cpus, self.reserved, strict=self._options.strict_reservation)
        if fault:
            raise ValueError(fault)
        self.state = state if state.assigned or state.shared else CpuState(shared=self.cpus)

    def cpus_of(self, uid: str, container: str) -> CpuSet:
        """Where a container may run."""
        own = self.state.of(uid, container)
        return self.state.shared if own is None else own

    def release(self, uid: str, container: str) -> None:
        """Harmless for one that has nothing."""
        self.state = self.state.released(uid, container)

    @property
    def available(self) -> int:
        """How many can still be handed out."""
        return len(self._available)

    @property
    def exclusive_by_numa(self) -> Mapping[int, int]:
        """How many are handed out of each NUMA node that any are handed out of."""
        return Counter(self._topology.places[cpu].numa for cpu in self.state.exclusive)

    # --- as a hint provider

    def hints(self, pod: Pod, container: Container) -> Hints:
        wanted = exclusive_cpus(pod, container)
        if not wanted:
            return {}
        own = self.state.of(pod.metadata.uid, container.name)
        if own is not None:
            return {CPU: self._hints(own, NO_CPUS, wanted)} if len(own) == wanted else _UNFULFILLABLE
        return {CPU: self._hints(self._available, self._reusable_by(pod), wanted)}

    def pod_hints(self, pod: Pod) -> Hints:
        wanted = pod_exclusive_cpus(pod)
        if not wanted:
            return {}
        uid, assigned = pod.metadata.uid, NO_CPUS
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            own = self.state.of(uid, container.name)
            if own is not None and len(own) != exclusive_cpus(pod, container):
                return _UNFULFILLABLE
            assigned |= own or NO_CPUS
        if len(assigned) == wanted:
            return {CPU: self._hints(assigned, NO_CPUS, wanted)}
        return {CPU: self._hints(self._available, self._reusable_by(pod) | assigned, wanted)}

    def allocate(self, pod: Pod, container: Container, hint: Hint) -> None:
        wanted = exclusive_cpus(pod, container)
        if not wanted:
            return
        self._counts.cpu_requests += 1
        is_whole = self._options.full_cores_only
        try:
            self._allocate(pod, container, wanted, hint.affinity)
        except AllocationError:
            self._counts.cpu_errors += 1
            if is_whole:
                self._counts.failed[_PHYSICAL] += 1
            raise
        if is_whole:
            self._counts.aligned[_PHYSICAL] += 1

    # --- inside

    @property
    def _available(self) -> CpuSet:
        return self.state.shared - self.reserved

    def _reserved(self, reserved: CpuSet | int) -> CpuSet:
        if not isinstance(reserved, int):
            if unknown := reserved - self._topology.cpus:
                raise ValueError(
                    "[cpumanager] unable to build the reserved physical CPUs from the reserved set: "
                    f"unknown CPU ID: {min(unknown)}"
                )
            return reserved
        try:
            return self._taken_of(self._topology.cpus, reserved)
        except NotEnoughCpus:
            raise ValueError(
                "[cpumanager] unable to reserve the required amount of CPUs "
                f"(size of {format_cpu_set(NO_CPUS)} did not equal {reserved})"
            ) from None

    def _taken_of(self, available: CpuSet, count: int) -> CpuSet:
        options = self._options
        if options.across_numa:
            group = self._topology.cpus_per_core if options.full_cores_only else 1
            return distributed_cpus(self._topology, available, count, group=group, spread=options.across_cores)
        by_uncore = options.by_uncore_cache
        return packed_cpus(self._topology, available, count, spread=options.across_cores, by_uncore_cache=by_uncore)

    def _allocate(self, pod: Pod, container: Container, wanted: int, affinity: Mask | None) -> None:
        if self._options.full_cores_only:
            threads, available = self._topology.cpus_per_core, len(self.state.shared - self._reserved_cores)
            if wanted % threads:
                raise SmtAlignmentError(wanted, threads)
            if wanted > available:
                raise SmtAlignmentError(wanted, threads, available)
        uid, own = pod.metadata.uid, self.state.of(pod.metadata.uid, container.name)
        if own is None:
            own = self._chosen(wanted, affinity, self._reusable_by(pod))
            self.state = self.state.taken(uid, container.name, own)
            if len(self._topology.around("uncore", own)) <= 1:
                self._counts.aligned[_UNCORE] += 1
        reusable = self._reusable_by(pod)
        is_init = any(each.name == container.name and not is_sidecar(each) for each in pod.spec.init_containers)
        self._reusable = uid, (reusable | own if is_init else reusable - own)

    def _chosen(self, wanted: int, affinity: Mask | None, reusable: CpuSet) -> CpuSet:
        free, chosen = self._available | reusable, NO_CPUS
        try:
            if affinity is not None:
                near = free & self._near(affinity)
                chosen = self._taken_of(near, min(wanted, len(near)))
            return chosen | self._taken_of(free - chosen, wanted - len(chosen))
        except NotEnoughCpus as error:
            raise AllocationError(str(error)) from None

    def _near(self, affinity: Mask) -> CpuSet:
        nodes = nodes_in(affinity)
        if not self._options.align_by_socket:
            return self._topology.within("numa", *nodes)
        return self._topology.within("socket", *self._sockets_of(nodes))

    def _sockets_of(self, nodes: list[int]) -> set[int]:
        return self._topology.around("socket", self._topology.within("numa", *nodes))

    def _reusable_by(self, pod: Pod) -> CpuSet:
        uid, cpus = self._reusable
        return cpus if uid == pod.metadata.uid else NO_CPUS

    def _hints(self, available: CpuSet, reusable: CpuSet, wanted: int) -> list[Hint]:
        """Every set of NUMA nodes with enough free processors; preferred are those with no node more than the request
        would need on an empty machine."""
        nodes = self._topology.ids("numa")
        size = {node: len(self._topology.within("numa", node)) for node in nodes}
        free = {node: len(self._topology.within("numa", node) & available) for node in nodes}
        held: Mapping[int, int] = {node: len(self._topology.within("numa", node) & reusable) for node in nodes}
        fewest, found = len(nodes), []
        for mask in masks(nodes):
            inside = nodes_in(mask)
            if sum(size[node] for node in inside) >= wanted:
                fewest = min(fewest, len(inside))
            reused = sum(held[node] for node in inside)
            if reused == len(reusable) and reused + sum(free[node] for node in inside) >= wanted:
                found.append(mask)
        return [Hint(mask, self._is_preferred(mask, fewest)) for mask in found]

    def _is_preferred(self, mask: Mask, fewest: int) -> bool:
        if mask.bit_count() == fewest:
            return True
        if not self._options.align_by_socket:
            return False
        per_socket = len(self._topology.ids("numa")) // len(self._topology.ids("socket"))
        return bool(per_socket) and len(self._sockets_of(nodes_in(mask))) == -(-fewest // per_socket)

"""Processors and memory of single containers, wired: this machine, what is reserved of it, and the state files."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Final, TypeVar

from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.resources import CPU, total
from pykubelet.app.foundations import Foundations
from pykubelet.base.errors import Invalid, Retry
from pykubelet.host.machine_topology import read_machine_topology
from pykubelet.host.state_files import StateFiles
from pykubelet.node.pinning import Pinning, PinningParts
from pykubelet.pod.node.allocatable import kept_free
from pykubelet.pod.node.node_object import node_capacity
from pykubelet.pod.pinning.cpu_set import NO_CPUS
from pykubelet.pod.pinning.cpu_state import CpuState
from pykubelet.pod.pinning.cpu_static import StaticCpus
from pykubelet.pod.pinning.machine_topology import CpuTopology, MachineTopology
from pykubelet.pod.pinning.memory_state import MemoryState, Reserved
from pykubelet.pod.pinning.memory_static import StaticMemory, reserved_memory
from pykubelet.pod.pinning.state_files import (
    CPU_STATE_FILE,
    MEMORY_STATE_FILE,
    cpu_state_file,
    memory_state_file,
    read_cpu_state,
    read_memory_state,
    unusable,
)
from pykubelet.pod.pinning.topology_policies import Topology

ADMISSION_DURATION: Final = "kubelet_topology_manager_admission_duration_ms"

S = TypeVar("S", CpuState, MemoryState)
Sampled = Callable[[], Mapping[tuple[str, ...], float]]


def pinning_parts(base: Foundations) -> PinningParts:
    """From where an earlier agent was. Raises Invalid for what cannot be on this machine, and for state files that
    cannot be used: they are left as they are."""
    settings = base.config.pinning
    is_used = (settings.cpu_policy, settings.memory_policy, settings.topology_policy) != ("none", "None", "none")
    machine = read_machine_topology() if is_used else MachineTopology()
    try:
        Topology(machine, settings.topology_policy, settings.topology_scope, settings.topology_options)
    except ValueError as error:
        raise Invalid(f"topologyManagerPolicy: {error}") from None
    reserved = _reserved_memory(base, machine) if settings.memory_policy == "Static" else {}
    cpus = _static_cpus(base, machine) if settings.cpu_policy == "static" else None
    memory = _static_memory(machine, reserved) if settings.memory_policy == "Static" else None
    files = StateFiles(base.config.root_dir)
    _restore(files, CPU_STATE_FILE, "CPU", settings.cpu_policy, read_cpu_state, cpus)
    _restore(files, MEMORY_STATE_FILE, "memory", settings.memory_policy, read_memory_state, memory)
    _put(files, CPU_STATE_FILE, cpu_state_file(settings.cpu_policy, cpus.state if cpus else CpuState()))
    _put(files, MEMORY_STATE_FILE, memory_state_file(settings.memory_policy, memory.state if memory else MemoryState()))
    return PinningParts(
        store=files,
        settings=settings,
        machine=machine,
        reserved_cpus=cpus.reserved if cpus else NO_CPUS,
        reserved_memory=reserved,
        cpus=cpus.state if cpus else None,
        memory=memory.state if memory else None,
    )


def _static_cpus(base: Foundations, machine: MachineTopology) -> StaticCpus:
    settings, topology = base.config.pinning, CpuTopology(machine)
    if settings.cpu_options.align_by_socket and len(topology.ids("socket")) > len(machine.nodes):
        raise Invalid(
            "cpuManagerPolicyOptions: Align by socket is not compatible with hardware where number of sockets are more "
            "than number of NUMA"
        )
    reserved = ceil(base.config.node.reserved.get(CPU, Quantity(0)).milli / 1000)
    try:
        return StaticCpus(topology, settings.reserved_cpus or reserved, settings.cpu_options)
    except ValueError as error:
        raise Invalid(f"cpuManagerPolicy: new static policy error: {error}") from None


def _reserved_memory(base: Foundations, machine: MachineTopology) -> Reserved:
    node = base.config.node
    kept = total((node.reserved, kept_free(node.thresholds, node_capacity(base.facts, node))))
    try:
        return reserved_memory(machine, base.config.pinning.reserved_memory, kept)
    except ValueError as error:
        raise Invalid(f"memoryManagerPolicy: {error}") from None


def _static_memory(machine: MachineTopology, reserved: Reserved) -> StaticMemory:
    try:
        return StaticMemory(machine, reserved)
    except ValueError as error:
        raise Invalid(f"memoryManagerPolicy: {error}") from None


def _restore(
    files: StateFiles,
    name: str,
    kind: str,
    policy: str,
    read: Callable[[str, bytes], S],
    provider: StaticCpus | StaticMemory | None,
) -> None:
    content = files.read(name)
    if content is None:
        return
    try:
        state = read(policy, content)
        match provider, state:
            case StaticCpus(), CpuState():
                provider.restore(state)
            case StaticMemory(), MemoryState():
                provider.restore(state)
    except ValueError as error:
        raise Invalid(unusable(kind, error, str(files.path(name)))) from None


def _put(files: StateFiles, name: str, content: bytes) -> None:
    try:
        if files.read(name) != content:
            files.put(name, content)
    except Retry as error:
        raise Invalid(str(error)) from None


def pinning_gauges(pinning: Callable[[], Pinning | None], admitted: Callable[[float], None]) -> dict[str, Sampled]:
    """What is measured of it, by upstream's names; `admitted` is told how many milliseconds each admission took."""

    def one(value: Callable[[Pinning], float]) -> Sampled:
        return lambda: {(): value(now) if (now := pinning()) is not None else 0.0}

    def many(value: Callable[[Pinning], Mapping[tuple[str, ...], float]]) -> Sampled:
        return lambda: value(now) if (now := pinning()) is not None else {}

    def admissions(now: Pinning) -> float:
        while now.counts.durations:
            admitted(now.counts.durations.popleft())
        return now.counts.admissions

    return {
        "kubelet_cpu_manager_pinning_requests_total": one(lambda now: now.counts.cpu_requests),
        "kubelet_cpu_manager_pinning_errors_total": one(lambda now: now.counts.cpu_errors),
        "kubelet_cpu_manager_shared_pool_size_millicores": one(lambda now: now.shared_cpus * 1000),
        "kubelet_cpu_manager_exclusive_cpu_allocation_count": one(lambda now: sum(now.exclusive_by_numa.values())),
        "kubelet_cpu_manager_allocation_per_numa": many(
            lambda now: {(str(node),): count for node, count in now.exclusive_by_numa.items()}
        ),
        "kubelet_memory_manager_pinning_requests_total": one(lambda now: now.counts.memory_requests),
        "kubelet_memory_manager_pinning_errors_total": one(lambda now: now.counts.memory_errors),
        "kubelet_topology_manager_admission_requests_total": one(admissions),
        "kubelet_topology_manager_admission_errors_total": one(lambda now: now.counts.refusals),
        "kubelet_container_aligned_compute_resources_count": many(
            lambda now: {(*each,): count for each, count in now.counts.aligned.items()}
        ),
        "kubelet_container_aligned_compute_resources_failure_count": many(
            lambda now: {(*each,): count for each, count in now.counts.failed.items()}
        ),
    }

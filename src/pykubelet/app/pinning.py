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
from pykubelet.node.pinning import Pinning
from pykubelet.pod.node.allocatable import kept_free
from pykubelet.pod.node.node_object import node_capacity
from pykubelet.pod.pinning.cpu_state import CpuState
from pykubelet.pod.pinning.cpu_static import StaticCpus
from pykubelet.pod.pinning.machine_topology import CpuTopology, MachineTopology
from pykubelet.pod.pinning.memory_state import MemoryState
from pykubelet.pod.pinning.memory_static import StaticMemory, reserved_memory
from pykubelet.pod.pinning.pinning_counts import PinningCounts
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


def make_pinning(base: Foundations) -> Pinning:
    """Gone on from where an earlier agent was. Raises Invalid for what cannot be on this machine, and for state files
    that cannot be used: they are left as they are."""
    settings, counts = base.config.pinning, PinningCounts()
    is_used = (settings.cpu_policy, settings.memory_policy, settings.topology_policy) != ("none", "None", "none")
    machine = read_machine_topology() if is_used else MachineTopology()
    try:
        topology = Topology(machine, settings.topology_policy, settings.topology_scope, settings.topology_options)
    except ValueError as error:
        raise Invalid(f"topologyManagerPolicy: {error}") from None
    cpus = _static_cpus(base, machine, counts) if settings.cpu_policy == "static" else None
    memory = _static_memory(base, machine, counts) if settings.memory_policy == "Static" else None
    files = StateFiles(base.config.root_dir)
    _restore(files, CPU_STATE_FILE, "CPU", settings.cpu_policy, read_cpu_state, cpus)
    _restore(files, MEMORY_STATE_FILE, "memory", settings.memory_policy, read_memory_state, memory)
    _put(files, CPU_STATE_FILE, cpu_state_file(settings.cpu_policy, cpus.state if cpus else CpuState()))
    _put(files, MEMORY_STATE_FILE, memory_state_file(settings.memory_policy, memory.state if memory else MemoryState()))
    return Pinning(
        topology,
        cpus,
        memory,
        runtime=base.runtime,
        store=files,
        counts=counts,
        period=settings.reconcile_period,
        unlimited_quota=settings.unlimited_quota,
    )


def _static_cpus(base: Foundations, machine: MachineTopology, counts: PinningCounts) -> StaticCpus:
    settings, topology = base.config.pinning, CpuTopology(machine)
    if settings.cpu_options.align_by_socket and len(topology.ids("socket")) > len(machine.nodes):
        raise Invalid(
            "cpuManagerPolicyOptions: Align by socket is not compatible with hardware where number of sockets are more "
            "than number of NUMA"
        )
    reserved = ceil(base.config.node.reserved.get(CPU, Quantity(0)).milli / 1000)
    try:
        return StaticCpus(topology, settings.reserved_cpus or reserved, settings.cpu_options, counts=counts)
    except ValueError as error:
        raise Invalid(f"cpuManagerPolicy: new static policy error: {error}") from None


def _static_memory(base: Foundations, machine: MachineTopology, counts: PinningCounts) -> StaticMemory:
    node = base.config.node
    kept = total((node.reserved, kept_free(node.thresholds, node_capacity(base.facts, node))))
    try:
        return StaticMemory(machine, reserved_memory(machine, base.config.pinning.reserved_memory, kept), counts=counts)
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


def pinning_gauges(pinning: Pinning) -> dict[str, Sampled]:
    """What is measured of it, by upstream's names."""
    counts = pinning.counts

    def one(value: Callable[[], float]) -> Sampled:
        return lambda: {(): value()}

    return {
        "kubelet_cpu_manager_pinning_requests_total": one(lambda: counts.cpu_requests),
        "kubelet_cpu_manager_pinning_errors_total": one(lambda: counts.cpu_errors),
        "kubelet_cpu_manager_shared_pool_size_millicores": one(lambda: pinning.shared_cpus * 1000),
        "kubelet_cpu_manager_exclusive_cpu_allocation_count": one(lambda: sum(pinning.exclusive_by_numa.values())),
        "kubelet_cpu_manager_allocation_per_numa": lambda: {
            (str(node),): count for node, count in pinning.exclusive_by_numa.items()
        },
        "kubelet_memory_manager_pinning_requests_total": one(lambda: counts.memory_requests),
        "kubelet_memory_manager_pinning_errors_total": one(lambda: counts.memory_errors),
        "kubelet_topology_manager_admission_requests_total": one(lambda: counts.admissions),
        "kubelet_topology_manager_admission_errors_total": one(lambda: counts.refusals),
        "kubelet_container_aligned_compute_resources_count": lambda: {
            (*each,): n for each, n in counts.aligned.items()
        },
        "kubelet_container_aligned_compute_resources_failure_count": lambda: {
            (*each,): n for each, n in counts.failed.items()
        },
    }

"""Keeping containers to their processors and their memory: handed out at admission, told to the runtime, written down.

Who has no processors of its own runs on the shared ones, and moves when these change. With the policies none there is
nothing to do, and nothing is done.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from time import perf_counter
from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.pod.admission.admission import Rejected
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.pinning.allocation_errors import AllocationError
from pykubelet.pod.pinning.cpu_set import NO_CPUS, CpuSet, format_cpu_set
from pykubelet.pod.pinning.cpu_state import CpuState
from pykubelet.pod.pinning.cpu_static import StaticCpus
from pykubelet.pod.pinning.machine_topology import CpuTopology, MachineTopology
from pykubelet.pod.pinning.memory_state import MemoryState, Reserved
from pykubelet.pod.pinning.memory_static import StaticMemory
from pykubelet.pod.pinning.pinned_limits import pinned_limits
from pykubelet.pod.pinning.pinning_counts import PinningCounts
from pykubelet.pod.pinning.settings import PinningSettings
from pykubelet.pod.pinning.state_files import CPU_STATE_FILE, MEMORY_STATE_FILE, cpu_state_file, memory_state_file
from pykubelet.pod.pinning.topology_hints import Hint, HintProvider, Hints, nodes_in
from pykubelet.pod.pinning.topology_policies import Alignment, Topology
from pykubelet.pod.ports.devices import Devices
from pykubelet.pod.ports.machine import PinningStore
from pykubelet.pod.ports.runtime import Limits, Runtime

log = logging.getLogger(__name__)

_AGAIN: Final = 1.0


class _Told(Struct, frozen=True):
    """Where the runtime was told to keep a container."""

    uid: str
    name: str
    cpus: CpuSet


class PinningParts(Struct, frozen=True, kw_only=True):
    """What it takes, checked: the policies can be made of it on this machine."""

    store: PinningStore
    settings: PinningSettings = PinningSettings()
    machine: MachineTopology = MachineTopology()
    reserved_cpus: CpuSet = NO_CPUS
    reserved_memory: Reserved = {}
    cpus: CpuState | None = None
    """Where an earlier agent was. None: there is no policy."""
    memory: MemoryState | None = None


class DeviceHints:
    """Devices, as far as it matters where they are: which ones a container gets is chosen later, near where it is said
    here."""

    def __init__(self, devices: Devices, machine: MachineTopology) -> None:
        self._devices = devices
        self._nodes = tuple(node.id for node in machine.nodes)

    def hints(self, pod: Pod, container: Container) -> Hints:
        return self._devices.hints(pod, container, self._nodes)

    def pod_hints(self, pod: Pod) -> Hints:
        return self._devices.pod_hints(pod, self._nodes)

    def allocate(self, pod: Pod, container: Container, hint: Hint) -> None:
        nodes = None if hint.affinity is None else tuple(nodes_in(hint.affinity))
        self._devices.keep_to(pod.metadata.uid, container.name, nodes)


class Pinning:
    """`cpus` and `memory` are None for the policies none."""

    def __init__(self, parts: PinningParts, runtime: Runtime, devices: Devices | None = None) -> None:
        settings = parts.settings
        self.counts = counts = PinningCounts()
        self.topology = topology = Topology(
            parts.machine, settings.topology_policy, settings.topology_scope, settings.topology_options
        )
        self.cpus: StaticCpus | None = None
        if parts.cpus is not None:
            found = CpuTopology(parts.machine)
            self.cpus = StaticCpus(found, parts.reserved_cpus, settings.cpu_options, counts=counts)
            self.cpus.restore(parts.cpus)
        self.memory: StaticMemory | None = None
        if parts.memory is not None:
            self.memory = StaticMemory(parts.machine, parts.reserved_memory, counts=counts)
            self.memory.restore(parts.memory)
        near = DeviceHints(devices, parts.machine) if devices is not None and topology.policy != "none" else None
        self._providers: list[HintProvider] = [each for each in (near, self.cpus, self.memory) if each is not None]
        self._runtime = runtime
        self._store = parts.store
        self._period = settings.reconcile_period
        self._unlimited_quota = settings.unlimited_quota
        self._written = self._states
        if topology.policy != "none":  # series that nobody has counted yet are there all the same
            for scope in ("container", "pod"):
                counts.aligned[scope, "numa_node"] += 0
                counts.failed[scope, "numa_node"] += 0
        self._told: dict[str, _Told] = {}
        """By container id."""
        self._failing: dict[str, str] = {}
        """By container id: what was said of it last."""
        self._news = asyncio.Event()

    @property
    def is_active(self) -> bool:
        """Whether there is anything to keep."""
        return bool(self._providers)

    @property
    def shared_cpus(self) -> int:
        """How many could still be handed out."""
        return self.cpus.available if self.cpus is not None else 0

    @property
    def exclusive_by_numa(self) -> Mapping[int, int]:
        """How many are handed out of each NUMA node."""
        return self.cpus.exclusive_by_numa if self.cpus is not None else {}

    # --- deciding, without waiting

    def admit(self, pod: Pod) -> Rejected | None:
        """Hand out what the pod asks for; None: it has it. Of what was handed out before, nothing changes."""
        began, counted = perf_counter(), Alignment()
        self.counts.admissions += 1
        refusal = None
        try:
            self.topology.allocate(pod, self._providers, counted)
        except AllocationError as error:
            self.counts.refusals += self.topology.policy != "none"
            self.release(pod.metadata.uid)
            refusal = Rejected(error.reason, error.message)
        if self.topology.guarantees_alignment:
            boundary = self.topology.scope, "numa_node"
            self.counts.aligned[boundary] += counted.aligned
            self.counts.failed[boundary] += counted.misaligned
        self.counts.durations.append((perf_counter() - began) * 1000)
        self._look_again()
        return refusal

    def release(self, uid: str) -> None:
        """The pod has ended, or does not run here after all."""
        for provider in (self.cpus, self.memory):
            if provider is not None:
                for name in list(provider.state.assigned.get(uid, ())):
                    provider.release(uid, name)
        self._look_again()

    def keep_only(self, uids: Collection[str]) -> None:
        """What pods have that nobody knows any more goes back. Only when all sources have spoken."""
        for provider in (self.cpus, self.memory):
            for uid in [] if provider is None else [uid for uid in provider.state.assigned if uid not in uids]:
                self.release(uid)

    def has_exclusive_cpus(self, uid: str) -> bool:
        """Whether no quota may stop the pod as a whole."""
        return self._unlimited_quota and self.cpus is not None and bool(self.cpus.state.of_pod(uid))

    # --- containers

    async def limits(self, pod: Pod, container: Container, limits: Limits) -> Limits:
        """For a container that is about to be made: what it was given is written down by then. Raises base.errors."""
        if not self._providers:
            return limits
        uid, name = pod.metadata.uid, container.name
        if self.cpus is not None and (why := await self._why_not()):
            raise Invalid(f"containers cannot be kept to processors here: {why}; set cpuManagerPolicy to none")
        await self._save()
        is_own = self.cpus is not None and self.cpus.state.of(uid, name) is not None
        return pinned_limits(
            limits,
            self._cpus_of(uid, name),
            self.memory.nodes_of(uid, name) if self.memory is not None else [],
            unlimited_quota=is_own and self._unlimited_quota,
        )

    def created(self, pod: Pod, container: Container, container_id: str, limits: Limits) -> None:
        """The shared processors may have changed meanwhile."""
        uid, name = pod.metadata.uid, container.name
        if self.cpus is not None:
            now = self._cpus_of(uid, name)
            if limits.cpuset_cpus == format_cpu_set(now):
                self._told[container_id] = _Told(uid, name, now)
            else:
                self._told[container_id] = _Told(uid, name, NO_CPUS)
                self._news.set()

    def started(self, pod: Pod, container: Container) -> None:
        """Init containers that came before it have ended, and need no memory any more."""
        if self.memory is None:
            return
        for each in pod.spec.init_containers:
            if each.name == container.name:
                break
            if not is_sidecar(each):
                self.memory.release(pod.metadata.uid, each.name)
        self._look_again()

    # --- the loop

    async def run(self, seen: Callable[[], Mapping[str, ObservedPod]], known: Callable[[], Collection[str]]) -> None:
        """Until cancelled. `seen` is what the runtime was seen to hold, `known` the uids of the pods that are ours."""
        while True:
            self._news.clear()
            wait = self._period
            try:
                await self._save()
            except Retry as error:
                log.warning("what containers have for themselves cannot be written down: %s", error)
                wait = _AGAIN
            if self.cpus is not None:
                await self._reconcile(seen(), known())
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._news.wait()

    async def _reconcile(self, seen: Mapping[str, ObservedPod], known: Collection[str]) -> None:
        """Move every container that is not where it belongs. One that was just made may not have been seen yet."""
        ours = [(pod.uid, each) for pod in seen.values() if pod.uid in known for each in pod.containers]
        running = {each.id: (uid, each.name) for uid, each in ours if each.state is State.RUNNING}
        ended = {each.id for _, each in ours if each.state is State.EXITED}
        self._told = {each: told for each, told in self._told.items() if told.uid in known and each not in ended}
        for container_id, told in self._told.items():
            running.setdefault(container_id, (told.uid, told.name))
        for container_id, (uid, name) in running.items():
            cpus, before = self._cpus_of(uid, name), self._told.get(container_id)
            if cpus and (before is None or before.cpus != cpus):
                await self._move(container_id, _Told(uid, name, cpus))
        self._failing = {each: said for each, said in self._failing.items() if each in running}

    async def _move(self, container_id: str, to: _Told) -> None:
        try:
            await self._runtime.update_container(container_id, Limits(cpuset_cpus=format_cpu_set(to.cpus)))
        except NotFound:
            self._told.pop(container_id, None)
        except PykubeletError as error:
            if self._failing.get(container_id) != str(error):
                place = format_cpu_set(to.cpus)
                log.warning("container %s of pod %s stays off its processors %s: %s", to.name, to.uid, place, error)
            self._failing[container_id] = str(error)
        else:
            self._told[container_id] = to
            self._failing.pop(container_id, None)

    # --- inside

    @property
    def _states(self) -> tuple[CpuState | None, MemoryState | None]:
        return self.cpus.state if self.cpus else None, self.memory.state if self.memory else None

    def _cpus_of(self, uid: str, container: str) -> CpuSet:
        return self.cpus.cpus_of(uid, container) if self.cpus is not None else NO_CPUS

    async def _why_not(self) -> str:
        """What keeps the runtime from it, if anything."""
        ask = self._runtime.capabilities.updates_containers
        return await ask() if ask is not None else "its runtime cannot move a running container"

    def _look_again(self) -> None:
        if self._states != self._written:
            self._news.set()

    async def _save(self) -> None:
        """Raises Retry. Others may change it meanwhile, and save it, too."""
        while (states := self._states) != self._written:
            cpus, memory = states
            files = {}
            if cpus is not None:
                files[CPU_STATE_FILE] = cpu_state_file("static", cpus)
            if memory is not None:
                files[MEMORY_STATE_FILE] = memory_state_file("Static", memory)
            for name, content in files.items():
                await self._store.write(name, content)
            self._written = states

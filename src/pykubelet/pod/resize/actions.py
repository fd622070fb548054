"""What has to be told to running containers so that each has what its pod was allocated, in upstream's order."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.api.rules.resources import CPU, MEMORY
from pykubelet.api.struct import changed
from pykubelet.pod.container.cgroup import UNLIMITED, pod_limits
from pykubelet.pod.container.container_config import container_limits
from pykubelet.pod.observed import ObservedContainer
from pykubelet.pod.ports.runtime import Limits
from pykubelet.pod.resize.allocation import Allocation, Amounts, amounts_of, peak

Kind = Literal["memory", "cpu"]


class Update(Struct, frozen=True):
    """One running container gets another amount of one resource."""

    container: str
    container_id: str
    kind: Kind
    wanted: Amounts
    current: Amounts


class Resizes(Struct, frozen=True):
    """Memory first; of each the smaller ones before the larger, so that room is made before it is taken."""

    memory: tuple[Update, ...] = ()
    cpu: tuple[Update, ...] = ()
    restarts: bool = False
    """A container restarts to have its new size: the pod's own bounds change with it."""

    @property
    def is_empty(self) -> bool:
        return not (self.memory or self.cpu or self.restarts)

    @property
    def updates(self) -> tuple[Update, ...]:
        return (*self.memory, *self.cpu)


NO_RESIZES: Final = Resizes()


def needs_restart(container: Container, actuated: Allocation | None) -> bool:
    """Whether its new size takes effect only when it starts again. Of a container whose size nobody has written down
    that is not known, so that it is not restarted: it may well have it."""
    told = actuated.get(container.name) if actuated is not None else None
    if told is None:
        return False
    wanted, current = amounts_of(container.resources), amounts_of(told)
    restarts = {each.resource_name for each in container.resize_policy if each.restart_policy == "RestartContainer"}
    cpu = (wanted.cpu_limit, wanted.cpu_request) != (current.cpu_limit, current.cpu_request)
    memory = (wanted.memory_limit, wanted.memory_request) != (current.memory_limit, current.memory_request)
    return (cpu and CPU in restarts) or (memory and MEMORY in restarts)


def with_updates(
    resizes: Resizes, container: Container, seen: ObservedContainer, actuated: Allocation | None
) -> Resizes:
    """And what one more running container has to be told, if it goes on."""
    if actuated is None:
        return resizes
    wanted = amounts_of(container.resources)
    current = amounts_of(actuated.get(container.name, ResourceRequirements()))
    memory, cpu = resizes.memory, resizes.cpu
    for name, ours, theirs in (
        ("memory", (wanted.memory_limit, current.memory_limit), (wanted.memory_request, current.memory_request)),
        ("cpu", (wanted.cpu_limit, current.cpu_limit), (wanted.cpu_request, current.cpu_request)),
    ):
        new, old = ours if ours[0] != ours[1] else theirs
        if new == old:
            continue
        kind: Kind = "memory" if name == "memory" else "cpu"
        update = Update(container.name, seen.id, kind, wanted, current)
        if kind == "memory":
            memory = (*memory, update) if new > old else (update, *memory)
        else:
            cpu = (*cpu, update) if new > old else (update, *cpu)
    return changed(resizes, memory=memory, cpu=cpu)


def told_limits(pod: Pod, container: Container, update: Update) -> Limits:
    """What the runtime is told: of one resource alone, so that the other keeps what it has."""
    limits = container_limits(pod, container, memory_capacity=1)
    if update.kind == "memory":
        return Limits(memory=limits.memory)
    quota = limits.cpu_quota if limits.cpu_quota or not update.current.cpu_limit else UNLIMITED
    return Limits(cpu_shares=limits.cpu_shares, cpu_quota=quota)


def told_resources(container: Container, told: ResourceRequirements | None, kind: Kind) -> ResourceRequirements:
    """What is written down as told, when one resource of two was."""
    before = told or ResourceRequirements()
    wanted = container.resources
    name = MEMORY if kind == "memory" else CPU
    return changed(
        wanted,
        requests=_replaced(wanted.requests, before.requests, name),
        limits=_replaced(wanted.limits, before.limits, name),
    )


def _replaced(wanted: ResourceList, before: ResourceList, name: str) -> ResourceList:
    kept = {each: before[each] for each in (CPU, MEMORY) if each != name and each in before}
    others = {each: much for each, much in wanted.items() if each not in (CPU, MEMORY) or each == name}
    return {**others, **kept}


class MemoryUse(Struct, frozen=True, kw_only=True):
    """Bytes that are in use now. None: nobody counts them."""

    pod: int | None = None
    containers: Mapping[str, int | None] = {}


def falling_limits(pod: Pod, actuated: Allocation, resizes: Resizes) -> tuple[int | None, dict[str, int]]:
    """Bounds on memory that become narrower: the pod's own, None when it does not, and those of containers."""
    if not resizes.memory and not resizes.restarts:
        return None, {}
    before, after = pod_limits(peak(pod, actuated)).memory or UNLIMITED, pod_limits(pod).memory or UNLIMITED
    whole = after if after != UNLIMITED and (before == UNLIMITED or after < before) else None
    falling = {
        each.container: each.wanted.memory_limit
        for each in resizes.memory
        if each.wanted.memory_limit
        and (not each.current.memory_limit or each.wanted.memory_limit < each.current.memory_limit)
    }
    return whole, falling


def memory_refusal(whole: int | None, falling: Mapping[str, int], use: MemoryUse) -> str:
    """Why bounds on memory cannot become that narrow now: the kernel would kill. Empty: they can."""
    faults = []
    if whole is not None:
        if use.pod is None:
            faults.append("missing pod memory usage")
        elif use.pod >= whole:
            faults.append(f"attempting to set pod memory limit ({whole}) below current usage ({use.pod})")
    for name, used in use.containers.items():
        if name not in falling:
            continue
        if used is None:
            faults.append(f'missing container "{name}" memory usage')
        elif used >= falling[name]:
            limit = falling[name]
            faults.append(f'attempting to set container "{name}" memory limit ({limit}) below current usage ({used})')
    if not faults:
        return ""
    return f"cannot decrease memory limits: {faults[0] if len(faults) == 1 else '[' + ', '.join(faults) + ']'}"

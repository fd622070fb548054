"""What pods ask for and run without where the kernel gives no control groups to this user: said for each pod. What the
kernel can bound for single processes is bounded instead."""

import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_sidecar
from pykubelet.pod.container.cgroup import container_hugepages
from pykubelet.pod.ports.runtime import Limits
from pykubelet.runtime.process.abilities import Abilities
from pykubelet.runtime.process.cgroups import HUGE_PAGES, most_processes, remedy

_ROOM: Final = 1 << 30
"""Bytes that a process may have beyond its container's limit. The kernel counts what a program has set aside, used or
not: twenty sleeping threads are 160 MiB, a JVM that says hello is 500."""
_LOWEST_PORT: Final = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_INSTEAD: Final = ", but that no process has 1Gi more,"


def unenforced(pod: Pod, abilities: Abilities) -> tuple[str, ...]:
    """One phrase for each thing."""
    limits = [phrase for name in (MEMORY, CPU) if (phrase := _without_controller(pod, name, abilities))]
    found = [f"{' and '.join(limits)} ({abilities.limits_refusal}; {remedy()})"] if limits else []
    found += [phrase for name in (MEMORY, CPU) if (phrase := _of_the_whole_pod(pod, name))]
    if HUGE_PAGES not in abilities.limits and (names := _with_huge_pages(pod)):
        found.append(f"huge page limits of {', '.join(names)}: there is no controller for {HUGE_PAGES}")
    if not abilities.overlay and (names := _limited(pod, EPHEMERAL_STORAGE)):
        found.append(f"ephemeral-storage limits of {', '.join(names)} on what is written outside of volumes and logs")
    in_memory = [each.name for each in pod.spec.volumes if each.empty_dir and each.empty_dir.medium == "Memory"]
    if in_memory and not abilities.may_change_user:
        found.append(f"the size of volumes in memory ({', '.join(in_memory)}): this user may not mount")
    return tuple(found)


def unavailable_ports(pod: Pod, others: Iterable[Pod], abilities: Abilities | None) -> str:
    """Which ports a pod means to listen on and hardly can, since all pods share this machine's; empty: none."""
    wanted = _ports(pod)
    lowest = 0 if abilities is None or abilities.may_change_user else _lowest_port()
    found = [f"only root may listen on port {number}" for _, number in sorted(wanted) if number < lowest]
    rivals = {
        port: f"{other.metadata.namespace}/{other.metadata.name}"
        for other in others
        if other.metadata.uid != pod.metadata.uid
        for port in _ports(other) & wanted
    }
    found += [
        f"port {number}/{protocol} is wanted by {rivals[protocol, number]}" for protocol, number in sorted(rivals)
    ]
    return f"Pods share this machine's network here: {', '.join(found)}" if found else ""


def _lowest_port() -> int:
    try:
        return int(_LOWEST_PORT.read_text())
    except (OSError, ValueError):
        return 1024


def _ports(pod: Pod) -> set[tuple[str, int]]:
    """Those of containers that stay."""
    lasting = (*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers)
    return {(each.protocol or "TCP", each.container_port) for container in lasting for each in container.ports}


def _without_controller(pod: Pod, name: str, abilities: Abilities) -> str:
    names = _limited(pod, name)
    if name in abilities.limits or not (names or _whole(pod, name)):
        return ""
    return f"{name} limits of {', '.join(names) or 'all containers'}" + (_INSTEAD if name == MEMORY else "")


def _limited(pod: Pod, name: str) -> list[str]:
    spec = pod.spec
    return [each.name for each in (*spec.init_containers, *spec.containers) if each.resources.limits.get(name)]


def _with_huge_pages(pod: Pod) -> list[str]:
    everyone = (*pod.spec.init_containers, *pod.spec.containers)
    return [each.name for each in everyone if any(container_hugepages(pod, each).values())]


def _of_the_whole_pod(pod: Pod, name: str) -> str:
    if not _whole(pod, name) or len(pod.spec.containers) < 2:
        return ""
    return f"the pod's own {name} limit: each container may use all of it"


def _whole(pod: Pod, name: str) -> bool:
    return pod.spec.resources is not None and bool(pod.spec.resources.limits.get(name))


def process_limits(limits: Limits, abilities: Abilities) -> list[tuple[int, int]]:
    """What each process of a container may have, by the kernel's number, where there is no limit for all together."""
    found = {}
    if limits.memory is not None and MEMORY not in abilities.limits:
        found[resource.RLIMIT_DATA] = limits.memory + _ROOM
    if abilities.in_user_namespace and "pids" not in abilities.limits:
        found[resource.RLIMIT_NPROC] = most_processes()  # counted for each user namespace, so for each pod
    return [(kind, _at_most(kind, wanted)) for kind, wanted in found.items()]


def _at_most(kind: int, wanted: int) -> int:
    """Nobody may raise what was lowered for the agent."""
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)

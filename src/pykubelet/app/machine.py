"""The part of the wiring that is about this machine: folders, users, control groups, logs, names."""

import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from pykubelet.api.node import Node
from pykubelet.api.quantity import ResourceList
from pykubelet.api.struct import changed
from pykubelet.app.foundations import Foundations
from pykubelet.base.errors import Invalid
from pykubelet.host.cgroups.groups import KernelPodCgroups, pod_cgroups
from pykubelet.host.cgroups.reserved import enforce_limits
from pykubelet.host.dirs import PodDirs
from pykubelet.host.dns import HostDns
from pykubelet.host.iptables import present_programs
from pykubelet.host.local import LocalHost
from pykubelet.host.logs import PodLogs
from pykubelet.host.threads import in_thread
from pykubelet.host.user_namespaces import UserNamespaces, subordinate_ids
from pykubelet.node.node_allocatable import ENFORCED, FAILED
from pykubelet.pod.container.cgroup import CgroupDriver, named_group, reserved_limits, shown_group
from pykubelet.pod.container.dns import over_limits
from pykubelet.pod.container.user_namespaces import checked_space
from pykubelet.pod.node.node_object import node_capacity
from pykubelet.pod.ports.api import PodObjects
from pykubelet.pod.ports.csi import CsiVolumes
from pykubelet.pod.ports.machine import PodCgroups
from pykubelet.pod.ports.runtime import Capabilities, RuntimeStatus

log = logging.getLogger(__name__)

_LOGS = "/var/log/pods"
_LINKS = "/var/log/containers"
_KEEPS_TMPFS_IN_MEMORY: Final = (6, 4)


class MachineParts(Struct, frozen=True, kw_only=True):
    host: LocalHost
    logs: PodLogs
    dns: HostDns
    cgroups: PodCgroups | None
    iptables: tuple[str, ...] = ()
    """Programs whose chains are to be kept."""
    limitations: tuple[str, ...] = ()
    update_refusal: str = ""
    """Why the runtime cannot change the limits of running containers; empty: it can."""


async def machine_parts(
    base: Foundations,
    status: RuntimeStatus,
    node: Callable[[], Node | None],
    objects: PodObjects | None,
    drivers: CsiVolumes | None = None,
) -> MachineParts:
    """Once the runtime has answered: much depends on what it can do. `node` is the newest known state of it."""
    config = base.config

    def allocatable() -> ResourceList:
        known = node()
        return known.status.allocatable if known else {}

    def this_node() -> tuple[str, Mapping[str, str]]:
        known = node()
        return config.node.name, known.metadata.labels if known else {}

    dirs = PodDirs(str(config.root_dir), str(config.pod_logs_dir))
    logs = PodLogs(str(config.pod_logs_dir), links=_LINKS if str(config.pod_logs_dir) == _LOGS else None)
    handler = next((each for each in status.handlers if not each.name), None)
    users = None
    if config.user_namespaces and any(each.user_namespaces for each in status.handlers):
        space = await in_thread(subordinate_ids, config.users_per_pod)
        users = UserNamespaces(dirs, checked_space(space, config.node.max_pods))
        await users.load()
    host = LocalHost(
        dirs,
        memory=base.facts.memory,
        cluster_domain=config.dns.cluster_domain,
        recursive_read_only=bool(handler and handler.recursive_read_only_mounts),
        users=users,
        logs=logs,
        objects=objects,
        claims=base.api.claims if base.api else None,
        drivers=drivers,
        node=this_node,
        allocatable=allocatable,
        recorder=base.recorder,
        journal=base.journal,
        image_volumes=config.image_volumes,
    )
    dns = HostDns(config.dns)
    if told := over_limits(config.dns.resolv_conf, dns.settings()):
        base.recorder.node_event("Warning", "CheckLimitsForResolvConf", told)
    _tell_of_swap(base)
    cgroups, limitation = await _cgroups(base)
    return MachineParts(
        host=host,
        logs=logs,
        dns=dns,
        cgroups=cgroups,
        iptables=await in_thread(present_programs) if config.machine.has_iptables else (),
        limitations=(limitation,) if limitation else (),
        update_refusal=await _update_refusal(base.runtime.capabilities),
    )


async def _update_refusal(can: Capabilities) -> str:
    if can.updates_containers is None:
        return "the container runtime does not change the limits of running containers"
    return await can.updates_containers()


async def _cgroups(base: Foundations) -> tuple[PodCgroups | None, str]:
    """None for a runtime that sees to it itself. With the one that the runtime says it has, not the one configured:
    otherwise no container would start."""
    if (ask := base.runtime.capabilities.cgroup_driver) is None:
        await _enforce_reservations(base, base.config.cgroups.driver)
        return None, ""
    config, facts = base.config, base.facts
    configured, said = config.cgroups.driver, await ask()
    if said and said != configured:
        log.info("control groups are made by %s, as the runtime does it, not by %s", said, configured)
    settings = changed(
        config.cgroups,
        capacity=node_capacity(facts, config.node),
        reserved=config.node.reserved,
        driver="systemd" if (said or configured) == "systemd" else "cgroupfs",
    )
    await _enforce_reservations(base, settings.driver)
    made = await in_thread(partial(pod_cgroups, settings, journal=base.journal))
    if isinstance(made, KernelPodCgroups):
        _tell_of_groups(base, made)
    return made, made.limitation


async def _enforce_reservations(base: Foundations, driver: CgroupDriver) -> None:
    """In the groups of those for whom they are. Raises Invalid: who asks for it does not want to run without."""
    settings, node = base.config.cgroups, base.config.node
    for kind, group, amounts in (
        ("system", settings.system_reserved_cgroup, node.system_reserved),
        ("kube", settings.kube_reserved_cgroup, node.kube_reserved),
    ):
        for suffix, shown in (("", ""), ("-compressible", " Compressible")):
            if f"{kind}-reserved{suffix}" not in settings.enforce_node_allocatable:
                continue
            try:
                if not amounts:
                    raise Invalid(f"{shown_group(named_group(group, driver))} cgroup is not configured properly")
                limits = reserved_limits(amounts, compressible=bool(suffix))
                await in_thread(enforce_limits, group, limits, driver)
            except Invalid as error:
                told = f'Failed to enforce {kind.title()} Reserved{shown} Cgroup Limits on "{group}": {error}'
                base.recorder.node_event("Warning", FAILED, told)
                raise Invalid(f"{told}; enforceNodeAllocatable asks for it") from None
            base.recorder.node_event("Normal", ENFORCED, f"Updated limits on {kind} reserved cgroup {group}")


def _tell_of_groups(base: Foundations, made: KernelPodCgroups) -> None:
    if not made.is_unified:
        told = "cgroup v1 support is in maintenance mode, please migrate to cgroup v2"
        base.recorder.node_event("Warning", "CgroupV1", told)


def _tell_of_swap(base: Foundations) -> None:
    """Volumes in memory are kept from being swapped out where the kernel can do that."""
    version = re.match(r"([0-9]+)\.([0-9]+)", base.facts.kernel_version)
    if base.facts.swap and version and (int(version[1]), int(version[2])) < _KEEPS_TMPFS_IN_MEMORY:
        told = (
            "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) "
            "might be swapped to disk and should no longer be considered secure."
        )
        base.recorder.node_event("Warning", "PossibleMemoryBackedVolumesOnDisk", told)

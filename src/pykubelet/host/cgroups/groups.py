"""The PodCgroups of this machine: the groups of the node, of the classes of service and of pods, made when they are
needed, brought up to date when something changed.

Upstream refuses to start where it cannot make groups. We go on without and say so: a plain user has none to give.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Final, Literal, TypeVar

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.qos import qos_class
from pykubelet.base.errors import Invalid, PykubeletError, Retry, sentence
from pykubelet.base.timed import timed
from pykubelet.host.cgroups import hierarchy as trees
from pykubelet.host.cgroups.files import GroupFiles
from pykubelet.host.cgroups.hierarchy import Hierarchy
from pykubelet.host.cgroups.systemd import RUNS, Systemd, check_that_it_runs
from pykubelet.host.mount import MountPoint, mount_points
from pykubelet.host.threads import in_thread
from pykubelet.pod.container.cgroup import (
    PIDS,
    UNLIMITED,
    CgroupDriver,
    Group,
    GroupLimits,
    class_group,
    class_groups,
    class_limits,
    group_of,
    node_group,
    node_limits,
    path_of,
    pod_group,
    pod_limits,
    runtime_parent,
    shown_group,
    uid_of,
)
from pykubelet.pod.moments import CgroupChanged, Journal

T = TypeVar("T")

log = logging.getLogger(__name__)

_PATIENCE: Final = 10.0
_PAUSE: Final = 0.05
_TASKS: Final = ("/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max")
_ONLINE: Final = "/sys/devices/system/cpu/online"


class CgroupSettings(Struct, frozen=True, kw_only=True):
    """What people configured, in upstream's words."""

    capacity: ResourceList = {}
    """What the machine has: cpu, memory and huge pages."""
    reserved: ResourceList = {}
    """kubeReserved and systemReserved together."""
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    """With `pods` among them, pods get the capacity without what is reserved; `kube-reserved`, `system-reserved`: who
    is in these groups gets what is reserved; `-compressible`: of processors alone."""
    driver: CgroupDriver = "cgroupfs"
    kube_reserved_cgroup: str = ""
    """The group of the node's own daemons, where what is kept for them is enforced."""
    system_reserved_cgroup: str = ""
    """That of the rest of the system."""
    cgroup_root: str = ""
    """Parent of all pods' groups; empty: that of the machine."""
    cgroups_per_qos: bool = True
    pod_pids_limit: int = UNLIMITED
    """Not positive: none."""
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period: float = 0.1
    """Seconds."""


class Machine(Struct, frozen=True, kw_only=True):
    """Where things are on this machine."""

    control_groups: str = trees.CONTROL_GROUPS
    mounts: tuple[MountPoint, ...] | None = None
    """What is mounted; None: look."""
    busctl: str = "busctl"
    systemd_runs: str = RUNS


class NoPodCgroups:
    """Where there are no groups for pods. `limitation` is a sentence that says why; empty when people want it so."""

    def __init__(self, limitation: str = "") -> None:
        self.limitation = limitation

    async def set_up(self, pod: Pod, *, unlimited_quota: bool = False) -> str:
        return ""

    async def remove(self, uid: str) -> None:
        return

    async def orphan_groups(self, known: Collection[str]) -> frozenset[str]:
        return frozenset()

    async def balance(self, pods: Collection[Pod]) -> None:
        return

    async def clear(self) -> None:
        return

    async def limit_node(self) -> None:
        return


def pod_cgroups(
    settings: CgroupSettings,
    machine: Machine | None = None,
    *,
    journal: Journal | None = None,
) -> "KernelPodCgroups | NoPodCgroups":
    """The groups of this machine, those above the pods made already; else what goes on without, and says why.

    Waits for the kernel or systemd. Raises Invalid for a `cgroup_root` that cannot be one.
    """
    machine = machine or Machine()
    root = group_of(settings.cgroup_root)
    if not settings.cgroups_per_qos:
        return NoPodCgroups()
    try:
        if settings.driver == "systemd":
            check_that_it_runs(machine.busctl, machine.systemd_runs)
        mounts = mount_points() if machine.mounts is None else machine.mounts
        found = trees.find_hierarchy(mounts, machine.control_groups)
        systemd = Systemd(unified=found.unified, busctl=machine.busctl) if settings.driver == "systemd" else None
        _make(root, found, systemd)
        found = trees.narrow(found, path_of(node_group(root), settings.driver))
        return KernelPodCgroups(settings, found, systemd, journal=journal)
    except OSError as error:
        return NoPodCgroups(_without(sentence(error)))
    except PykubeletError as error:
        return NoPodCgroups(_without(str(error)))


def _without(reason: str) -> str:
    return f"pods have no control groups of their own, so limits hold for single containers alone: {reason}"


def _make(root: Group, hierarchy: Hierarchy, systemd: Systemd | None) -> None:
    files = GroupFiles(hierarchy)
    for group in class_groups(root):
        if systemd is not None:
            systemd.start(group)
        files.make(path_of(group, "systemd" if systemd else "cgroupfs"))


class KernelPodCgroups:
    """`systemd` is who makes the groups, None for ourselves."""

    def __init__(
        self,
        settings: CgroupSettings,
        hierarchy: Hierarchy,
        systemd: Systemd | None = None,
        *,
        journal: Journal | None = None,
    ) -> None:
        self._journal = journal or Journal()
        self._settings = settings
        self._driver: CgroupDriver = "systemd" if systemd else "cgroupfs"
        self._root = group_of(settings.cgroup_root)
        self._hierarchy = hierarchy
        self._files = GroupFiles(hierarchy)
        self._systemd = systemd
        self._cpus = _read(_ONLINE) if systemd and hierarchy.unified else ""
        tasks = _most_tasks()
        self._capacity = {**settings.capacity, **({PIDS: Quantity.of(tasks)} if tasks else {})}
        self._written: dict[Group, GroupLimits] = {}
        # What the pods of an earlier agent weigh stays as it is until we know them.
        self._above = self._wanted_above({**class_limits(()), "Burstable": GroupLimits()})
        self._complaint = ""
        self.is_unified = hierarchy.unified
        self.shown = shown_group(node_group(self._root))
        self.limitation = ""
        if settings.pod_pids_limit > 0 and not hierarchy.mount_of("pids"):
            self.limitation = (
                "the number of processes in a pod is not limited: the kernel has no control groups for pids"
            )

    async def set_up(self, pod: Pod, *, unlimited_quota: bool = False) -> str:
        """Costs next to nothing when all is as it was left."""
        settings = self._settings
        group = pod_group(class_group(self._root, qos_class(pod)), pod.metadata.uid)
        limits = pod_limits(
            pod,
            pids=settings.pod_pids_limit if settings.pod_pids_limit > 0 else UNLIMITED,
            cpu_cfs_quota=settings.cpu_cfs_quota and not unlimited_quota,
            period=round(settings.cpu_cfs_quota_period * 1_000_000),
        )
        with self._noted("update" if group in self._written else "create"):
            stands = self._stands(group, limits)  # and with it those above it
            if not stands or any(self._written.get(above) != said for above, said in self._above.items()):
                await self._bring_above()
            if not stands:
                await self._bring_pod(group, limits)
        return runtime_parent(group, self._driver)

    async def remove(self, uid: str) -> None:
        try:
            groups = [pod_group(parent, uid) for parent in class_groups(self._root)]
        except Invalid:  # then it never had any
            return
        for group in groups:
            self._written.pop(group, None)
        errors = []
        with self._noted("destroy"):
            for group in await _guard(lambda: [g for g in groups if self._files.exist_anywhere(self._path(g))]):
                try:
                    await self._remove(group)
                except Retry as error:
                    errors.append(str(error))
            if errors:
                raise Retry("; ".join(errors))

    async def uids(self) -> frozenset[str]:
        """The pods that have a group here, whosever they are."""
        return await _guard(lambda: frozenset(self._found()))

    async def orphan_groups(self, known: Collection[str]) -> frozenset[str]:
        def look() -> frozenset[str]:
            found = ((uid, path) for uid, path in self._found().items() if uid not in known)
            return frozenset(uid for uid, path in found if not self._files.is_lived_in(path))

        return await _guard(look)

    async def balance(self, pods: Collection[Pod]) -> None:
        """Written again even when nothing changed: others may have."""
        self._above = self._wanted_above(class_limits(pods))
        errors = []
        with self._noted("update"):
            for group, limits in self._above.items():
                try:
                    await self._bring(group, limits)
                except Retry as error:
                    errors.append(str(error))
            if errors:
                raise Retry("; ".join(errors))
        self._complaint = ""

    async def limit_node(self) -> None:
        group = node_group(self._root)
        await self._bring(group, self._above[group])

    async def clear(self) -> None:
        above = [self._root[: length + 1] for length in range(len(self._root))]
        groups = sorted({*class_groups(self._root), *above}, key=len, reverse=True)
        for group in groups:
            await in_thread(self._clear, group)

    # --- inside

    def _noted(self, operation: Literal["create", "update", "destroy"]) -> AbstractContextManager[None]:
        """Of the pod that somebody works for now, if any."""
        return timed(self._journal, partial(CgroupChanged, operation))

    def _clear(self, group: Group) -> None:
        path = self._path(group)
        if self._files.entries(path) or self._files.is_lived_in(path):
            return
        with suppress(OSError, PykubeletError):
            if self._systemd is not None:
                self._systemd.stop(group)
            self._files.remove(path)

    def _wanted_above(self, classes: Mapping[str, GroupLimits]) -> dict[Group, GroupLimits]:
        """The limits of the groups above the pods, the highest first."""
        settings = self._settings
        node = node_limits(self._capacity, settings.reserved if "pods" in settings.enforce_node_allocatable else {})
        return {node_group(self._root): node, **{class_group(self._root, qos): classes[qos] for qos in classes}}

    async def _bring_above(self) -> None:
        """A pod does not have to wait until the node's own limits fit: that takes others to use less."""
        for group, limits in self._above.items():
            if self._stands(group, limits):
                continue
            try:
                await self._bring(group, limits)
            except Retry as error:
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    log.warning("the limits of the control group %s are not in force yet: %s", self._path(group), error)

    async def _bring_pod(self, group: Group, limits: GroupLimits) -> None:
        """A pod that runs goes on with the bounds that it has while it uses more than the new ones would allow: they
        are tried again each time."""
        was_there = self._files.exist(self._path(group))
        try:
            await self._bring(group, limits)
        except Retry as error:
            if not was_there:
                raise
            log.warning("the limits of the control group %s are not in force yet: %s", self._path(group), error)

    def _stands(self, group: Group, limits: GroupLimits) -> bool:
        """A few looks at folders that are in memory: not worth a thread."""
        return self._written.get(group) == limits and self._files.exist(self._path(group))

    async def _bring(self, group: Group, limits: GroupLimits) -> None:
        self._written.pop(group, None)
        await _guard(lambda: self._write(group, limits))
        self._written[group] = limits

    def _write(self, group: Group, limits: GroupLimits) -> None:
        path = self._path(group)
        if self._systemd is not None:
            self._systemd.start(group)
        if not self._files.exist(path):
            self._files.make(path)
        if self._systemd is not None:
            self._systemd.limit(group, limits, self._cpus if group == node_group(self._root) else "")
        self._files.limit(path, limits)

    async def _remove(self, group: Group) -> None:
        path = self._path(group)
        await _guard(lambda: self._files.kill(path))
        if self._systemd is not None:
            await in_thread(self._systemd.stop, group)
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE
        while left := await _guard(lambda: self._files.remove(path)):
            if loop.time() > until:
                raise Retry(f"the control group {left} is still in use, though everything in it was killed")
            await asyncio.sleep(_PAUSE)
            await _guard(lambda: self._files.kill(path))

    def _found(self) -> dict[str, str]:
        """The groups of pods, by uid."""
        found = {}
        for parent in class_groups(self._root):
            path = self._path(parent)
            for folder in self._files.entries(path):
                if uid := uid_of(folder, parent, self._driver):
                    found[uid] = f"{path}/{folder}"
        return found

    def _path(self, group: Group) -> str:
        return path_of(group, self._driver)


async def _guard(work: Callable[[], T]) -> T:
    """In a thread, with the kernel's refusals in our words."""
    try:
        return await in_thread(work)
    except OSError as error:
        raise Retry(sentence(error)) from error


def _most_tasks() -> int:
    """How many processes and threads there can be on this machine; 0 when that cannot be said."""
    limits = [int(text) for text in map(_read, _TASKS) if text.isdecimal()]
    return min(limits, default=0)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""

"""Groups that are not for pods: what people keep for the system and for the node's own daemons is enforced there, and
processes are moved in that belong there.

Such a group has to be there already: whoever has made it knows what is in it. All of it blocks.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from pykubelet.base.errors import Invalid, PykubeletError, sentence
from pykubelet.host.cgroups.files import GroupFiles
from pykubelet.host.cgroups.groups import Machine
from pykubelet.host.cgroups.hierarchy import Hierarchy, find_hierarchy
from pykubelet.host.cgroups.systemd import Systemd, check_that_it_runs
from pykubelet.host.mount import mount_points
from pykubelet.pod.container.cgroup import CgroupDriver, GroupLimits, named_group, path_of, shown_group

_LIMITED: Final = frozenset(("cpu", "cpuset", "memory", "hugetlb", "pids"))
_COUNTED: Final = frozenset((*_LIMITED, "cpuacct"))
_ROUNDS: Final = 10
"""What is moved may have had children meanwhile."""


def enforce_limits(name: str, limits: GroupLimits, driver: CgroupDriver, machine: Machine | None = None) -> None:
    """Raises Invalid, in upstream's words."""
    machine = machine or Machine()
    try:
        hierarchy = hierarchy_of(machine)
        group = named_group(name, driver)
        path = path_of(group, driver)
        _check(hierarchy, path, shown_group(group))
        if driver == "systemd":
            check_that_it_runs(machine.busctl, machine.systemd_runs)
            Systemd(unified=hierarchy.unified, busctl=machine.busctl).limit(group, limits)
        GroupFiles(hierarchy).limit(path, limits)
    except OSError as error:
        raise Invalid(sentence(error)) from None
    except PykubeletError as error:
        raise Invalid(str(error)) from None


def hierarchy_of(machine: Machine) -> Hierarchy:
    return find_hierarchy(mount_points() if machine.mounts is None else machine.mounts, machine.control_groups)


def _check(hierarchy: Hierarchy, path: str, shown: str) -> None:
    if not hierarchy.unified:
        trees = (mount.rstrip("/") + path for mount, has in hierarchy.mounts.items() if not has.isdisjoint(_COUNTED))
        if missing := [folder for folder in trees if not os.path.isdir(folder)]:
            raise Invalid(f"cgroup {shown} has some missing paths: {', '.join(missing)}")
        return
    ((mount, known),) = hierarchy.mounts.items()
    try:
        with open(f"{mount.rstrip('/')}{path}/cgroup.controllers", encoding="ascii") as file:
            here = frozenset(file.read().split())
    except OSError as error:
        raise Invalid(f"could not read controllers for cgroup {shown}: {sentence(error)}") from None
    if lacking := sorted((known & _LIMITED) - here):
        raise Invalid(f"cgroup {shown} has some missing controllers: {', '.join(lacking)}")


# --- who is in which group


def join(path: str, pids: Iterable[int], machine: Machine | None = None) -> None:
    """Move processes into a group, which is made if need be. Raises OSError, Invalid."""
    hierarchy = hierarchy_of(machine or Machine())
    GroupFiles(hierarchy).make(path)
    for pid in pids:
        _move(hierarchy, path, pid)


def gather_system(path: str, machine: Machine | None = None, *, proc: str = "/proc") -> int:
    """Move all processes into a group that are in none, but for the first one and the kernel's own. -> how many were
    moved. Raises OSError, Invalid."""
    hierarchy = hierarchy_of(machine or Machine())
    GroupFiles(hierarchy).make(path)
    moved = 0
    for _ in range(_ROUNDS):
        found = [pid for pid in _at_the_top(hierarchy) if pid != 1 and not _is_kernels(pid, proc)]
        for pid in found:
            _move(hierarchy, path, pid)
        moved += len(found)
        if not found:
            break
    return moved


def _at_the_top(hierarchy: Hierarchy) -> Iterator[int]:
    mount = hierarchy.mount_of("devices") or next(iter(hierarchy.mounts))
    with open(f"{mount.rstrip('/')}/cgroup.procs", encoding="ascii") as file:
        yield from map(int, file.read().split())


def _is_kernels(pid: int, proc: str) -> bool:
    """Those have no program."""
    try:
        os.readlink(f"{proc}/{pid}/exe")
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _move(hierarchy: Hierarchy, path: str, pid: int) -> None:
    """One that has ended meanwhile needs no group."""
    for folder in hierarchy.folders(path):
        with suppress(ProcessLookupError):
            file = os.open(f"{folder}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(file, str(pid).encode())
            finally:
                os.close(file)

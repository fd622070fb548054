"""Where this machine has its control groups: one tree for everything (version 2), or one for each controller."""

import os
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.huge_pages import HUGE_PAGES, page_sizes
from pykubelet.host.mount import MountPoint

CONTROL_GROUPS: Final = "/sys/fs/cgroup"
NEEDED_UNIFIED: Final = frozenset(("cpu", "cpuset", "memory"))
_NAMED: Final = "name="
_KNOWN: Final = frozenset(
    (
        *("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory"),
        *("misc", "net_cls", "net_prio", "perf_event", "pids", "rdma"),
    )
)
_NEEDED: Final = frozenset(("cpu", "cpuacct", "cpuset", "memory"))


class Hierarchy(Struct, frozen=True, kw_only=True):
    unified: bool
    """Whether this is version 2."""
    mounts: Mapping[str, frozenset[str]]
    """By mount point: the controllers in force there. Trees that only keep count of who is where have none."""
    page_sizes: tuple[int, ...] = ()
    """The huge pages that the kernel can limit, in bytes."""

    def folders(self, path: str) -> tuple[str, ...]:
        """Where the group at `path` is, in each of the trees."""
        return tuple(mount.rstrip("/") + path for mount in self.mounts)

    def mount_of(self, controller: str) -> str:
        """Empty when the kernel has none such."""
        return next((mount for mount, controllers in self.mounts.items() if controller in controllers), "")


def find_hierarchy(mounts: Iterable[MountPoint], root: str = CONTROL_GROUPS, huge_pages: str = HUGE_PAGES) -> Hierarchy:
    """Raises Invalid when something is missing without which pods cannot have groups."""
    listed = os.path.join(root, "cgroup.controllers")
    unified = os.path.exists(listed)
    if unified:
        with open(listed, encoding="ascii") as file:
            trees = {root: frozenset(file.read().split())}
    else:
        trees = _trees(mounts, root)
    have = frozenset(name for controllers in trees.values() for name in controllers)
    if not trees:
        raise Invalid(f"no control groups are mounted at {root}")
    if missing := sorted((NEEDED_UNIFIED if unified else _NEEDED) - have):
        raise Invalid(f"the kernel has no control groups for {', '.join(missing)} at {root}")
    sizes = page_sizes(huge_pages) if "hugetlb" in have else ()
    return Hierarchy(unified=unified, mounts=trees, page_sizes=sizes)


def narrow(hierarchy: Hierarchy, path: str) -> Hierarchy:
    """With the controllers that the group at `path` really has: not all that the kernel knows are handed down."""
    if not hierarchy.unified:
        return hierarchy
    (root,) = hierarchy.mounts
    with open(f"{root.rstrip('/')}{path}/cgroup.controllers", encoding="ascii") as file:
        here = frozenset(file.read().split())
    if missing := sorted(NEEDED_UNIFIED - here):
        raise Invalid(f"the control group {root}{path} is not given the controllers {', '.join(missing)}")
    sizes = hierarchy.page_sizes if "hugetlb" in here else ()
    return Hierarchy(unified=True, mounts={root: here}, page_sizes=sizes)


def _trees(mounts: Iterable[MountPoint], root: str) -> dict[str, frozenset[str]]:
    """One of each: what is mounted in several places is used where the path is shortest."""
    places: dict[str, str] = {}
    counting = ""
    for mount in sorted(mounts, key=lambda each: len(each.path)):
        if mount.fs_type == "cgroup":
            for option in mount.options:
                if option in _KNOWN or option.startswith(_NAMED):
                    places.setdefault(option, mount.path)
        elif mount.fs_type == "cgroup2" and os.path.dirname(mount.path) == root:
            counting = counting or mount.path  # beside the others: runtimes put their processes there, too
    trees = {
        path: frozenset(name for name, place in places.items() if place == path and not name.startswith(_NAMED))
        for path in dict.fromkeys(places.values())
    }
    return {**trees, counting: frozenset()} if counting and trees else trees

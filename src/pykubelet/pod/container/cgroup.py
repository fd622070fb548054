"""Which control group a pod lives in, and what the kernel is told about it, after upstream's names and numbers.

Three floors: the node (`kubepods`), the classes of service (`burstable`, `besteffort`; guaranteed pods live beside
them) and the pods. Containers come below, and are the runtime's.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api import quantity
from pykubelet.api.container import Container
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.qos import qos_class
from pykubelet.api.rules.resources import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    container_limits,
    is_pod_level_resource,
    is_sidecar,
    pod_requests,
)
from pykubelet.base.errors import Invalid

CgroupDriver = Literal["cgroupfs", "systemd"]
Group = tuple[str, ...]
"""A group's name, one word for each floor: ("kubepods", "burstable", "pod<uid>"). Each driver spells it in its way."""

PIDS: Final = "pid"
UNLIMITED: Final = -1
FEWEST_SHARES: Final = 2
MOST_SHARES: Final = 262_144
PERIOD: Final = 100_000  # microseconds
SMALLEST_QUOTA: Final = 1000  # microseconds: the kernel takes no less

_NODE: Final = "kubepods"
_POD: Final = "pod"
_SLICE: Final = ".slice"
_SHARES_PER_CPU: Final = 1024
_MOST_WEIGHT: Final = 10_000
_UNITS: Final = ("", "K", "M", "G", "T", "P")
# No slash, which would lead elsewhere, and no underscore, which systemd's names need for the dash.
_UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,127}")


class GroupLimits(Struct, frozen=True, kw_only=True):
    """What is said about one group. None: nothing is said, and it stays as it is. UNLIMITED: there is no bound."""

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    """Microseconds in each period."""
    cpu_period: int = PERIOD
    memory: int | None = None
    pids: int | None = None
    hugepages: Mapping[int, int] | None = None
    """Bytes by the size of a page, nothing of any other size. None: no bound, for the bounds are further down."""


# --- names


def group_of(cgroup_root: str) -> Group:
    """The group that a person named as a path: `/` is the top. Raises Invalid."""
    words = tuple(word for word in cgroup_root.split("/") if word)
    if bad := next((word for word in words if word in (".", "..") or "\0" in word), None):
        raise Invalid(f"cgroupRoot: {cgroup_root!r} has the part {bad!r}; write the path of a control group, such as /")
    return words


def named_group(name: str, driver: CgroupDriver) -> Group:
    """A group that is not ours, as its owner calls it: `/system.slice` or `/podruntime`. Raises Invalid."""
    if driver == "cgroupfs":
        return group_of(name)
    words = name.rstrip("/").rpartition("/")[2].removesuffix(_SLICE).split("-")
    return tuple(word.replace("_", "-") for word in words if word)


def shown_group(group: Group) -> str:
    """As upstream's messages have it."""
    return f"[{' '.join(json.dumps(word) for word in group)}]"


def node_group(root: Group) -> Group:
    return (*root, _NODE)


def class_group(root: Group, qos: str) -> Group:
    """The parent of the pods of a class. Guaranteed pods have no floor between them and the node."""
    return node_group(root) if qos == "Guaranteed" else (*node_group(root), qos.lower())


def class_groups(root: Group) -> tuple[Group, ...]:
    """Every group that may hold pods."""
    return tuple(class_group(root, qos) for qos in ("Guaranteed", "Burstable", "BestEffort"))


def pod_group(parent: Group, uid: str) -> Group:
    """Raises Invalid for a uid that cannot be part of a group's name."""
    if not _UID.fullmatch(uid):
        raise Invalid(f"the uid {uid!r} cannot name a control group; use letters, digits, dashes and dots")
    return (*parent, f"{_POD}{uid}")


def path_of(group: Group, driver: CgroupDriver) -> str:
    """Where a group is below the mount point: `/kubepods/burstable`, `/kubepods.slice/kubepods-burstable.slice`."""
    if driver == "cgroupfs":
        return "/" + "/".join(group)
    return "/" + "/".join(slice_name(group[: floor + 1]) for floor in range(len(group)))


def slice_name(group: Group) -> str:
    """What systemd calls a group: dashes lead down to the next floor, so those of a word become underscores."""
    return ("-".join(word.replace("-", "_") for word in group) or "-") + _SLICE


def runtime_parent(group: Group, driver: CgroupDriver) -> str:
    """What a runtime is told: the path, or the slice's own name, whose place systemd knows."""
    return path_of(group, driver) if driver == "cgroupfs" else slice_name(group)


def uid_of(folder: str, parent: Group, driver: CgroupDriver) -> str:
    """Whose a folder is that was found in the group `parent`; empty when it is no pod's."""
    word = folder
    if driver == "systemd":
        above = slice_name(parent).removesuffix(_SLICE) + "-"
        if not folder.startswith(above) or not folder.endswith(_SLICE):
            return ""
        word = folder[len(above) : -len(_SLICE)]
        if "-" in word:
            return ""
        word = word.replace("_", "-")
    uid = word.removeprefix(_POD)
    return uid if uid != word and _UID.fullmatch(uid) else ""


# --- conversions


def shares_of(milli: int) -> int:
    """The weight of so many thousandths of a cpu."""
    return min(max(milli * _SHARES_PER_CPU // 1000, FEWEST_SHARES), MOST_SHARES)


def quota_of(milli: int, period: int = PERIOD) -> int:
    """The microseconds in each period that so many thousandths of a cpu come to."""
    return max(milli * period // 1000, SMALLEST_QUOTA) if milli else UNLIMITED


def weight_of(shares: int) -> int:
    """Shares, which go from 2 to 262144, on the scale from 1 to 10000 of the second version of control groups."""
    shares = min(max(shares, FEWEST_SHARES), MOST_SHARES)
    return 1 + (shares - FEWEST_SHARES) * (_MOST_WEIGHT - 1) // (MOST_SHARES - FEWEST_SHARES)


def spelled_page_size(size: int) -> str:
    """As the kernel names its files: 2097152 -> 2MB."""
    floor = 0
    while size % 1024 == 0 and floor < len(_UNITS) - 1:
        size //= 1024
        floor += 1
    return f"{size}{_UNITS[floor]}B"


# --- limits


def pod_limits(pod: Pod, *, pids: int = UNLIMITED, cpu_cfs_quota: bool = True, period: int = PERIOD) -> GroupLimits:
    """Complete, so that what is there from before is brought up to date, too."""
    requests, limits, qos = pod_requests(pod.spec), _limits(pod.spec), qos_class(pod)
    pids = pids if pids > 0 else UNLIMITED
    pages = _hugepages(requests)
    if qos == "BestEffort":
        shares, quota, memory = FEWEST_SHARES, UNLIMITED, UNLIMITED
    else:
        shares = shares_of(_amount(requests, CPU).milli)
        bounded = qos == "Guaranteed"
        quota = (
            quota_of(_amount(limits, CPU).milli, period) if bounded or _everyone_limits(CPU, pod.spec) else UNLIMITED
        )
        memory = _amount(limits, MEMORY).value if bounded or _everyone_limits(MEMORY, pod.spec) else UNLIMITED
    return GroupLimits(
        cpu_shares=shares,
        cpu_quota=quota if cpu_cfs_quota else UNLIMITED,
        cpu_period=period,
        memory=memory or UNLIMITED,
        pids=pids,
        hugepages=pages,
    )


def class_limits(pods: Collection[Pod]) -> dict[str, GroupLimits]:
    """By class: burstable pods weigh together what they ask for, the others as little as can be."""
    asked = sum(_amount(pod_requests(pod.spec), CPU).milli for pod in pods if qos_class(pod) == "Burstable")
    return {
        "Burstable": GroupLimits(cpu_shares=shares_of(asked)),
        "BestEffort": GroupLimits(cpu_shares=FEWEST_SHARES),
    }


def node_limits(capacity: ResourceList, reserved: ResourceList) -> GroupLimits:
    """All pods together: what the machine has (cpu, memory, pid, huge pages) without what is kept for others.

    The reserve below which pods are evicted is not taken off: eviction has to come first, and the kernel after it.
    """

    def left(name: str) -> Quantity:
        return max(capacity[name] - reserved.get(name, Quantity(0)), Quantity(0))

    return GroupLimits(
        cpu_shares=shares_of(left(CPU).milli) if CPU in capacity else None,
        memory=(left(MEMORY).value or None) if MEMORY in capacity else None,
        pids=(left(PIDS).value or None) if PIDS in capacity else None,
        hugepages=_hugepages(capacity),
    )


def reserved_limits(amounts: ResourceList, *, compressible: bool) -> GroupLimits:
    """Of a group that is not for pods: it has what is kept for it, and no more. Compressible: its share of the
    processors alone, since who uses more memory would be ended for it."""
    shares = shares_of(amounts[CPU].milli) if CPU in amounts else None
    if compressible:
        return GroupLimits(cpu_shares=shares)
    return GroupLimits(
        cpu_shares=shares,
        memory=amounts[MEMORY].value if MEMORY in amounts else None,
        pids=amounts[PIDS].value if PIDS in amounts else None,
        hugepages={},
    )


def _amount(resources: ResourceList, name: str) -> Quantity:
    return resources.get(name, Quantity(0))


def _limits(spec: PodSpec) -> dict[str, Quantity]:
    whole = spec.resources.limits if spec.resources is not None else {}
    limits = {**container_limits(spec), **{name: much for name, much in whole.items() if is_pod_level_resource(name)}}
    return {name: much + _amount(spec.overhead, name) if much else much for name, much in limits.items()}


def _everyone_limits(name: str, spec: PodSpec) -> bool:
    """Whether there is a bound on what the pod's containers use together, at every moment of its life."""
    if spec.resources is not None and _amount(spec.resources.limits, name):
        return True
    beside = False
    for container in spec.init_containers:
        own = bool(_amount(container.resources.limits, name))
        if not own and not beside:
            return False
        beside = beside or (own and is_sidecar(container))
    return all(_amount(container.resources.limits, name) for container in spec.containers)


def container_hugepages(pod: Pod, container: Container) -> dict[int, int]:
    """The bytes that a container may have of pages of each size, by that: its own limits before those of its pod."""
    whole = pod.spec.resources.limits if pod.spec.resources is not None else {}
    return _hugepages({**whole, **container.resources.limits})


def _hugepages(requests: ResourceList) -> dict[int, int]:
    pages: dict[int, int] = {}
    for name, much in requests.items():
        if not name.startswith(HUGEPAGES_PREFIX):
            continue
        try:
            size = quantity.parse(name.removeprefix(HUGEPAGES_PREFIX)).value
        except ValueError:  # no machine has pages of such a size
            continue
        pages[size] = pages.get(size, 0) + much.value
    return pages

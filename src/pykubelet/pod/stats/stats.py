"""What pods, containers and the node use, as values: what the kernel counts, under one name for each thing whichever
version of control groups it was read from. And the two ports that such readings come through."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from msgspec import Struct

from pykubelet.pod.observed import ObservedPod

UNLIMITED: Final = 1 << 62
"""From here on a limit of memory is none: kernels round their largest number in different ways."""


class Pressure(Struct, frozen=True, gc=False):
    """Microseconds in which somebody, or everybody, waited for something, and the share of that in percent of the last
    10, 60 and 300 seconds."""

    some: int = 0
    full: int = 0
    some_shares: tuple[float, float, float] = (0.0, 0.0, 0.0)
    full_shares: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Cpu(Struct, frozen=True, kw_only=True, gc=False):
    """Times are nanoseconds on all processors together, since the beginning."""

    total: int = 0
    user: int = 0
    system: int = 0
    periods: int = 0
    throttled_periods: int = 0
    throttled: int = 0
    shares: int = 0
    quota: int = 0
    """Microseconds in each period; 0: no limit."""
    period: int = 0
    rate: int | None = None
    """Nanoseconds in each second, of late; None until there are two readings to compare."""
    pressure: Pressure | None = None


class Memory(Struct, frozen=True, kw_only=True, gc=False):
    """In bytes, but for the counts of faults."""

    usage: int = 0
    working_set: int = 0
    """What cannot be taken back at once: usage without the part of the page cache that nobody has used of late."""
    rss: int = 0
    cache: int = 0
    mapped_file: int = 0
    active_file: int = 0
    inactive_file: int = 0
    kernel: int = 0
    swap: int = 0
    max_usage: int = 0
    failures: int = 0
    """How often the limit was met."""
    page_faults: int = 0
    major_page_faults: int = 0
    limit: int | None = None
    reservation: int = 0
    swap_limit: int | None = None
    pressure: Pressure | None = None

    @property
    def available(self) -> int | None:
        return None if self.limit is None else max(self.limit - self.working_set, 0)

    @property
    def swap_available(self) -> int | None:
        return None if self.swap_limit is None else max(self.swap_limit - self.swap, 0)


class DiskIo(Struct, frozen=True, kw_only=True, gc=False):
    device: str
    numbers: str = ""
    """`8:0`; empty where the processes say what they have read and written, and not on which device."""
    read_bytes: int = 0
    written_bytes: int = 0
    reads: int | None = None
    writes: int | None = None


class DiskActivity(Struct, frozen=True, kw_only=True, gc=False):
    """What a device has done since the machine was started. Times are milliseconds."""

    reads: int
    reads_merged: int
    sectors_read: int
    read_time: int
    writes: int
    writes_merged: int
    sectors_written: int
    write_time: int
    in_progress: int
    io_time: int
    weighted_io_time: int


class TaskStates(Struct, frozen=True, kw_only=True, gc=False):
    """How many processes run or would like to, and what the others do."""

    running: int = 0
    sleeping: int = 0
    stopped: int = 0
    uninterruptible: int = 0


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """What one group of processes uses. None: it cannot be said, or was not asked for."""

    at: int
    """Nanoseconds since 1970."""
    cpu: Cpu | None = None
    memory: Memory | None = None
    io: tuple[DiskIo, ...] = ()
    io_pressure: Pressure | None = None
    processes: int | None = None
    threads: int | None = None
    threads_max: int | None = None
    """0: no limit."""
    descriptors: int | None = None
    sockets: int | None = None
    open_files_limit: int | None = None
    """The soft limit of the first process."""
    states: TaskStates | None = None
    loads: tuple[int, int] | None = None
    """Thousandths of processes that ran, and that could not be interrupted, averaged over the last seconds."""
    oom_kills: int | None = None


class Interface(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    rx_bytes: int = 0
    rx_packets: int = 0
    rx_errors: int = 0
    rx_dropped: int = 0
    tx_bytes: int = 0
    tx_packets: int = 0
    tx_errors: int = 0
    tx_dropped: int = 0


class Disk(Struct, frozen=True, kw_only=True, gc=False):
    """A file system, or what a folder has of one."""

    at: int
    device: str = ""
    capacity: int | None = None
    available: int | None = None
    used: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    inodes_used: int | None = None
    activity: DiskActivity | None = None
    """Of a device as a whole."""


class VolumeHealth(Struct, frozen=True):
    """What a driver says of a volume."""

    is_abnormal: bool
    message: str = ""


class VolumeUsage(Struct, frozen=True, kw_only=True):
    name: str
    disk: Disk
    health: VolumeHealth | None = None
    is_ephemeral: bool = False
    """Whether it is storage of this node that goes with the pod."""
    claim: str = ""
    """The PersistentVolumeClaim behind it."""


class GroupReading(Struct, frozen=True, kw_only=True):
    """A control group that is no container: the node, what lies between it and the pods, a pod, a sandbox."""

    group: str
    """Its path below the mount point, as cAdvisor names it."""
    usage: Usage
    started: float = 0.0
    """Seconds since 1970."""


class ContainerReading(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    image: str
    group: str
    created_at: datetime | None
    usage: Usage
    root: Disk | None = None
    logs: Disk | None = None
    unlinked: Mapping[str, Disk] = {}
    """What it holds open that has no name any more and so is in no folder: in its `root`, and in `volumes`."""


class SandboxReading(Struct, frozen=True, kw_only=True):
    id: str
    image: str
    group: str
    usage: Usage


class PodReading(Struct, frozen=True, kw_only=True):
    uid: str
    name: str
    namespace: str
    created_at: datetime | None
    group: str
    """Its own control group; empty when it has none, and `usage` is the sum of its containers."""
    usage: Usage
    containers: tuple[ContainerReading, ...] = ()
    sandbox: SandboxReading | None = None
    interfaces: tuple[Interface, ...] | None = None
    """None: its network is not its own, or cannot be looked into."""
    volumes: tuple[VolumeUsage, ...] = ()
    ephemeral: Disk | None = None


class NodeReading(Struct, frozen=True, kw_only=True):
    usage: Usage
    booted: float = 0.0
    interfaces: tuple[Interface, ...] = ()
    disk: Disk | None = None
    """The file system that pods write to."""
    images: Disk | None = None
    disks: tuple[Disk, ...] = ()
    """Every file system on a device, once."""
    max_pid: int | None = None
    tasks: int | None = None
    groups: tuple[GroupReading, ...] = ()
    """Between the node and its pods."""
    system: Mapping[str, GroupReading] = {}
    """By upstream's names: kubelet, runtime, misc, pods."""


class Reading(Struct, frozen=True, kw_only=True):
    """Everything, at one moment."""

    at: int
    node: NodeReading
    pods: tuple[PodReading, ...] = ()
    has_details: bool = False
    """Whether more than processor time and memory was looked at."""


# --- ports


class Place(Struct, frozen=True, kw_only=True):
    """Where a running container, or a sandbox, can be looked at."""

    pid: int = 0
    """Its first process; 0: unknown."""
    cgroups: Mapping[str, str] | None = None
    """The folders of its own control groups, by controller; under the empty name that of version 2. None: those that
    its first process is in."""
    tree: int = 0
    """All processes of the container are below this one; 0: only its control group knows them."""
    image: str = ""
    """Of a sandbox."""
    written: int | None = None
    """Bytes in the layer of its root file system that it can write to."""
    written_inodes: int | None = None
    layer: str = ""
    """The folder on this machine where those are, if the runtime leaves it to others to add them up."""


class ImageStore(Struct, frozen=True, kw_only=True):
    """Where a runtime keeps images and the root file systems of containers."""

    path: str
    used: int | None = None
    inodes_used: int | None = None


class ContainerPlaces(Protocol):
    """The part of a runtime that says where its containers are. Raises base.errors."""

    async def places(self, pods: Sequence[ObservedPod], *, details: bool) -> Mapping[str, Place]:
        """Of what runs in these pods, by the id of the container or sandbox. Who cannot be found is left out.

        Without `details` nobody looks at the layers that containers write to, which takes runtimes long.
        """
        ...

    async def images(self) -> ImageStore | None:
        """None when that cannot be said."""
        ...


class Stats(Protocol):
    """What everything uses. Raises base.errors when the runtime cannot be asked."""

    async def read(self, *, details: bool = True) -> Reading:
        """At most a moment old: several who ask at once get the same answer. Without `details` only processor time and
        memory are sure to be in it."""
        ...


class StorageStats(Protocol):
    async def storage(self, pods: Sequence[ObservedPod], uids: Collection[str]) -> Reading:
        """What those of the pods that have these uids have written, and the node's disks: nothing else is looked at."""
        ...


class PressureStats(Protocol):
    """What it takes to see that a node runs short, and whose doing it is. Raises base.errors."""

    async def node(self) -> NodeReading:
        """What the machine has left of memory, disks and processes; no pod is looked at. Disks that do not answer are
        left out."""
        ...

    async def pods(self, *, files: bool) -> tuple[PodReading, ...]:
        """What each running pod uses; with `files`, what it has written is measured anew, for some seconds at most."""
        ...


# --- sums


def summed(at: int, usages: Sequence[Usage]) -> Usage:
    """What several groups use together. Pressures cannot be added."""
    cpus = [each.cpu for each in usages if each.cpu is not None]
    memories = [each.memory for each in usages if each.memory is not None]
    return Usage(
        at=at,
        cpu=_total_cpu(cpus) if cpus else None,
        memory=_total_memory(memories) if memories else None,
        processes=total(each.processes for each in usages),
        threads=total(each.threads for each in usages),
        descriptors=total(each.descriptors for each in usages),
        oom_kills=total(each.oom_kills for each in usages),
    )


def total(amounts: Iterable[int | None]) -> int | None:
    """Of those that are known; None when none is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _total_cpu(cpus: Sequence[Cpu]) -> Cpu:
    names = ("total", "user", "system", "periods", "throttled_periods", "throttled", "shares")
    return Cpu(
        **{name: sum(getattr(each, name) for each in cpus) for name in names},
        rate=total(each.rate for each in cpus),
    )


def _total_memory(memories: Sequence[Memory]) -> Memory:
    limits = [each.limit for each in memories]
    names = ("usage", "working_set", "rss", "cache", "mapped_file", "active_file", "inactive_file", "kernel", "swap")
    more = ("failures", "page_faults", "major_page_faults")
    return Memory(
        **{name: sum(getattr(each, name) for each in memories) for name in (*names, *more)},
        limit=None if None in limits else total(limits),
    )

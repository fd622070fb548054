"""The work of one reading, all of it in one thread: control groups, networks and files of every pod, then the node."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial

from msgspec import Struct

from pykubelet.api.struct import changed
from pykubelet.base.errors import PykubeletError
from pykubelet.host.dirs import PodDirs
from pykubelet.host.mount import parse_mount_info
from pykubelet.host.stats import node
from pykubelet.host.stats.asked import Measured
from pykubelet.host.stats.cgroups import Folders, GroupReader, Hierarchy
from pykubelet.host.stats.disks import DiskReader
from pykubelet.host.stats.files import read
from pykubelet.host.stats.network import interfaces
from pykubelet.host.stats.processes import ProcessTable, looked_into, unlinked
from pykubelet.host.stats.storage import file_systems, files_in
from pykubelet.host.stats.system import SystemReader
from pykubelet.host.stats.volumes import FoundVolume, volume_usage
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State
from pykubelet.pod.stats.rates import Loads, Rates
from pykubelet.pod.stats.stats import (
    ContainerReading,
    Disk,
    GroupReading,
    ImageStore,
    Interface,
    NodeReading,
    Place,
    PodReading,
    Reading,
    SandboxReading,
    Usage,
    VolumeUsage,
    summed,
    total,
)


class StatsSettings(Struct, frozen=True, kw_only=True):
    pods_group: str = "/kubepods"
    """The control group of all pods, as a path below the mount point."""
    volume_period: float = 60.0
    """Seconds for which what was added up of a volume holds; negative: volumes are not looked at."""
    fresh: float = 1.5
    """Seconds for which a reading is given to everybody who asks."""
    runtime_socket: str = ""
    """Where a runtime listens that is a program of its own."""
    proc: str = "/proc"
    sys: str = "/sys"


class PodReader:
    """Remembers where groups are and how much time they had used; called by one thread at a time."""

    def __init__(self, dirs: PodDirs, settings: StatsSettings, known: Callable[[str], Measured | None]) -> None:
        self._dirs = dirs
        self._settings = settings
        self._known = known
        self._groups = GroupReader(settings.proc, settings.sys)
        self._disks = DiskReader(dirs.root, self._groups)
        self._folders: dict[str, tuple[int, Folders]] = {}
        self._rates = Rates()
        self._loads = Loads()

    def read(
        self,
        observed: Sequence[ObservedPod],
        places: Mapping[str, Place],
        images: ImageStore | None,
        volumes: Mapping[str, Sequence[FoundVolume]],
        at: int,
        *,
        details: bool,
        hidden: bool = False,
    ) -> Reading:
        """With `hidden`, also for files without a name that processes hold open."""
        self._folders = {key: known for key, known in self._folders.items() if key in places}
        look = changed(self._looked(places, images, volumes, at, details=details), hidden=hidden)
        pods = tuple(filter(None, (self._pod(pod, look) for pod in observed)))
        reading = Reading(at=at, node=self._node(look, pods), pods=pods, has_details=details)
        self._rates.forget_others()
        self._loads.forget_others()
        self._groups.forget_old(at)
        return reading

    def one(self, pod: ObservedPod, places: Mapping[str, Place], at: int) -> PodReading | None:
        return self._pod(pod, self._looked(places, None, {}, at, details=False))

    def storage(
        self,
        observed: Sequence[ObservedPod],
        places: Mapping[str, Place],
        images: ImageStore | None,
        volumes: Mapping[str, Sequence[FoundVolume]],
        at: int,
    ) -> Reading:
        """What these pods have written; nothing else of them is looked at."""
        look = self._looked(places, images, volumes, at, details=True)
        node = NodeReading(usage=Usage(at=at), disk=look.disk, images=look.images)
        return Reading(at=at, node=node, pods=tuple(self._written(pod, look) for pod in observed))

    def _looked(
        self,
        places: Mapping[str, Place],
        images: ImageStore | None,
        volumes: Mapping[str, Sequence[FoundVolume]],
        at: int,
        *,
        details: bool,
    ) -> "_Look":
        disk, image_disk = self._disks.read(images, at) if details else (None, None)
        return _Look(self._settings.proc, places, volumes, at, details, disk, image_disk)

    # --- pods

    def _written(self, pod: ObservedPod, look: "_Look") -> PodReading:
        nothing = Usage(at=look.at)
        containers = tuple(
            ContainerReading(
                id=each.id,
                name=each.name,
                image=each.image,
                group="",
                created_at=each.created_at,
                usage=nothing,
                root=self._root(look.places[each.id], look),
                logs=self._logs(pod, each, look),
            )
            for each in pod.containers
            if each.state is State.RUNNING and each.id in look.places
        )
        reading = PodReading(
            uid=pod.uid,
            name=pod.name,
            namespace=pod.namespace,
            created_at=None,
            group="",
            usage=nothing,
            containers=containers,
            volumes=tuple(_volumes(look.volumes.get(pod.uid, ()), self._known)),
        )
        return changed(reading, ephemeral=self._ephemeral(reading, look))

    def _pod(self, pod: ObservedPod, look: "_Look") -> PodReading | None:
        sandbox = next((each for each in pod.sandboxes if each.ready), None)
        running = [each for each in pod.containers if each.state is State.RUNNING and each.id in look.places]
        if sandbox is None and not running:
            return None
        containers = tuple(self._container(pod, each, look) for each in reversed(running))
        place = look.places.get(sandbox.id) if sandbox else None
        ids = [each.id for each in running] + ([sandbox.id] if sandbox and place else [])
        own = self._own_group(pod.uid, [self._folders_of(each, look.places[each]) for each in ids])
        group = self._hierarchy.path_of(own) if own else ""
        usage = self._usage(f"pod {pod.uid}", own, look) if own else None
        if usage is None or usage.cpu is None or usage.memory is None:
            usage = summed(look.at, [each.usage for each in containers])
        volumes = tuple(_volumes(look.volumes.get(pod.uid, ()), self._known))
        reading = PodReading(
            uid=pod.uid,
            name=pod.name,
            namespace=pod.namespace,
            created_at=sandbox.created_at if sandbox else None,
            group=group,
            usage=usage,
            containers=containers,
            sandbox=self._sandbox(sandbox.id, place, look) if sandbox and place else None,
            interfaces=self._network(place, look),
            volumes=volumes,
        )
        return changed(reading, ephemeral=self._ephemeral(reading, look)) if look.details else reading

    def _container(self, pod: ObservedPod, container: ObservedContainer, look: "_Look") -> ContainerReading:
        place = look.places[container.id]
        folders = self._folders_of(container.id, place)
        usage = self._groups.usage(folders, look.at, details=look.details)
        if place.tree and (usage.cpu is None or usage.memory is None):
            usage = _filled(usage, look.processes.tree(place.tree, look.at))
        if look.details:
            usage = self._counted(container.id, usage, folders, place, look)
        return ContainerReading(
            id=container.id,
            name=container.name,
            image=container.image,
            group=self._hierarchy.path_of(folders) or f"/{container.id}",
            created_at=container.created_at,
            usage=self._with_rate(container.id, usage),
            root=self._root(place, look) if look.details else None,
            logs=self._logs(pod, container, look) if look.details else None,
            unlinked=self._unlinked(folders, place, look) if look.hidden else {},
        )

    def _unlinked(self, folders: Folders, place: Place, look: "_Look") -> dict[str, Disk]:
        pids = [pid.decode() for pid in self._groups.pids(folders) or ()]
        if not pids and place.tree:
            pids = [str(pid) for pid in look.processes.below(place.tree)]
        found = unlinked(self._settings.proc, pids, self._dirs.root)
        return {name: Disk(at=look.at, used=used, inodes_used=inodes) for name, (used, inodes) in found.items()}

    def _sandbox(self, sandbox_id: str, place: Place, look: "_Look") -> SandboxReading:
        folders = self._folders_of(sandbox_id, place)
        usage = self._groups.usage(folders, look.at, details=False)  # it sleeps: there is nothing more to see
        return SandboxReading(
            id=sandbox_id,
            image=place.image,
            group=self._hierarchy.path_of(folders),
            usage=self._with_rate(sandbox_id, usage),
        )

    def _network(self, place: Place | None, look: "_Look") -> tuple[Interface, ...] | None:
        if not look.details or place is None or not place.pid:
            return None
        return interfaces(f"{self._settings.proc}/{place.pid}/net/dev")

    def _logs(self, pod: ObservedPod, container: ObservedContainer, look: "_Look") -> Disk | None:
        folder = f"{self._dirs.log_root}/{pod.namespace}_{pod.name}_{pod.uid}/{container.name}"
        used, inodes = files_in(folder)
        return changed(look.disk, used=used, inodes_used=inodes) if look.disk else None

    def _root(self, place: Place, look: "_Look") -> Disk | None:
        if look.images is None:
            return None
        if place.layer and (known := self._known(place.layer)) is not None:
            layer = known[0]
            return changed(look.images, used=layer.used, inodes_used=layer.inodes_used)
        return changed(look.images, used=place.written, inodes_used=place.written_inodes)

    def _ephemeral(self, pod: PodReading, look: "_Look") -> Disk | None:
        """What a pod has of the node's own disk."""
        if look.disk is None:
            return None
        logs = files_in(f"{self._dirs.log_root}/{pod.namespace}_{pod.name}_{pod.uid}")
        parts = [part for each in pod.containers for part in (each.root, each.logs) if part is not None]
        parts += [each.disk for each in pod.volumes if each.is_ephemeral]
        hosts = _file(self._dirs, pod.uid)
        used = total([logs[0], hosts[0], *(each.used for each in parts)])
        inodes = total([logs[1], hosts[1], *(each.inodes_used for each in parts)])
        return changed(look.disk, used=used, inodes_used=inodes)

    # --- the node

    def _node(self, look: "_Look", pods: Sequence[PodReading]) -> NodeReading:
        proc, details = self._settings.proc, look.details
        usage = node.node_usage(self._groups, self._hierarchy.everywhere("/"), look.at, details=details)
        usage = self._with_rate("/", usage)
        reading = NodeReading(
            usage=usage,
            booted=self._boot,
            groups=self._groups_between(pods, look) if details else (),
            system=self._system_parts(look, usage),
        )
        if not details:
            return reading
        points = parse_mount_info((read(f"{proc}/self/mountinfo") or b"").decode(errors="surrogateescape"))
        return changed(
            reading,
            interfaces=interfaces(f"{proc}/1/net/dev") or interfaces(f"{proc}/net/dev") or (),
            disk=look.disk,
            images=look.images,
            disks=file_systems(points, look.at, proc),
            max_pid=node.max_pid(proc),
            tasks=node.tasks(proc),
        )

    def _groups_between(self, pods: Sequence[PodReading], look: "_Look") -> tuple[GroupReading, ...]:
        paths: set[str] = set()
        for pod in pods:
            above = os.path.dirname(pod.group)
            while len(above) > 1 and above not in paths:
                paths.add(above)
                above = os.path.dirname(above)
        return tuple(self._group(path, look) for path in sorted(paths))

    def _group(self, path: str, look: "_Look") -> GroupReading:
        folders = self._hierarchy.everywhere(path)
        try:
            started = max(self._boot, os.stat(next(iter(folders.values()))).st_mtime)
        except (OSError, StopIteration):
            started = 0.0
        return GroupReading(group=path, usage=self._usage(path, folders, look), started=started)

    def _system_parts(self, look: "_Look", whole: Usage) -> dict[str, GroupReading]:
        pods = self._group(self._settings.pods_group, look) if self._settings.pods_group else None
        shims = {place.tree for place in look.places.values() if place.tree}
        usage_of = partial(self._usage, look=look)
        return self._system.read(look.at, whole, pods, shims, usage_of, self._with_rate)

    # --- groups

    @cached_property
    def _hierarchy(self) -> Hierarchy:
        return Hierarchy.found(self._settings.proc)

    @cached_property
    def _system(self) -> SystemReader:
        return SystemReader(self._settings.proc, self._hierarchy, self._settings.runtime_socket)

    @cached_property
    def _boot(self) -> float:
        return node.boot_time(self._settings.proc)

    def _folders_of(self, key: str, place: Place) -> Folders:
        if place.cgroups is not None:
            return place.cgroups
        known = self._folders.get(key)
        if known is None or known[0] != place.pid:
            membership = read(f"{self._settings.proc}/{place.pid}/cgroup") if place.pid else None
            if membership is None:
                return {}
            paths = self._hierarchy.paths(membership)
            known = self._folders[key] = (place.pid, self._hierarchy.folders(paths))
        return known[1]

    def _own_group(self, uid: str, below: Iterable[Folders]) -> Folders | None:
        """The parent of a container's groups, where its name says that it is the pod's."""
        endings = (f"pod{uid}", f"pod{uid.replace('-', '_')}.slice")
        for folders in below:
            parents = {name: os.path.dirname(folder) for name, folder in folders.items()}
            own = {name: folder for name, folder in parents.items() if folder.endswith(endings)}
            if own:
                return own
        return None

    def _counted(self, key: str, usage: Usage, folders: Folders, place: Place, look: "_Look") -> Usage:
        if place.tree and usage.processes is not None:
            pids = [str(pid) for pid in look.processes.below(place.tree)]
        elif (found := self._groups.pids(folders)) is not None:
            pids = [pid.decode() for pid in found]
            usage = changed(usage, processes=len(pids))
        else:
            return usage
        usage = looked_into(usage, self._settings.proc, pids, look.images.device if look.images else "")
        return changed(usage, loads=self._loads.of(key, look.at, usage.states)) if usage.states else usage

    def _usage(self, key: str, folders: Folders, look: "_Look") -> Usage:
        return self._with_rate(key, self._groups.usage(folders, look.at, details=look.details))

    def _with_rate(self, key: str, usage: Usage) -> Usage:
        if usage.cpu is None:
            return usage
        rate = self._rates.of(key, usage.at, usage.cpu.total)
        return usage if rate is None else changed(usage, cpu=changed(usage.cpu, rate=rate))


class _Look(Struct, frozen=True, dict=True):
    """What is the same for everybody in one reading."""

    proc: str
    places: Mapping[str, Place]
    volumes: Mapping[str, Sequence[FoundVolume]]
    at: int
    details: bool
    disk: Disk | None
    images: Disk | None
    hidden: bool = False

    @cached_property
    def processes(self) -> ProcessTable:
        return ProcessTable(self.proc)


def _filled(usage: Usage, processes: Usage) -> Usage:
    """What the groups do not count is taken from the processes."""
    memory = processes.memory if usage.memory is None else usage.memory
    return changed(
        usage,
        cpu=usage.cpu or processes.cpu,
        memory=memory,
        processes=processes.processes,
        threads=usage.threads if usage.threads is not None else processes.threads,
    )


def _volumes(volumes: Iterable[FoundVolume], known: Callable[[str], Measured | None]) -> Iterable[VolumeUsage]:
    for volume in volumes:
        if (usage := volume_usage(volume, known)) is not None:
            yield usage


def _file(dirs: PodDirs, uid: str) -> tuple[int, int]:
    try:
        return os.stat(dirs.etc_hosts(uid)).st_blocks * 512, 1
    except (OSError, PykubeletError):
        return 0, 0

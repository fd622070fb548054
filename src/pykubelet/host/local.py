"""This machine as the home of pods: folders, volumes and files, put together."""

from collections.abc import Callable, Mapping

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.base.errors import PykubeletError
from pykubelet.host.dirs import PodDirs
from pykubelet.host.etc_hosts import write_etc_hosts
from pykubelet.host.logs import PodLogs
from pykubelet.host.user_namespaces import UserNamespaces
from pykubelet.host.volumes import Volumes
from pykubelet.host.volumes.claims import ThisNode
from pykubelet.pod.container.env import Environment
from pykubelet.pod.container.failures import FoldersFailed
from pykubelet.pod.container.mounts import container_mounts
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.moments import Journal
from pykubelet.pod.ports.api import PodObjects, Recorder, VolumeClaims
from pykubelet.pod.ports.csi import CsiVolumes
from pykubelet.pod.ports.runtime import ContainerMounts


class LocalHost:
    """The PodHost of a machine that runs its pods itself.

    `memory` is what the node has for pods, in bytes. `recursive_read_only` says whether the runtime can make what is
    mounted below a mount read-only too. `users` gives ranges of users to pods; None where pods have the machine's own.
    `objects`, `claims`, `drivers`, `node`, `allocatable` and `recorder` are for volumes made of other objects;
    `image_volumes` says whether images may be volumes.
    """

    def __init__(
        self,
        dirs: PodDirs,
        *,
        memory: int,
        cluster_domain: str = "",
        recursive_read_only: bool = False,
        users: UserNamespaces | None = None,
        logs: PodLogs | None = None,
        objects: PodObjects | None = None,
        claims: VolumeClaims | None = None,
        drivers: CsiVolumes | None = None,
        node: ThisNode = lambda: ("", {}),
        allocatable: Callable[[], ResourceList] = dict,
        recorder: Recorder | None = None,
        journal: Journal | None = None,
        image_volumes: bool = False,
    ) -> None:
        self._dirs = dirs
        self._users = users
        self._logs = logs
        self._volumes = Volumes(
            dirs,
            memory=memory,
            objects=objects,
            claims=claims,
            drivers=drivers,
            node=node,
            allocatable=allocatable,
            recorder=recorder,
            journal=journal,
            images=image_volumes,
        )
        self.volume_counts = self._volumes.counts
        self.claimed = self._volumes.claimed
        self._cluster_domain = cluster_domain
        self._recursive_read_only = recursive_read_only

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        try:
            await self._dirs.make(pod)
        except PykubeletError as error:
            raise FoldersFailed(f"error making pod data directories: {error}") from error
        return await self._volumes.set_up(pod)

    async def mounts(
        self,
        pod: Pod,
        container: Container,
        attempt: int,
        volumes: Mapping[str, str],
        env: Environment,
        pod_ips: tuple[str, ...],
    ) -> ContainerMounts:
        hosts = self._dirs.etc_hosts(pod.metadata.uid)
        termination_log = await self._dirs.make_container(pod, container.name, attempt)
        mounts = container_mounts(
            pod,
            container,
            volumes,
            sub_paths=await self._volumes.prepare_sub_paths(pod, container, volumes, env),
            etc_hosts=await write_etc_hosts(hosts, pod, pod_ips, cluster_domain=self._cluster_domain),
            termination_log=termination_log,
            recursive_read_only=self._recursive_read_only,
        )
        said = termination_log if container.termination_message_path else ""
        return ContainerMounts(mounts=mounts, termination_message_path=said)

    async def id_mappings(self, pod: Pod) -> tuple[IdMapping, ...]:
        return await self._users.mappings(pod) if self._users else ()

    async def tear_down(self, uid: str) -> None:
        await self._volumes.tear_down(uid)
        await self._release_users(uid)

    async def remove(self, uid: str) -> None:
        await self._release_users(uid)
        await self._dirs.remove_logs(uid)
        await self._dirs.remove(uid)  # the last to go: while it is there, whoever comes after us sees that work is left

    async def uids(self) -> frozenset[str]:
        folders = frozenset(await self._dirs.uids())
        return folders | await self._logs.uids() if self._logs else folders

    async def _release_users(self, uid: str) -> None:
        if self._users is not None:
            await self._users.release(uid)

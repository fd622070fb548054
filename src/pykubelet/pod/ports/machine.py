"""What a pod needs on this machine besides its containers, as contracts."""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Literal, Protocol

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.ports.runtime import ContainerMounts
from pykubelet.pod.resize.allocation import Allocations


class PodHost(Protocol):
    """What a pod needs on this machine besides its containers: folders, volumes, files.

    Everything may be called again. Raises base.errors; Invalid with a text that names what cannot be provided.
    """

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        """Make the pod's folders and volumes. -> the path on this machine of each volume, by name."""
        ...

    async def mounts(
        self,
        pod: Pod,
        container: Container,
        attempt: int,
        volumes: Mapping[str, str],
        env: tuple[tuple[str, str], ...],
        pod_ips: tuple[str, ...],
    ) -> ContainerMounts:
        """What is mounted into one container, with the files that have to be there first."""
        ...

    async def id_mappings(self, pod: Pod) -> tuple[IdMapping, ...]:
        """The range of users that a pod with users of its own has; empty for others."""
        ...

    async def tear_down(self, uid: str) -> None:
        """Unmount the volumes of a stopped pod, also one that an earlier agent ran, and take their content away."""
        ...

    async def remove(self, uid: str) -> None:
        """Take away what is left of a pod: its folder and its logs."""
        ...

    async def uids(self) -> frozenset[str]:
        """The pods that have a folder here."""
        ...


class PodCgroups(Protocol):
    """The control groups that pods live in, where the kernel counts and limits what a whole pod uses.

    Everything may be called again. Raises base.errors.
    """

    async def set_up(self, pod: Pod, *, unlimited_quota: bool = False) -> str:
        """Make the pod's group with its limits, or bring them up to date; without a quota of processor time, if that is
        not to be. -> what the runtime is told to be the parent
        of the pod's containers; empty where there are no groups."""
        ...

    async def remove(self, uid: str) -> None:
        """Take the group of a stopped pod away, with whatever process is left in it. Harmless when it is gone."""
        ...

    async def orphan_groups(self, known: Collection[str]) -> frozenset[str]:
        """The pods, other than those known, that have a group here in which nothing runs. A group where something runs
        may be that of another agent on this machine, and is nobody else's business."""
        ...

    async def clear(self) -> None:
        """The agent is gone for good, and so are its pods: leave no empty group behind. Never raises."""
        ...

    async def limit_node(self) -> None:
        """Bound what all pods have together. Raises Retry while they have more."""
        ...

    async def balance(self, pods: Collection[Pod]) -> None:
        """Give the classes of service their share, by what the pods that run ask for."""
        ...


class PinningStore(Protocol):
    """Where it is written down which containers have processors and memory of their own."""

    async def write(self, name: str, content: bytes) -> None:
        """Let a state file have this content, for good when this returns. Raises Retry."""
        ...


class LogFiles(Protocol):
    """The containers' log files."""

    async def link(self, namespace: str, pod: str, uid: str, container: str, attempt: int, container_id: str) -> None:
        """Let log collectors find the log of a container that was just started. Never raises."""
        ...

    async def attempts(self, namespace: str, pod: str, uid: str, container: str) -> int:
        """How often a container was started, by the logs that there are of it. Never raises."""
        ...

    async def forget(self, namespace: str, pod: str, uid: str, container: str, attempt: int, container_id: str) -> None:
        """The container was removed: so is its log. Raises base.errors."""
        ...


class AllocationStore(Protocol):
    """Remembers what pods were given and what their containers were told to have, for an agent that comes later."""

    def load(self) -> Allocations:
        """What was saved last. Blocks: called once, before the agent runs. What cannot be read is told and left out."""
        ...

    def save(self, allocations: Allocations) -> None:
        """Soon. Never waits; of several only the last is written."""
        ...

    async def saved(self) -> None:
        """Wait until what was saved last is on disk. Raises Retry."""
        ...


class Checkpoint(Protocol):
    """Remembers the admitted pods of the API server, for the day that the agent starts and the server is away."""

    def save(self, pod: Pod) -> None: ...

    def drop(self, uid: str) -> None: ...


class ShutdownNotices(Protocol):
    """As long as the machine is listened to."""

    async def hold(self) -> None:
        """The machine does not go down before `let_go`, or before its patience ends. Raises Retry."""
        ...

    def let_go(self) -> None: ...

    def told(self) -> AsyncGenerator[bool, None]:
        """Whether it is about to go down, each time that this is said. Ends when nothing more can be heard."""
        ...


class ShutdownNotice(Protocol):
    """Who knows that the machine is about to go down."""

    def notices(self, seconds: float) -> AbstractAsyncContextManager[ShutdownNotices]:
        """Listen, with the machine held for that long. Raises NotFound where nobody knows, Retry."""
        ...


class ShutdownTimes(Protocol):
    """When the last shutdown that was waited for began and ended, kept over the reboot."""

    async def load(self) -> tuple[datetime | None, datetime | None]:
        """Never raises."""
        ...

    async def save(self, began: datetime, ended: datetime | None) -> None:
        """Raises OSError."""
        ...


LastKind = Literal[
    "configmap", "secret", "token", "runtimeclass", "services", "node", "claimedvolume", "csidrivers", "resourceclaim"
]


class LastKnown(Protocol):
    """What an API server said to the agent that ran here before. It is believed until the server says something itself.

    No method waits, and none fails.
    """

    def keeps(self, kind: LastKind) -> bool:
        """Whether such things may be kept at all."""
        ...

    def recall(self, kind: LastKind, *key: str) -> bytes | None: ...

    def save(self, kind: LastKind, *key: str, content: Callable[[], bytes]) -> None:
        """For an agent that comes later. `content` is asked for when it is written."""
        ...

    def drop(self, kind: LastKind, *key: str) -> None: ...

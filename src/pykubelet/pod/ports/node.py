"""What it takes to report a node: the facts of the machine, the health of the runtime, and somewhere to report to."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from pykubelet.api.node import Node
from pykubelet.pod.ports.runtime import Image, RuntimeStatus, RuntimeVersion


class MachineFacts(Struct, frozen=True, kw_only=True):
    """One look at a machine. Amounts are bytes. What could not be found out is empty, or None."""

    hostname: str
    ips: tuple[str, ...]
    """The addresses that others reach this node at, the first one preferred. At most one of each family."""
    cpus: int
    memory: int
    cpu_cores: int = 0
    """Cores, each of which may be several cpus; 0: unknown."""
    cpu_sockets: int = 0
    cpus_online: str = ""
    """Their numbers, such as `0-3`; empty: unknown."""
    storage: int | None = None
    """The size of the file system that pods write to."""
    swap: int = 0
    hugepages: Mapping[int, int] = {}
    """By the size of a page: how much there is of it."""
    operating_system: str = "linux"
    architecture: str = ""
    """As Go spells it: amd64, arm64."""
    kernel_version: str = ""
    os_image: str = ""
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    cgroup_version: int = 0
    """0: it has no control groups."""
    has_app_armor: bool = False


class RuntimeHealth(Protocol):
    """The part of the Runtime port that tells about the runtime itself."""

    async def version(self) -> RuntimeVersion: ...

    async def status(self) -> RuntimeStatus: ...

    async def images(self) -> tuple[Image, ...]: ...


class NodeApi(Protocol):
    """What the agent does to its node on an API server. Raises base.errors."""

    async def get(self, name: str) -> Node: ...

    async def create(self, node: Node) -> Node:
        """With its status. Conflict when there is a node of this name."""
        ...

    async def patch(self, name: str, patch: Mapping[str, Any]) -> Node:
        """Strategic merge patch of everything but the status."""
        ...

    async def patch_status(self, name: str, patch: Mapping[str, Any]) -> Node:
        """Strategic merge patch of the status."""
        ...


class NodeRecorder(Protocol):
    """Where events about the node go. Never waits and never fails."""

    def node_event(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None: ...

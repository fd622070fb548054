"""Devices that plug-ins bring, as a contract."""

from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.pod.pinning.topology_hints import Hints
from pykubelet.pod.ports.runtime import Device, Mount


class ContainerDevices(Struct, frozen=True, kw_only=True):
    """What a container needs to use its devices."""

    env: Mapping[str, str] = {}
    """What the container says itself counts more."""
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    annotations: Mapping[str, str] = {}
    cdi_devices: tuple[str, ...] = ()
    """By the names that the runtime, or somebody for it, finds them under."""


class Devices(Protocol):
    def wants(self, pod: Pod, *, is_running: bool) -> bool:
        """Whether a pod asks for devices that it does not have yet, or is not sure to have: those that an earlier agent
        gave to containers that have ended since. What runs has its own."""
        ...

    async def allocate(self, pod: Pod) -> None:
        """Have the devices of all its containers chosen and made ready, unless they are. Raises Invalid when the pod
        cannot have them: it is not tried again."""
        ...

    async def prepared(self, pod: Pod, container: Container) -> ContainerDevices:
        """What to start the container with. Raises base.errors."""
        ...

    def release(self, uid: str) -> None:
        """The pod has ended."""
        ...

    def retain(self, uids: Collection[str]) -> None:
        """There are no other pods: what any other had is free."""
        ...

    def hints(self, pod: Pod, container: Container, nodes: tuple[int, ...]) -> Hints:
        """On which of these NUMA nodes a container's devices could be had together."""
        ...

    def pod_hints(self, pod: Pod, nodes: tuple[int, ...]) -> Hints:
        """The same for all containers of a pod."""
        ...

    def keep_to(self, uid: str, container: str, nodes: tuple[int, ...] | None) -> None:
        """Where a container's devices are to come from; None: anywhere."""
        ...

"""Claims on devices, as contracts: what a node does with those of its pods, and what it asks an API server for that."""

from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Protocol

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod, ResourceStatus
from pykubelet.api.resource_claims import DeviceClaim
from pykubelet.pod.ports.devices import ContainerDevices


class Claims(Protocol):
    """Everything may be called again. Raises `pod.claims.failures.ClaimFailed`."""

    def lacks(self, pod: Pod) -> bool:
        """Whether nothing is known of a claim that the pod uses."""
        ...

    async def prepare(self, pod: Pod) -> None:
        """Have all claims of a pod made ready by their drivers, unless they are."""
        ...

    async def given(self, pod: Pod, container: Container) -> ContainerDevices:
        """What to start the container with. Raises base.errors."""
        ...

    async def unprepare(self, uid: str) -> None:
        """Nothing of the pod runs any more: what only it has used is given back."""
        ...

    def retain(self, uids: Collection[str]) -> None:
        """There are no other pods: what any other has used is given back when its driver can be reached."""
        ...


class ClaimApi(Protocol):
    """Raises base.errors."""

    async def claim(self, namespace: str, name: str) -> DeviceClaim: ...

    async def remove_slices(self, driver: str = "") -> None:
        """Tell nobody any more that there are devices of a driver on this node; empty: of any."""
        ...


class DeviceHealth(Protocol):
    """Devices of any kind that containers have."""

    def of(self, pod: Pod) -> Mapping[str, tuple[ResourceStatus, ...]]:
        """By container: what it has, and how well that is."""
        ...

    def changes(self) -> AsyncGenerator[frozenset[str], None]:
        """Uids of pods that have something of which that has changed."""
        ...

"""Storage drivers, as contracts: what a node wants of them, and what it has to ask an API server for that."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.storage import ClaimedVolume, CSIDriverSpec, PersistentVolumeClaim, SecretReference
from pykubelet.pod.stats.stats import Disk, VolumeHealth


class CsiVolume(Struct, frozen=True, kw_only=True):
    """One volume for one pod."""

    driver: str
    handle: str
    """By which the driver knows it; empty: it is the pod's own, and the driver makes it."""
    name: str
    """Of the persistent volume, or of the pod's."""
    fs_type: str = ""
    attributes: Mapping[str, str] = {}
    access_modes: tuple[str, ...] = ("ReadWriteOnce",)
    mount_options: tuple[str, ...] = ()
    read_only: bool = False
    is_block: bool = False
    stage_secret: SecretReference | None = None
    publish_secret: SecretReference | None = None
    expand_secret: SecretReference | None = None
    claimed: ClaimedVolume | None = None
    """The claim and the volume behind it, as they are now."""

    @property
    def is_ephemeral(self) -> bool:
        return not self.handle


class CsiMounted(Struct, frozen=True):
    path: str
    wants_group: bool = False
    """The pod's group is for us to give it to: the driver does not."""


class CsiVolumes(Protocol):
    """Drivers on this node. Everything may be called again. Raises base.errors."""

    async def set_up(self, pod: Pod, volume: CsiVolume, group: int | None) -> CsiMounted:
        """Have it where the pod's containers can use it. `group` is that of the pod's files, if it has one."""
        ...

    async def tear_down(self, uid: str, name: str) -> None:
        """Give back the volume of that name, from what is found on disk alone."""
        ...

    def forget(self, uid: str) -> None:
        """The pod has no volumes any more, not even one that it waits for."""
        ...

    async def usage(self, uid: str, name: str) -> tuple[Disk, VolumeHealth | None] | None:
        """How full that volume is, and how well. None: its driver does not tell."""
        ...


class CsiApi(Protocol):
    """What drivers need of an API server. Raises base.errors."""

    async def driver(self, name: str) -> CSIDriverSpec:
        """What is said of a driver; all defaults where nothing is."""
        ...

    async def attached(self, attachment: str) -> Mapping[str, str]:
        """What has come of attaching a volume to this node. Retry while it is not attached."""
        ...

    async def patch_claim(self, claim: PersistentVolumeClaim, patch: Mapping[str, Any]) -> PersistentVolumeClaim:
        """Strategic merge patch of a claim's status. Conflict when the patch names another version of it."""
        ...

    async def secret(self, reference: SecretReference) -> Mapping[str, str]: ...

    async def token(self, pod: Pod, audience: str, seconds: int | None) -> str: ...

    async def install(self, driver: str, node_id: str, topology: Mapping[str, str], most_volumes: int) -> None:
        """Tell that a driver is on this node."""
        ...

    async def uninstall(self, driver: str) -> None: ...

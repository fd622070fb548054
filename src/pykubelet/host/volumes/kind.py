"""What one kind of volume has to do."""

from typing import Protocol

from pykubelet.api.pod import Pod
from pykubelet.api.volumes import Volume


class Kind(Protocol):
    """One kind of volume. Calls for one pod never overlap; OSErrors are translated by the caller."""

    field: str
    """The field of Volume that asks for this kind."""
    plugin: str
    """Upstream's name of it, which names its folder on disk."""

    async def set_up(self, pod: Pod, volume: Volume) -> str:
        """Make the volume. -> where it is on this machine. May be called again, for each sync of a running pod."""
        ...

    async def tear_down(self, uid: str, name: str) -> None:
        """Give back the volume of that name, from what is found on disk alone: nobody may know its pod any more.

        May be called again. Its folder under `PodDirs.volumes` is gone afterwards.
        """
        ...

"""image: the files of an image. The container runtime mounts them when it makes a container; nothing is done before."""

from pykubelet.api.pod import Pod
from pykubelet.api.volumes import Volume


class ImageVolume:
    field = "image"
    plugin = "kubernetes.io/image"

    async def set_up(self, pod: Pod, volume: Volume) -> str:
        """It is nowhere on this machine, as far as the agent knows."""
        return ""

    async def tear_down(self, uid: str, name: str) -> None:
        """The runtime gives it back with the container."""

"""downwardAPI: what a pod may learn of itself, as files that follow its labels and annotations."""

from collections.abc import Callable

from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.api.volumes import DownwardAPIVolumeSource, Volume
from pykubelet.pod.container.projected_volumes import Files, downward_files


class DownwardApiContent:
    """`allocatable` is what the node has for pods: what a container without a limit may use."""

    field = "downward_api"
    plugin = "kubernetes.io/downward-api"
    in_memory = True

    def __init__(self, allocatable: Callable[[], ResourceList]) -> None:
        self._allocatable = allocatable

    async def files(self, pod: Pod, volume: Volume, *, fresh: bool) -> Files:
        source = volume.downward_api or DownwardAPIVolumeSource()
        return downward_files(source.items, pod, source.default_mode, self._allocatable())

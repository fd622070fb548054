"""configMap: the keys of a config map as files."""

from pykubelet.api.objects import ConfigMap
from pykubelet.api.pod import Pod
from pykubelet.api.volumes import ConfigMapProjection, ConfigMapVolumeSource, Volume
from pykubelet.base.errors import NotFound
from pykubelet.pod.container.projected_volumes import Files, config_map_files
from pykubelet.pod.ports.api import PodObjects


class ConfigMapContent:
    field = "config_map"
    plugin = "kubernetes.io/configmap"
    in_memory = False

    def __init__(self, objects: PodObjects) -> None:
        self._objects = objects

    async def files(self, pod: Pod, volume: Volume, *, fresh: bool) -> Files:
        source = volume.config_map or ConfigMapVolumeSource()
        return await read_config_map(self._objects, pod, source, source.default_mode, fresh=fresh)


async def read_config_map(
    objects: PodObjects,
    pod: Pod,
    source: ConfigMapVolumeSource | ConfigMapProjection,
    default_mode: int | None,
    *,
    fresh: bool,
) -> Files:
    """An optional one that is missing has no files."""
    optional = bool(source.optional)
    try:
        found = await objects.config_map(pod, source.name, fresh=fresh)
    except NotFound:
        if not optional:
            raise
        found = ConfigMap()
    return config_map_files(found, source.items, default_mode, optional=optional)

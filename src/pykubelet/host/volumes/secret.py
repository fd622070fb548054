"""secret: the keys of a secret as files."""

from pykubelet.api.objects import Secret
from pykubelet.api.pod import Pod
from pykubelet.api.volumes import SecretProjection, SecretVolumeSource, Volume
from pykubelet.base.errors import NotFound
from pykubelet.pod.container.projected_volumes import Files, secret_files
from pykubelet.pod.ports.api import PodObjects


class SecretContent:
    field = "secret"
    plugin = "kubernetes.io/secret"
    in_memory = True

    def __init__(self, objects: PodObjects) -> None:
        self._objects = objects

    async def files(self, pod: Pod, volume: Volume, *, fresh: bool) -> Files:
        source = volume.secret or SecretVolumeSource()
        return await read_secret(self._objects, pod, source.secret_name, source, source.default_mode, fresh=fresh)


async def read_secret(
    objects: PodObjects,
    pod: Pod,
    name: str,
    source: SecretVolumeSource | SecretProjection,
    default_mode: int | None,
    *,
    fresh: bool,
) -> Files:
    """An optional one that is missing has no files."""
    optional = bool(source.optional)
    try:
        found = await objects.secret(pod, name, fresh=fresh)
    except NotFound:
        if not optional:
            raise
        found = Secret()
    return secret_files(found, source.items, default_mode, optional=optional)

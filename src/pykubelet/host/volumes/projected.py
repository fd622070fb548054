"""projected: files of several sources in one volume, among them tokens of the pod's service account.

Nearly every pod of a cluster has one of these: with it, programs reach the API server.
"""

from collections.abc import Callable

from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.api.volumes import ProjectedVolumeSource, ServiceAccountTokenProjection, Volume, VolumeProjection
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.host.volumes.config_map import read_config_map
from pykubelet.host.volumes.secret import read_secret
from pykubelet.pod.container.failures import Unsupported
from pykubelet.pod.container.projected_volumes import FileProjection, Files, downward_files, token_file
from pykubelet.pod.ports.api import PodObjects


class ProjectedContent:
    """`objects` is None on a node without an API server, where a pod can still learn of itself."""

    field = "projected"
    plugin = "kubernetes.io/projected"
    in_memory = True

    def __init__(self, objects: PodObjects | None, allocatable: Callable[[], ResourceList]) -> None:
        self._objects = objects
        self._allocatable = allocatable

    async def files(self, pod: Pod, volume: Volume, *, fresh: bool) -> Files:
        """A file of a later source replaces one of an earlier. Raises Retry with all that is missing."""
        source = volume.projected or ProjectedVolumeSource()
        files: dict[str, FileProjection] = {}
        errors: list[PykubeletError] = []
        for part in source.sources:
            try:
                files |= await self._part(pod, part, source.default_mode, fresh)
            except PykubeletError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise Retry(f"[{', '.join(dict.fromkeys(map(str, errors)))}]")
        return files

    async def _part(self, pod: Pod, part: VolumeProjection, default_mode: int | None, fresh: bool) -> Files:
        if part.downward_api is not None:
            return downward_files(part.downward_api.items, pod, default_mode, self._allocatable())
        objects = self._objects
        if objects is None:
            raise Invalid("this node has no API server to get it from")
        if part.config_map is not None:
            return await read_config_map(objects, pod, part.config_map, default_mode, fresh=fresh)
        if part.secret is not None:
            return await read_secret(objects, pod, part.secret.name, part.secret, default_mode, fresh=fresh)
        if part.service_account_token is not None:
            return await _token(objects, pod, part.service_account_token, default_mode)
        raise Unsupported("a projected volume", "a source of another kind")


async def _token(
    objects: PodObjects, pod: Pod, wanted: ServiceAccountTokenProjection, default_mode: int | None
) -> Files:
    token = await objects.service_account_token(
        pod.metadata.namespace, pod.spec.service_account_name, wanted.audience, wanted.expiration_seconds, pod
    )
    return token_file(pod, wanted.path, token, default_mode)

"""Which volume is behind a claim, asked of an API server; one that has answered before is believed while it is away."""

from typing import Final

from pykubelet.api.storage import ClaimedVolume, PersistentVolume, PersistentVolumeClaim
from pykubelet.base.errors import Conflict, NotFound, PykubeletError, Retry
from pykubelet.kube.before import Before
from pykubelet.kube.client import ApiClient, object_path

_SOON: Final = 2.0


class KubeClaims:
    """The VolumeClaims port over HTTP."""

    def __init__(self, server: ApiClient, before: Before | None = None) -> None:
        self._server = server
        self._before = before or Before()

    async def claimed(self, namespace: str, name: str) -> ClaimedVolume:
        known = self._before.recall(ClaimedVolume, "claimedvolume", namespace, name)
        try:
            asked = self._ask(namespace, name)
            found = await (asked if known is None else self._before.or_else(asked, known))
        except PykubeletError as error:
            what = f"error processing PVC {namespace}/{name}: {error}"
            raise NotFound(what) if isinstance(error, NotFound) else Retry(what, after=_SOON) from error
        if found is not known:
            self._before.save("claimedvolume", namespace, name, value=lambda: found)
        return found

    async def _ask(self, namespace: str, name: str) -> ClaimedVolume:
        """Raises Conflict when the server says that it cannot be used now, which is not the same as no answer."""
        path = object_path("persistentvolumeclaims", namespace=namespace, name=name)
        try:
            claim = await self._server.get(path, PersistentVolumeClaim)
        except NotFound as error:
            raise NotFound(f"failed to fetch PVC from API server: {error}") from error
        if claim.metadata.deletion_timestamp is not None:
            raise Conflict("PVC is being deleted")
        if claim.status.phase != "Bound" or not claim.spec.volume_name:
            raise Conflict("PVC is not bound")
        path = object_path("persistentvolumes", name=claim.spec.volume_name)
        try:
            volume = await self._server.get(path, PersistentVolume)
        except NotFound as error:
            raise NotFound(f"failed to fetch PV {claim.spec.volume_name} from API server: {error}") from error
        ref = volume.spec.claim_ref
        if ref is None or ref.uid != claim.metadata.uid:
            raise Conflict(f"PV {claim.spec.volume_name} is bound to a different PVC")
        return ClaimedVolume(claim, volume)

"""What the node does to single objects of an API server."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pykubelet.api.objects import Secret
from pykubelet.api.pod import Pod
from pykubelet.base.errors import NotFound
from pykubelet.kube.errors import ObjectConflict, Refused
from pykubelet.kube.pods import slim
from pykubelet.kube.rest import ApiServer, object_path


class KubePods:
    """The PodApi port over HTTP. Answers come without managed fields."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def get(self, namespace: str, name: str) -> Pod:
        return slim(await self._server.get(object_path("pods", namespace=namespace, name=name), Pod))

    async def patch_status(self, namespace: str, name: str, uid: str, patch: Mapping[str, Any]) -> Pod:
        path = object_path("pods", namespace=namespace, name=name, subresource="status")
        bound = {**patch, "metadata": {**patch.get("metadata", {}), "uid": uid}}
        try:
            return slim(await self._server.patch(path, bound, Pod))
        except Refused as error:
            if _is_of_another_uid(error):
                raise ObjectConflict(str(error), status=error.status) from None
            raise

    async def create(self, pod: Pod) -> Pod:
        return slim(await self._server.create(object_path("pods", namespace=pod.metadata.namespace), pod, Pod))

    async def delete(self, namespace: str, name: str, uid: str, grace: int) -> None:
        path = object_path("pods", namespace=namespace, name=name)
        with suppress(NotFound):
            await self._server.delete(path, uid=uid, grace_period_seconds=grace)


class KubeSecrets:
    """The Secrets port over HTTP."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def secret(self, namespace: str, name: str) -> Secret:
        return await self._server.get(object_path("secrets", namespace=namespace, name=name), Secret)


def _is_of_another_uid(error: Refused) -> bool:
    """A patch has no preconditions: to the server, ours is an attempt to change the uid of another pod."""
    details = error.status.details
    return details is not None and any(cause.field == "metadata.uid" for cause in details.causes)

"""What the node does to single objects of an API server."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import Lease
from pykubelet.api.pod import Pod
from pykubelet.api.struct import Struct, written
from pykubelet.base.errors import NotFound, Retry
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.errors import ObjectConflict, Refused
from pykubelet.kube.pods import slim

log = logging.getLogger(__name__)

_NODE_GROUP: Final = "node.k8s.io/v1"
_CLASS_HOLDS: Final = 60.0
_LEASES: Final = "kube-node-lease"


class KubePods:
    """The PodApi port over HTTP. Answers come without managed fields."""

    def __init__(self, server: ApiClient) -> None:
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


class RuntimeClass(Struct, frozen=True):
    """The part of it that a node needs: overhead and scheduling are in the pod when it arrives."""

    metadata: ObjectMeta = written(ObjectMeta)
    handler: str = ""


class KubeRuntimeClasses:
    """The RuntimeClasses port over HTTP. What was found is believed for a while, and for as long as the server does not
    answer: a pod that restarts should not have to wait for it."""

    def __init__(self, server: ApiClient) -> None:
        self._server = server
        self._known: dict[str, tuple[float, str]] = {}
        """By name: until when it need not be asked for, on the loop's clock, and its handler."""

    async def handler(self, name: str) -> str:
        now = asyncio.get_running_loop().time()
        until, handler = self._known.get(name, (None, ""))
        if until is not None and now < until:
            return handler
        try:
            found = await self._server.get(object_path("runtimeclasses", name=name, group=_NODE_GROUP), RuntimeClass)
        except NotFound:
            self._known.pop(name, None)
            raise NotFound(f'runtimeclass.node.k8s.io "{name}" not found') from None
        except Retry as error:
            if until is None:
                raise Retry(f"failed to lookup RuntimeClass {name}: {error}", after=error.after) from None
            log.info("runtime class %s is taken for what it was: %s", name, error)
            return handler
        self._known[name] = now + _CLASS_HOLDS, found.handler
        return found.handler


class KubeLeases:
    """Who has shown to be alive. Renewing a lease is another's work."""

    def __init__(self, server: ApiClient) -> None:
        self._server = server

    async def renewed_at(self, node_name: str) -> datetime | None:
        """When the lease of a node was last renewed; None when there is none, or it was never renewed."""
        path = object_path("leases", namespace=_LEASES, name=node_name, group="coordination.k8s.io/v1")
        with suppress(NotFound):
            return (await self._server.get(path, Lease)).spec.renew_time
        return None


def _is_of_another_uid(error: Refused) -> bool:
    """A patch has no preconditions: to the server, ours is an attempt to change the uid of another pod."""
    details = error.status.details
    return details is not None and any(cause.field == "metadata.uid" for cause in details.causes)

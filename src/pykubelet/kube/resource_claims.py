"""Claims on devices, asked of an API server, and what this node tells of devices, taken back there."""

from contextlib import suppress
from typing import Final

from pykubelet.api.resource_claims import DeviceClaim
from pykubelet.base.errors import NotFound
from pykubelet.kube.before import Before
from pykubelet.kube.client import ApiClient, object_path

_GROUP: Final = "resource.k8s.io/v1"


class KubeResourceClaims:
    """The ClaimApi port over HTTP, for one node. A claim that was seen before is believed while the server is away."""

    def __init__(self, server: ApiClient, node: str, before: Before | None = None) -> None:
        self._server = server
        self._node = node
        self._before = before or Before()

    async def claim(self, namespace: str, name: str) -> DeviceClaim:
        known = self._before.recall(DeviceClaim, "resourceclaim", namespace, name)
        asked = self._server.get(
            object_path("resourceclaims", namespace=namespace, name=name, group=_GROUP), DeviceClaim
        )
        try:
            found = await (asked if known is None else self._before.or_else(asked, known))
        except NotFound:
            self._before.drop("resourceclaim", namespace, name)
            raise
        if found is not known:
            self._before.save("resourceclaim", namespace, name, value=lambda: found)
        return found

    async def remove_slices(self, driver: str = "") -> None:
        selected = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        options = {"kind": "DeleteOptions", "apiVersion": "v1"}
        path = object_path("resourceslices", group=_GROUP)
        with suppress(NotFound):  # a server that knows no slices has none
            await self._server.request("DELETE", path, params={"fieldSelector": selected}, body=options)

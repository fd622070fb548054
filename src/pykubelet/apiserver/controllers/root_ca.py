"""Gives every namespace the authority by which pods in it know this server."""

from typing import Final

from pykubelet.apiserver.controllers.client import NAMESPACES, ControllerClient, Kind
from pykubelet.apiserver.objects import Object, at

CONFIG_MAPS: Final[Kind] = ("", "configmaps")
NAME: Final = "kube-root-ca.crt"
_DESCRIPTION: Final = "kubernetes.io/description"
_NOTE: Final = "Holds the authority by which clients can verify the certificate of the API server."


def is_active(namespace: Object) -> str:
    """Its name, or nothing when it is about to go."""
    return "" if at(namespace, "metadata.deletionTimestamp") else str(namespace["metadata"]["name"])


def authority_of(config_map: Object) -> tuple[str, str] | None:
    """namespace and content, if it is one of ours."""
    if config_map["metadata"]["name"] != NAME:
        return None
    return config_map["metadata"]["namespace"], at(config_map, "data", {}).get("ca.crt", "")


class RootCa:
    def __init__(self, client: ControllerClient, authority: str) -> None:
        """`authority`: its certificate, PEM."""
        self._client = client
        self._authority = authority

    async def run(self) -> None:
        await self._client.follow(self.sync, NAMESPACES, CONFIG_MAPS)

    async def sync(self) -> None:
        there = dict(each for each in await self._client.views(CONFIG_MAPS, authority_of) if each is not None)
        for namespace in await self._client.views(NAMESPACES, is_active):
            if namespace and there.get(namespace) != self._authority:
                await self._give(namespace)

    async def _give(self, namespace: str) -> None:
        metadata = {"name": NAME, "namespace": namespace, "annotations": {_DESCRIPTION: _NOTE}}
        data = {"ca.crt": self._authority}
        if await self._client.create(CONFIG_MAPS, {"metadata": metadata, "data": data}):
            return
        found = await self._client.find(CONFIG_MAPS, namespace, NAME)
        if found is not None and found.get("data") != data:
            await self._client.change(CONFIG_MAPS, found, lambda live: {**live, "data": data})

"""Gives every namespace the authority by which pods in it know this server, and those who extend the API the one by
which they know its clients."""

from typing import Final

from pykubelet.apiserver.controllers.client import NAMESPACES, ControllerClient, Kind
from pykubelet.apiserver.objects import Object, at

CONFIG_MAPS: Final[Kind] = ("", "configmaps")
NAME: Final = "kube-root-ca.crt"
_EXTENSIONS: Final = ("kube-system", "extension-apiserver-authentication")
_DESCRIPTION: Final = "kubernetes.io/description"
_NOTE: Final = "Holds the authority by which clients can verify the certificate of the API server."


def is_active(namespace: Object) -> str:
    """Its name, or nothing when it is about to go."""
    return "" if at(namespace, "metadata.deletionTimestamp") else str(namespace["metadata"]["name"])


def authority_of(config_map: Object) -> tuple[tuple[str, str], str] | None:
    """Its place and its content, if it is one of ours."""
    place = (config_map["metadata"]["namespace"], config_map["metadata"]["name"])
    if place[1] != NAME and place != _EXTENSIONS:
        return None
    return place, at(config_map, "data", {}).get(_key(place), "")


def _key(place: tuple[str, str]) -> str:
    return "client-ca-file" if place == _EXTENSIONS else "ca.crt"


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
            for place in ((namespace, NAME), _EXTENSIONS):
                if place[0] == namespace != "" and there.get(place) != self._authority:
                    with self._client.apart(f"configmap {'/'.join(place)}"):
                        await self._give(place)

    async def _give(self, place: tuple[str, str]) -> None:
        namespace, name = place
        metadata: Object = {"name": name, "namespace": namespace}
        if place != _EXTENSIONS:
            metadata["annotations"] = {_DESCRIPTION: _NOTE}
        data = {_key(place): self._authority}
        if await self._client.create(CONFIG_MAPS, {"metadata": metadata, "data": data}):
            return
        found = await self._client.find(CONFIG_MAPS, namespace, name)
        if found is None:
            return
        wanted = {**at(found, "data", {}), **data} if place == _EXTENSIONS else data  # others may add to that one
        if found.get("data") != wanted:
            await self._client.change(CONFIG_MAPS, found, lambda live: {**live, "data": wanted})

"""Gives every namespace the authority by which pods in it know this server, and those who extend the API the one by
which they know its clients."""

from typing import Final

from pykubelet.apiserver.controllers.client import NAMESPACES, ControllerClient, Kind
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.store.port import Event

CONFIG_MAPS: Final[Kind] = ("", "configmaps")
NAME: Final = "kube-root-ca.crt"
_EXTENSIONS: Final = ("kube-system", "extension-apiserver-authentication")
_NAMES: Final = (f"/{NAME}", f"/{_EXTENSIONS[1]}")
_DESCRIPTION: Final = "kubernetes.io/description"
_NOTE: Final = "Holds the authority by which clients can verify the certificate of the API server."


def is_active(namespace: Object) -> str:
    """Its name, or nothing when it is about to go."""
    return "" if at(namespace, "metadata.deletionTimestamp") else str(namespace["metadata"]["name"])


def authority_of(config_map: Object) -> str:
    """The content of one of ours."""
    place = (config_map["metadata"]["namespace"], config_map["metadata"]["name"])
    return str(at(config_map, "data", {}).get(_key(place), ""))


def _key(place: tuple[str, str]) -> str:
    return "client-ca-file" if place == _EXTENSIONS else "ca.crt"


class RootCa:
    def __init__(self, client: ControllerClient, authority: str) -> None:
        """`authority`: its certificate, PEM."""
        self._client = client
        self._authority = authority
        self._config_maps = client.resource(CONFIG_MAPS).prefix

    async def run(self) -> None:
        await self._client.follow(self.sync, NAMESPACES, CONFIG_MAPS, wanted=self._matters)

    def _matters(self, event: Event) -> bool:
        return event.key.endswith(_NAMES) or not event.key.startswith(self._config_maps)

    async def sync(self) -> None:
        for namespace in await self._client.views(NAMESPACES, is_active):
            for place in ((namespace, NAME), _EXTENSIONS):
                if place[0] == namespace != "" and await self._held(place) != self._authority:
                    with self._client.apart(f"configmap {'/'.join(place)}"):
                        await self._give(place)

    async def _held(self, place: tuple[str, str]) -> str | None:
        """What is there now."""
        entry = await self._client.backend.cache.get_newest(self._client.resource(CONFIG_MAPS).key(*place))
        found = self._client.seen(CONFIG_MAPS, (entry,), authority_of) if entry is not None else []
        return found[0] if found else None

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

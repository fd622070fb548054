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
_HEADERS: Final = {
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-username-headers": '["X-Remote-User"]',
}
"""How other API servers are told who somebody is, and by whom."""
_DESCRIPTION: Final = "kubernetes.io/description"
_NOTE: Final = "Holds the authority by which clients can verify the certificate of the API server."


def is_active(namespace: Object) -> str:
    """Its name, or nothing when it is about to go."""
    return "" if at(namespace, "metadata.deletionTimestamp") else str(namespace["metadata"]["name"])


def data_of(config_map: Object) -> dict[str, str]:
    """The content of one of ours."""
    return dict(at(config_map, "data", {}))


class RootCa:
    def __init__(self, client: ControllerClient, authority: str, front_proxy: str = "") -> None:
        """`authority`: its certificate, PEM; `front_proxy`: that of whom this server comes to other API servers as."""
        self._client = client
        self._config_maps = client.resource(CONFIG_MAPS).prefix
        self._given = {"ca.crt": authority}
        self._extended = {"client-ca-file": authority}
        if front_proxy:
            self._extended |= {"requestheader-client-ca-file": front_proxy, **_HEADERS}

    async def run(self) -> None:
        await self._client.follow(self.sync, NAMESPACES, CONFIG_MAPS, wanted=self._matters)

    def _matters(self, event: Event) -> bool:
        return event.key.endswith(_NAMES) or not event.key.startswith(self._config_maps)

    async def sync(self) -> None:
        for namespace in await self._client.views(NAMESPACES, is_active):
            for place in ((namespace, NAME), _EXTENSIONS):
                if place[0] == namespace != "" and not self._data(place).items() <= (await self._held(place)).items():
                    with self._client.apart(f"configmap {'/'.join(place)}"):
                        await self._give(place)

    async def _held(self, place: tuple[str, str]) -> dict[str, str]:
        """What is there now."""
        entry = await self._client.backend.cache.get_newest(self._client.resource(CONFIG_MAPS).key(*place))
        found = self._client.seen(CONFIG_MAPS, (entry,), data_of) if entry is not None else []
        return found[0] if found else {}

    def _data(self, place: tuple[str, str]) -> dict[str, str]:
        return self._extended if place == _EXTENSIONS else self._given

    async def _give(self, place: tuple[str, str]) -> None:
        namespace, name = place
        metadata: Object = {"name": name, "namespace": namespace}
        if place != _EXTENSIONS:
            metadata["annotations"] = {_DESCRIPTION: _NOTE}
        data = self._data(place)
        if await self._client.create(CONFIG_MAPS, {"metadata": metadata, "data": data}):
            return
        found = await self._client.find(CONFIG_MAPS, namespace, name)
        if found is None:
            return
        wanted = {**at(found, "data", {}), **data} if place == _EXTENSIONS else data  # others may add to that one
        if found.get("data") != wanted:
            await self._client.change(CONFIG_MAPS, found, lambda live: {**live, "data": wanted})

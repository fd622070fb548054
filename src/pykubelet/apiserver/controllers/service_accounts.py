"""Gives every namespace the account called default, for as long as it lives."""

from typing import Final

from pykubelet.apiserver.controllers.client import NAMESPACES, ControllerClient, Kind
from pykubelet.apiserver.controllers.root_ca import is_active
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.store.port import Event

ACCOUNTS: Final[Kind] = ("", "serviceaccounts")
_NAME: Final = "default"


def default_of(account: Object) -> str:
    """The namespace whose default account it is; empty when it is another."""
    return str(account["metadata"]["namespace"]) if account["metadata"]["name"] == _NAME else ""


class ServiceAccountController:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    async def run(self) -> None:
        await self._client.follow(self.sync, NAMESPACES, ACCOUNTS, wanted=_matters)

    async def sync(self) -> None:
        there = set(await self._client.views(ACCOUNTS, default_of))
        for namespace in await self._client.views(NAMESPACES, is_active):
            if namespace and namespace not in there:
                await self._client.create(ACCOUNTS, {"metadata": {"name": _NAME, "namespace": namespace}})


def _matters(event: Event) -> bool:
    return event.is_new or event.kind == "delete"

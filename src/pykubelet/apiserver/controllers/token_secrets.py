"""Fills secrets that ask for the token of a service account, for those who want one that lasts.

The token is bound to the secret: it holds for as long as the secret is there. A secret whose account is gone goes, too.
"""

import base64
from typing import Final

from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.controllers.service_accounts import ACCOUNTS
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.security.tokens import Bound, ServiceAccountTokens
from pykubelet.apiserver.store.port import Event

SECRETS: Final[Kind] = ("", "secrets")
TYPE: Final = "kubernetes.io/service-account-token"
NAME: Final = "kubernetes.io/service-account.name"
UID: Final = "kubernetes.io/service-account.uid"
_SECONDS: Final = 100 * 365 * 24 * 3600
_MARK: Final = f'"{TYPE}"'.encode()


def wanted(secret: Object) -> Object | None:
    """The secret, if it is one for a token."""
    return secret if secret.get("type") == TYPE else None


class TokenSecrets:
    def __init__(self, client: ControllerClient, tokens: ServiceAccountTokens, authority: bytes) -> None:
        """`authority`: its certificate, PEM, by which the holder knows this server."""
        self._client = client
        self._tokens = tokens
        self._authority = base64.b64encode(authority).decode()
        self._secrets, self._accounts = (client.resource(kind).prefix for kind in (SECRETS, ACCOUNTS))

    async def run(self) -> None:
        await self._client.follow(self.sync, SECRETS, ACCOUNTS, wanted=self._matters)

    def _matters(self, event: Event) -> bool:
        return event.key.startswith(self._accounts) or _MARK in event.value

    async def sync(self) -> None:
        for secret in await self._client.views(SECRETS, wanted):
            if secret is not None and not at(secret, "metadata.deletionTimestamp"):
                with self._client.apart(f"secret {secret['metadata']['namespace']}/{secret['metadata']['name']}"):
                    await self._look_at(secret)

    async def _look_at(self, secret: Object) -> None:
        metadata, notes = secret["metadata"], at(secret, "metadata.annotations", {})
        account = await self._client.find(ACCOUNTS, metadata["namespace"], notes.get(NAME, ""))
        if account is None or notes.get(UID, account["metadata"]["uid"]) != account["metadata"]["uid"]:
            await self._client.remove(SECRETS, secret)
        elif self._is_to_fill(secret, account):
            await self._client.change(SECRETS, secret, lambda live: self._filled(live, account))

    def _is_to_fill(self, secret: Object, account: Object) -> bool:
        data, notes = secret.get("data") or {}, at(secret, "metadata.annotations", {})
        is_known = notes.get(UID) == account["metadata"]["uid"] and data.get("ca.crt") == self._authority
        return not is_known or not data.get("token") or not data.get("namespace")

    def _filled(self, live: Object, account: Object) -> Object | None:
        if not self._is_to_fill(live, account):
            return None
        metadata, data = live["metadata"], dict(live.get("data") or {})
        data["ca.crt"] = self._authority
        data["namespace"] = base64.b64encode(metadata["namespace"].encode()).decode()
        if not data.get("token"):
            bound = Bound("Secret", metadata["name"], metadata["uid"])
            data["token"] = base64.b64encode(self._tokens.issue(account, (), _SECONDS, bound=bound).encode()).decode()
        notes = {**metadata.get("annotations", {}), UID: account["metadata"]["uid"]}
        return {**live, "metadata": {**metadata, "annotations": notes}, "data": data}

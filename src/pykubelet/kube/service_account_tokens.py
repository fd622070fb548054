"""Tokens of service accounts, each bound to one pod: asked for, kept in memory alone unless people want more, and
renewed before they end."""

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from pykubelet.api.pod import Pod
from pykubelet.api.struct import Int64, Struct, Time, written
from pykubelet.base.errors import PykubeletError, Retry
from pykubelet.kube.before import Before
from pykubelet.kube.client import ApiClient, object_path

log = logging.getLogger(__name__)

_LONGEST: Final = timedelta(hours=24)
_LEFT: Final = 0.2
"""Of its life, when a token is renewed."""
_JITTER: Final = 10.0
_SOONEST: Final = 10.0


class TokenRequestSpec(Struct, frozen=True):
    expiration_seconds: Int64 | None = None


class TokenRequestStatus(Struct, frozen=True):
    token: str = written(str)
    expiration_timestamp: Time | None = None

    def __repr__(self) -> str:
        return "TokenRequestStatus(...)"


class TokenRequest(Struct, frozen=True):
    """The answer to one."""

    spec: TokenRequestSpec = written(TokenRequestSpec)
    status: TokenRequestStatus = written(TokenRequestStatus)


class _Held(msgspec.Struct, frozen=True, kw_only=True):
    token: str
    expires: datetime
    renew: datetime
    is_recalled: bool = False
    """It was an earlier agent's, and nobody could be asked for another. It is given even after its end: whom it is for
    does not answer either, and a machine that has just come up may not know what time it is."""

    def __repr__(self) -> str:
        return f"_Held(expires={self.expires})"


_Key = tuple[str, str, str, str, int | None]
"""The pod's uid, then namespace, account, audience and seconds."""


_Kept = tuple[tuple[_Key, _Held], ...]


class PodTokens:
    """Calls for one pod never overlap."""

    def __init__(
        self,
        server: ApiClient,
        *,
        before: Before | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._server = server
        self._before = before or Before()
        self._now = now
        self._held: dict[_Key, _Held] = {}

    async def token(self, namespace: str, account: str, audience: str, seconds: int | None, pod: Pod) -> str:
        """When it cannot be renewed, the old one is good until its end. Raises Retry."""
        account = account or "default"
        key = pod.metadata.uid, namespace, account, audience, seconds
        held, now = self._held.get(key) or self._recalled(key), self._now()
        if held is not None and now < held.renew and not held.is_recalled:
            return held.token
        asked = self._ask(namespace, account, audience, seconds, pod)
        try:
            answer = await (self._before.or_else(asked, held) if held is not None and held.is_recalled else asked)
        except PykubeletError as error:
            after = error.after if isinstance(error, Retry) else None
            if held is None:
                what = f"failed to fetch token: {error}{self._before.unkept('token')}"
                raise Retry(what, after=after) from None
            if now >= held.expires:
                what = f"token of service account {namespace}/{account} expired and refresh failed"
                raise Retry(f"{what}: {error}", after=after) from None
            log.warning("the token of service account %s/%s cannot be renewed: %s", namespace, account, error)
            return held.token
        self._held = {other: each for other, each in self._held.items() if now < each.expires}
        self._hold(key, answer)
        return answer.token

    def renewal_in(self, uid: str) -> float | None:
        """Never at once: what could not be renewed a moment ago is given a moment."""
        moments = [held.renew for key, held in self._held.items() if key[0] == uid]
        return max((min(moments) - self._now()).total_seconds(), _SOONEST) if moments else None

    def forget(self, uid: str) -> None:
        self._held = {key: held for key, held in self._held.items() if key[0] != uid}
        self._before.drop("token", uid)

    def _hold(self, key: _Key, held: _Held) -> None:
        self._held[key] = held
        uid = key[0]
        if not held.is_recalled:
            self._before.save(
                "token", uid, value=lambda: [(key, each) for key, each in self._held.items() if key[0] == uid]
            )

    def _recalled(self, key: _Key) -> _Held | None:
        kept = self._before.recall(_Kept, "token", key[0]) or ()
        held = next((held for other, held in kept if other == key), None)
        return msgspec.structs.replace(held, is_recalled=True) if held is not None else None

    async def _ask(self, namespace: str, account: str, audience: str, seconds: int | None, pod: Pod) -> _Held:
        meta = pod.metadata
        spec = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}}
        request = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "spec": {
                **spec,
                **({"audiences": [audience]} if audience else {}),
                **({} if seconds is None else {"expirationSeconds": seconds}),
            },
        }
        path = object_path("serviceaccounts", namespace=namespace, name=account, subresource="token")
        answer = await self._server.create(path, request, TokenRequest)
        expires = answer.status.expiration_timestamp
        if not answer.status.token or expires is None:
            raise Retry("the API server has answered without a token")
        life = timedelta(seconds=answer.spec.expiration_seconds or seconds or 3600)
        renew = min(expires - life + _LONGEST, expires - life * _LEFT) - timedelta(seconds=random.uniform(0, _JITTER))
        return _Held(token=answer.status.token, expires=expires, renew=renew)

"""Removes what is only good for a time: certificate requests, bootstrap tokens and events."""

from datetime import timedelta
from typing import Final

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import EVENTS, ControllerClient, Kind
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.objects import Object, at, moment
from pykubelet.apiserver.security.bootstrap_tokens import NAMESPACE, SECRET_TYPE, expiration, is_expired
from pykubelet.base.tasks import every

REQUESTS: Final[Kind] = ("certificates.k8s.io", "certificatesigningrequests")
SECRETS: Final[Kind] = ("", "secrets")
_PERIOD: Final = 60.0
_HOUR: Final = 3600.0
Head = dict[str, str]


def request_end(request: Object) -> tuple[Head, float]:
    """The request, and when it has been there for long enough: an answered one an hour, an open one a day."""
    answers = [condition(request, kind) for kind in ("Approved", "Denied", "Failed")]
    answered = [each for each in answers if each.get("status") == "True"]
    if not answered:
        return _head(request), _seconds(at(request, "metadata.creationTimestamp")) + 24 * _HOUR
    created = at(request, "metadata.creationTimestamp")
    return _head(request), max(_seconds(each.get("lastUpdateTime") or created) for each in answered) + _HOUR


class EventExpiry:
    """A part of the API server itself: events go whoever runs the controllers."""

    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    async def run(self) -> None:
        async for _ in every(_PERIOD):
            await self.sync()

    async def sync(self) -> None:
        before = rfc3339(self._client.now() - timedelta(seconds=self._client.backend.settings.event_seconds))
        for head, told in await self._client.views(EVENTS, last_told):
            if told and told < before:
                await self._client.remove(EVENTS, {"metadata": head})


class RequestCleaner:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    async def run(self) -> None:
        async for _ in every(_PERIOD):
            await self.sync()

    async def sync(self) -> None:
        now = self._client.now().timestamp()
        for head, end in await self._client.views(REQUESTS, request_end):
            if end <= now:
                await self._client.remove(REQUESTS, {"metadata": head})


class TokenCleaner:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    async def run(self) -> None:
        async for _ in every(_PERIOD):
            await self.sync()

    async def sync(self) -> None:
        now = self._client.now()
        for secret in await self._client.views(SECRETS, token_end, NAMESPACE):
            if secret is not None and is_expired(secret[1], now):
                await self._client.remove(SECRETS, {"metadata": secret[0]})


def token_end(secret: Object) -> tuple[Head, str] | None:
    """A bootstrap token, and when it ends; None when it is none, or never does."""
    end = expiration(secret) if secret.get("type") == SECRET_TYPE else ""
    return (_head(secret), end) if end else None


def last_told(event: Object) -> tuple[Head, str]:
    """An event, and when it was last news."""
    times = (
        at(event, "series.lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        at(event, "metadata.creationTimestamp"),
    )
    return _head(event), max((str(time)[:19] + "Z" for time in times if time), default="")


def _head(obj: Object) -> Head:
    return {name: obj["metadata"].get(name, "") for name in ("namespace", "name", "uid")}


def _seconds(text: str | None) -> float:
    found = moment(text)
    return found.timestamp() if found is not None else 0.0

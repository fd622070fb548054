"""How webhooks are reached: over TLS, at a URL or at a ready endpoint of a service, with an end to what they may take.

Whoever may write endpoints in a namespace says where a service is: it is called only at addresses of machines, never at
the API server itself, and has to show a certificate for its name. Nobody is followed to another place.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import msgspec

from pykubelet.apiserver.admission.hooks import Hook
from pykubelet.apiserver.admission.review import CallFailed
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Lookup

MOST_BYTES: Final = 3 << 20
_CONNECTIONS: Final = 256
_PIECE: Final = 64 << 10

Fault = Callable[[str, int], str]
"""Why an address and port of a service may not be called; empty: they may. Blocking."""


class Target(msgspec.Struct, frozen=True):
    url: str
    shown: str
    name: str | None = None
    """Whom the certificate has to be of, where the URL does not say it."""


class WebhookClient:
    def __init__(self, lookup: Lookup, fault: Fault = lambda address, port: "") -> None:
        self._lookup = lookup
        self._fault = fault
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def call(self, hook: Hook, body: bytes) -> bytes:
        """What it answers. Raises CallFailed, at the latest when its time is over."""
        target = hook.url
        try:
            async with asyncio.timeout(hook.seconds):
                found = await self._target(hook)
                target = found.shown
                return await self._post(hook, found, body)
        except TimeoutError:
            raise CallFailed(f'failed to call webhook: Post "{target}": context deadline exceeded') from None
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise CallFailed(f'failed to call webhook: Post "{target}": {_told(error)}') from None

    async def _post(self, hook: Hook, target: Target, body: bytes) -> bytes:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS, limit_per_host=_CONNECTIONS // 4)
            self._session = aiohttp.ClientSession(
                connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
            )
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if target.name is not None:
            headers["Host"] = target.name
        how: dict[str, Any] = {"ssl": trusting(hook.authorities), "server_hostname": target.name}
        async with self._session.post(
            target.url,
            data=body,
            headers=headers,
            params={"timeout": f"{hook.seconds}s"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=hook.seconds),
            **how,
        ) as answer:
            if answer.status != 200:
                raise CallFailed(f'failed to call webhook: Post "{target.shown}": it answers with {answer.status}')
            return await whole(answer)

    async def _target(self, hook: Hook) -> Target:
        if hook.service is None:
            shown = f"{hook.url}{'&' if '?' in hook.url else '?'}timeout={hook.seconds}s"
            return Target(hook.url, shown)
        service = hook.service
        name = f"{service.name}.{service.namespace}.svc"
        path = quote(service.path if service.path.startswith("/") else f"/{service.path}", safe="/:@!$&'()*+,;=~-._")
        try:
            address, port = await service_endpoint(
                self._lookup, self._fault, service.namespace, service.name, service.port
            )
        except NoEndpoint as error:
            raise CallFailed(f"failed to call webhook: {error}") from None
        host = f"[{address}]" if ":" in address else address
        shown = f"https://{name}:{service.port}{path}?timeout={hook.seconds}s"
        return Target(f"https://{host}:{port}{path}", shown, name)


class NoEndpoint(Exception):
    """Nobody is where a service is said to be."""


async def service_endpoint(lookup: Lookup, fault: Fault, namespace: str, name: str, number: int) -> tuple[str, int]:
    """Where somebody is ready behind a port of a service, and may be called. Raises NoEndpoint."""
    found = await lookup.find("", "services", namespace, name)
    where = f'service "{namespace}/{name}"'
    if found is None:
        raise NoEndpoint(f'service "{name}" not found')
    port = next((each for each in at(found, "spec.ports", ()) if each.get("port") == number), None)
    if port is None:
        raise NoEndpoint(f"no service port {number} found for {where}")
    endpoints = await lookup.find("", "endpoints", namespace, name)
    faults = []
    for address, there in ready(endpoints or {}, port.get("name", "")):
        wrong = await asyncio.to_thread(fault, address, there)
        if not wrong:
            return address, there
        faults.append(f"{address}:{there} is {wrong}")
    why = f": {faults[0]}" if faults else ""
    raise NoEndpoint(f"no endpoints available for {where}{why}")


def _told(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"tls: failed to verify certificate: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            why = os.strerror(error.os_error.errno).lower() if error.os_error.errno else str(error.os_error)
            return f"dial tcp {error.host}:{error.port}: connect: {why}"
    return str(error) or type(error).__name__


def ready(endpoints: Object, port: str) -> Iterator[tuple[str, int]]:
    for subset in endpoints.get("subsets") or ():
        numbers = [each["port"] for each in subset.get("ports") or () if each.get("name", "") == port]
        for address in subset.get("addresses") or ():
            for number in numbers:
                yield address["ip"], number


async def whole(answer: aiohttp.ClientResponse) -> bytes:
    """Its body, however many pieces it comes in. Raises ValueError for one that is too large."""
    parts, size = [], 0
    async for part in answer.content.iter_chunked(_PIECE):
        size += len(part)
        if size > MOST_BYTES:
            raise ValueError(f"its answer is larger than {MOST_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


@lru_cache(maxsize=64)
def trusting(authorities: bytes) -> ssl.SSLContext:
    """Raises ValueError for what is no certificate."""
    try:
        return ssl.create_default_context(cadata=authorities.decode("ascii") if authorities else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ValueError(f"its caBundle cannot be read: {error}") from None

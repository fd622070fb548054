"""One registry, asked over HTTP: who we are, manifests, and layers as streams.

What it answers is not trusted: sizes are bounded, redirections never lead from TLS to none, credentials are shown to
the registry and to whom it names for that alone, and of its words only a few reach a pod's status.
"""

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

import aiohttp
import msgspec
from yarl import URL

from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.pod.ports.runtime import PullCredentials, RegistryUnreachable
from pykubelet.runtime.process.images.hosts import Endpoint, is_local
from pykubelet.runtime.process.images.manifest import INDEXES, MANIFESTS, Descriptor, checked

_LARGEST_DOCUMENT: Final = 4 << 20
_LARGEST_TOKEN: Final = 1 << 20
_CHUNK: Final = 256 << 10
_TRIES: Final = 3
_PAUSE: Final = 1.0
_REDIRECTIONS: Final = 5
_CONNECTING: Final = 8.0
"""Seconds after which a registry with which there is no connection counts as out of reach."""
_SILENCE: Final = 60.0
_PARAMETER: Final = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))')
_LONGEST_WORDS: Final = 300


def new_session(endpoint: Endpoint) -> aiohttp.ClientSession:
    """With the proxies of the environment, which are not for this machine's own."""
    timeout = aiohttp.ClientTimeout(total=None, connect=_CONNECTING, sock_connect=_CONNECTING, sock_read=_SILENCE)
    return aiohttp.ClientSession(trust_env=not is_local(endpoint.host), timeout=timeout, auto_decompress=False)


class Registry:
    """At one of its endpoints, for one repository."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: Endpoint,
        repository: str,
        credentials: PullCredentials | None,
    ) -> None:
        self._session = session
        self._endpoint = endpoint
        self._repository = repository
        self._credentials = credentials if endpoint.is_own else None
        self._tls = endpoint.tls()
        self._authorization = ""
        self._has_answered = False

    async def manifest(self, reference: str) -> tuple[bytes, str]:
        """By a tag or a digest, which is checked. -> the document and its type"""
        url = f"{self._base}/manifests/{quote(reference, safe=':')}"
        accept = ", ".join((*MANIFESTS, *INDEXES))
        data, kind = await self._document(url, {"Accept": accept}, f"its manifest {reference}")
        return (checked(data, reference, "its manifest") if ":" in reference else data), kind

    async def config(self, descriptor: Descriptor) -> bytes:
        url = f"{self._base}/blobs/{descriptor.digest}"
        data, _ = await self._document(url, {}, "its configuration")
        return checked(data, descriptor.digest, "its configuration")

    async def blob(self, descriptor: Descriptor) -> AsyncIterator[bytes]:
        """As it comes; at the end it is sure to be the right one, else Invalid is raised."""
        digest, left = hashlib.new(descriptor.digest.partition(":")[0]), descriptor.size
        what = f"its layer {descriptor.digest}"
        async with self._answer(f"{self._base}/blobs/{descriptor.digest}", {}) as answer:
            await self._check(answer, what)
            try:
                async for data in answer.content.iter_chunked(_CHUNK):
                    left -= len(data)
                    if left < 0:
                        raise Invalid(f"{what} is larger than the {descriptor.size} bytes that it should have")
                    digest.update(data)
                    yield data
            except (aiohttp.ClientError, TimeoutError) as error:
                raise Retry(f"{self._host} stopped in the middle of {what}: {_words(error)}") from None
        if left:
            raise Retry(f"{what} ended {left} bytes too early")
        found = f"{digest.name}:{digest.hexdigest()}"
        if found != descriptor.digest:
            raise Invalid(f"{what} is not what it should be: its digest is {found}")

    # --- asking

    @property
    def _base(self) -> str:
        return f"{self._endpoint.url}/v2/{self._repository}"

    @property
    def _host(self) -> str:
        return self._endpoint.host

    async def _document(self, url: str, headers: Mapping[str, str], what: str) -> tuple[bytes, str]:
        async with self._answer(url, headers) as answer:
            await self._check(answer, what)
            return await self._body(answer, _LARGEST_DOCUMENT, what), answer.content_type

    async def _body(self, answer: aiohttp.ClientResponse, most: int, what: str) -> bytes:
        data = bytearray()
        try:
            async for chunk in answer.content.iter_chunked(_CHUNK):
                data += chunk
                if len(data) > most:
                    raise Invalid(f"{what} is larger than {most} bytes")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Retry(f"{self._host} stopped in the middle of {what}: {_words(error)}") from None
        return bytes(data)

    @asynccontextmanager
    async def _answer(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """The last one, after it was asked who we are and where to look instead."""
        answer = await self._asked(url, headers)
        if answer.status == 401:
            challenges = answer.headers.getall("WWW-Authenticate", [])
            answer.close()
            await self._log_in(challenges)
            answer = await self._asked(url, headers)
        try:
            yield answer
        finally:
            answer.close()

    async def _asked(self, url: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        for _ in range(_REDIRECTIONS):
            answer = await self._patiently(url, headers)
            if answer.status not in (301, 302, 303, 307, 308):
                return answer
            target = urljoin(url, answer.headers.get("Location", ""))
            answer.close()
            if urlsplit(target).scheme not in ("https", urlsplit(self._endpoint.url).scheme):
                raise Invalid(f"{self._host} leads from TLS to {urlsplit(target).scheme}://{urlsplit(target).netloc}")
            url = target
        raise Retry(f"{self._host} leads from one place to the next and never to an answer")

    async def _patiently(self, url: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        """Again when it is too busy. Who did not answer at all is not asked twice."""
        pause = _PAUSE
        for attempt in range(1, _TRIES + 1):
            try:
                answer = await self._once("GET", url, headers)
            except RegistryUnreachable:
                raise
            except Retry:
                if attempt == _TRIES:
                    raise
            else:
                if (answer.status != 429 and answer.status < 500) or attempt == _TRIES:
                    return answer
                wanted = answer.headers.get("Retry-After", "")
                pause = min(float(wanted), 30.0) if wanted.isdigit() else pause
                answer.close()
            await asyncio.sleep(pause)
            pause *= 2
        raise AssertionError

    async def _once(self, method: str, url: str, headers: Mapping[str, str], **more: Any) -> aiohttp.ClientResponse:
        is_own = urlsplit(url)[:2] == urlsplit(self._endpoint.url)[:2]
        own = {"Accept-Encoding": "identity", "User-Agent": "pykubelet"}  # digests are of what is sent
        if is_own and self._authorization:
            own["Authorization"] = self._authorization
        try:
            place = url if more else URL(url, encoded=True)  # a signed one has to stay as it is
            answer = await self._session.request(
                method, place, headers={**own, **headers}, allow_redirects=False, ssl=self._tls, **more
            )
        except aiohttp.ClientConnectorCertificateError as error:
            raise Retry(f"{urlsplit(url).netloc} has a certificate that is not trusted: {_words(error)}") from None
        except aiohttp.ClientSSLError as error:
            raise Retry(f"{urlsplit(url).netloc} does not speak TLS as it should: {_words(error)}") from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError) as error:
            kind = Retry if self._has_answered else RegistryUnreachable
            raise kind(f"{urlsplit(url).netloc} cannot be reached: {_words(error)}") from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Retry(f"{urlsplit(url).netloc} gives no answer that can be understood: {_words(error)}") from None
        self._has_answered = True
        return answer

    async def _check(self, answer: aiohttp.ClientResponse, what: str) -> None:
        if answer.status == 200:
            return
        words = await self._explanation(answer)
        if answer.status == 404:
            raise NotFound(f"{self._host}/{self._repository}: {what} is not there{words}")
        if answer.status in (401, 403):
            whom = "these credentials" if self._credentials else "who shows no credentials"
            raise Retry(f"{self._host}/{self._repository}: pull access is denied to {whom}{words}")
        raise Retry(f"{self._host}/{self._repository}: {what} cannot be had: status {answer.status}{words}")

    async def _explanation(self, answer: aiohttp.ClientResponse) -> str:
        """In the registry's words, if they are in the form that registries have for that."""
        try:
            body = msgspec.json.decode(await self._body(answer, 64 << 10, "an error"))
            errors = [f"{each['code']}: {each.get('message', '')}" for each in body["errors"]]
        except (PykubeletError, msgspec.DecodeError, KeyError, TypeError):
            return ""
        text = "".join(c if c.isprintable() else " " for c in "; ".join(errors))
        return f" ({text[:_LONGEST_WORDS]})" if text else ""

    # --- who we are

    async def _log_in(self, challenges: list[str]) -> None:
        for challenge in challenges:
            scheme, _, rest = challenge.partition(" ")
            fields = {key.lower(): quoted or plain for key, quoted, plain in _PARAMETER.findall(rest)}
            if scheme.lower() == "bearer" and fields.get("realm"):
                self._authorization = f"Bearer {await self._token(fields)}"
                return
            if scheme.lower() == "basic":
                if self._credentials is None or not self._credentials.username:
                    raise Retry(f"{self._host}/{self._repository}: pull access is denied to who shows no credentials")
                self._authorization = _basic(self._credentials)
                return
        raise Retry(f"{self._host} wants to know who we are in a way that is not known here")

    async def _token(self, fields: Mapping[str, str]) -> str:
        realm, credentials = fields["realm"], self._credentials
        if urlsplit(realm).scheme not in ("https", urlsplit(self._endpoint.url).scheme):
            raise Invalid(f"{self._host} wants credentials to be shown at {realm[:200]!r}, which is not TLS")
        scope = fields.get("scope") or f"repository:{self._repository}:pull"
        asked = {"service": fields.get("service", ""), "scope": scope}
        if credentials is not None and credentials.token:
            form = {"grant_type": "refresh_token", "refresh_token": credentials.token, "client_id": "pykubelet"}
            answer = await self._once("POST", realm, {}, data={**asked, **form})
        else:
            headers = {"Authorization": _basic(credentials)} if credentials and credentials.username else {}
            answer = await self._once("GET", realm, headers, params={k: v for k, v in asked.items() if v})
        try:
            await self._check(answer, "a token")
            body = msgspec.json.decode(await self._body(answer, _LARGEST_TOKEN, "a token"), type=dict[str, Any])
        except msgspec.DecodeError:
            raise Retry(f"{urlsplit(realm).netloc} gives no token that can be understood") from None
        finally:
            answer.close()
        token = body.get("token") or body.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise Retry(f"{urlsplit(realm).netloc} gives no token that can be understood")
        return token


def _basic(credentials: PullCredentials) -> str:
    return "Basic " + base64.b64encode(f"{credentials.username}:{credentials.password}".encode()).decode()


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it takes too long to answer"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy refuses with status {error.status}"
    cause = getattr(error, "os_error", None) or error
    return str(getattr(cause, "strerror", None) or cause or type(error).__name__)[:_LONGEST_WORDS]

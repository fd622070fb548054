"""The requests of any Kubernetes API server: bytes or typed objects out, and every failure as one of our errors.

One HTTP session per server. Rate limit, deadlines, size limits and the second try after a 401 live here.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from pykubelet import __version__
from pykubelet.api import codec
from pykubelet.api.node import Node
from pykubelet.api.objects import Lease
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.base.rate_limit import TokenBucket
from pykubelet.kube.answers import no_answer, refusal
from pykubelet.kube.credentials import Credentials, Grant
from pykubelet.kube.errors import BadAnswer, TooLarge
from pykubelet.pod.moments import ApiAnswered, ApiRequested, ApiRetried, Journal

T = TypeVar("T")
Slim = TypeVar("Slim", Pod, Node, Lease)
Params = Mapping[str, str | int | bool | Sequence[str] | None]

JSON: Final = "application/json"
_STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

PAGE: Final = 500
_ERROR_BODY: Final = 1 << 20


def object_path(resource: str, *, namespace: str = "", name: str = "", subresource: str = "", group: str = "") -> str:
    """`/api/v1/namespaces/default/pods/web/status`; `group` is such as `coordination.k8s.io/v1`, empty for the core.

    Names often come from pod specs: one that would lead elsewhere, such as `../secrets/x`, is Invalid.
    """
    for part in (namespace, name):
        if part in (".", "..") or "/" in part or "%" in part:
            raise Invalid(f"{part!r} cannot be the name of an object: it may not be . or .. or contain / or %")
    prefix = f"/apis/{group}" if group else "/api/v1"
    parts = (prefix, f"namespaces/{namespace}" if namespace else "", resource, name, subresource)
    return "/".join(part for part in parts if part)


def slim(obj: Slim) -> Slim:
    """Who set which field takes a third of a pod's memory and means nothing to a node."""
    return changed(obj, metadata=changed(obj.metadata, managed_fields=())) if obj.metadata.managed_fields else obj


class ApiClient:
    """A client of one API server: `async with ApiClient(credentials) as server: ...`.

    A path is plain text, as `object_path` makes it; what a URL needs escaped is escaped here.
    A None among the `params` is left out.
    A `kind` is the Struct to decode the answer into, or `bytes` for the answer as it came.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeout: float = 30.0,
        qps: float = 50.0,
        burst: int = 100,
        max_answer: int = 512 << 20,
        max_line: int = 16 << 20,
        journal: Journal | None = None,
    ) -> None:
        self._credentials = credentials
        self._timeout = timeout
        self._bucket = TokenBucket(qps, burst)
        self._max_answer = max_answer
        self._max_line = max_line
        self._journal = journal or Journal()
        self._session: aiohttp.ClientSession | None = None
        self.has_answered = False
        """Whether the server has ever said anything."""

    @property
    def url(self) -> str:
        return str(self._credentials.server).rstrip("/")

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        server = self._credentials.server
        return server.host or "", server.port or 443

    def __repr__(self) -> str:
        return f"ApiClient({self.url!r})"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # The rate limit bounds what runs at once; a limit on connections would let watches starve the rest.
            connector=aiohttp.TCPConnector(limit=0, socket_factory=_socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"pykubelet/{__version__}"},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str, kind: type[T], *, params: Params | None = None) -> T:
        return self._decoded(kind, await self.request("GET", path, params=params), path)

    async def create(self, path: str, value: object, kind: type[T], *, params: Params | None = None) -> T:
        return self._decoded(kind, await self.request("POST", path, params=params, body=value), path)

    async def update(self, path: str, value: object, kind: type[T], *, params: Params | None = None) -> T:
        """Replace an object. With its resource version in the metadata, Conflict when somebody else was faster."""
        return self._decoded(kind, await self.request("PUT", path, params=params, body=value), path)

    async def patch(self, path: str, patch: object, kind: type[T]) -> T:
        """A strategic merge patch."""
        answer = await self.request("PATCH", path, body=patch, content_type=_STRATEGIC_MERGE_PATCH)
        return self._decoded(kind, answer, path)

    async def delete(self, path: str, *, uid: str = "", grace_period_seconds: int | None = None) -> None:
        """Ask for an end. With a uid, Conflict when the name belongs to another object by now."""
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        await self.request("DELETE", path, body=options)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: object = None,
        content_type: str = JSON,
    ) -> bytes:
        """Any request. A body other than bytes becomes JSON. The timeout counts from when the rate limit lets go."""
        now = asyncio.get_running_loop().time
        asked = now()
        await self._bucket.wait()
        headers = {"Accept": JSON}
        if self._credentials.disable_compression:
            headers["Accept-Encoding"] = "identity"
        if body is not None:
            headers["Content-Type"] = content_type
        if context := self._journal.traceparent():
            headers["traceparent"] = context
        deadline = aiohttp.ClientTimeout(total=self._timeout)
        data = body if isinstance(body, bytes | None) else codec.encode(body)
        url, began, received = self._full_url(path, params), now(), None
        try:
            with self._translated(method, path):
                response = await self._send(method, url, headers, deadline, data)
                async with response:
                    await self._raise_refusal(response, method, path)
                    answer = await self._read(response, self._max_answer, path)
            received = len(answer)
            return answer
        finally:
            waited, seconds, sent = began - asked, now() - began, len(data or b"")
            self._journal.note(ApiRequested(method, url.authority, waited, seconds, sent, received))

    @asynccontextmanager
    async def stream(
        self, path: str, params: Params | None = None, *, idle: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an endless answer, such as a watch; empty ones are left out. The rate limit does not count it.

        The answer has to begin within the usual timeout. After `idle` seconds of silence, or when the connection
        breaks, the iteration raises Retry; when the server ends the answer, it ends.
        """
        headers = {"Accept": JSON, "Accept-Encoding": "identity"}
        endless = aiohttp.ClientTimeout(total=None, sock_read=idle)
        with self._translated("GET", path):
            response = await self._send("GET", self._full_url(path, params), headers, endless)
            if response.status >= 300:
                async with response, asyncio.timeout(self._timeout):
                    await self._raise_refusal(response, "GET", path)
        try:
            async with aclosing(self._lines(response, path)) as lines:
                yield lines
        finally:
            response.close()  # not release: an endless answer never gives its connection back

    @asynccontextmanager
    async def websocket(
        self, path: str, params: Params | None, protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A conversation in one of the protocols."""
        assert self._session is not None, "an ApiClient is used inside of its async with"
        arguments = self._credentials.arguments(await self._credentials.grant())
        url = self._full_url(path, params)
        with self._translated("GET", path):
            socket = await self._session.ws_connect(url, protocols=protocols, max_msg_size=self._max_line, **arguments)
        try:
            yield socket
        finally:
            await socket.close()

    # --- inside

    def _full_url(self, path: str, params: Params | None) -> URL:
        query = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in (params or {}).items()
            if value is not None
        }
        text = self.url + quote(path, safe="/:@!$&'()*+,;=~")
        return URL(f"{text}?{urlencode(query, doseq=True)}" if query else text, encoded=True)

    async def _send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        data: bytes | None = None,
    ) -> aiohttp.ClientResponse:
        """The head of the answer. After a 401 once more, if there are credentials that the server has not seen."""
        grant = await self._credentials.grant()
        response = await self._send_once(method, url, headers, timeout, data, grant)
        if response.status == 401:
            try:
                newer = await self._credentials.renew(grant)
            except BaseException:
                response.close()
                raise
            if newer is not None:
                response.close()
                self._journal.note(ApiRetried(method, url.authority, "401"))
                return await self._send_once(method, url, headers, timeout, data, newer)
        return response

    async def _send_once(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        data: bytes | None,
        grant: Grant,
    ) -> aiohttp.ClientResponse:
        assert self._session is not None, "an ApiClient is used inside of its async with"
        arguments = self._credentials.arguments(grant)
        arguments["headers"] += headers.items()
        code = "<error>"
        try:
            async with asyncio.timeout(timeout.total or self._timeout):
                # A redirect would carry the credentials to an address that nobody configured.
                response = await self._session.request(
                    method, url, data=data, timeout=timeout, allow_redirects=False, **arguments
                )
            code, self.has_answered = str(response.status), True
            return response
        finally:
            self._journal.note(ApiAnswered(method, url.authority, code))

    async def _raise_refusal(self, response: aiohttp.ClientResponse, method: str, path: str) -> None:
        if response.status >= 300:
            body = await self._read(response, _ERROR_BODY, path)
            request = f"{method} {self.url}{path}"
            if response.status == 401:
                request += f" with the credentials of {self._credentials.origin}"
            raise refusal(response, body, request)

    async def _read(self, response: aiohttp.ClientResponse, limit: int, path: str) -> bytes:
        chunks, size = [], 0
        while chunk := await response.content.readany():
            size += len(chunk)
            if size > limit:
                response.close()
                raise TooLarge(f"{self.url}{path}: the answer is larger than {limit:,} bytes")
            chunks.append(chunk)
        return b"".join(chunks)

    async def _lines(self, response: aiohttp.ClientResponse, path: str) -> AsyncGenerator[bytes, None]:
        begun: list[bytes] = []
        size = 0
        with self._translated("GET", path):
            while chunk := await response.content.readany():
                *ended, rest = chunk.split(b"\n")
                if ended:
                    ended[0] = b"".join((*begun, ended[0]))
                    begun, size = [], 0
                begun.append(rest)
                size += len(rest)
                for line in ended:
                    if len(line) > self._max_line:
                        raise self._line_too_long(path)
                    if line:
                        yield line
                if size > self._max_line:
                    raise self._line_too_long(path)
            if last := b"".join(begun):
                yield last

    def _line_too_long(self, path: str) -> TooLarge:
        return TooLarge(f"{self.url}{path}: one line is longer than {self._max_line:,} bytes")

    def _decoded(self, kind: type[T], answer: bytes, path: str) -> T:
        if isinstance(answer, kind):  # bytes were asked for
            return answer
        try:
            return codec.decode(kind, answer)
        except codec.DecodeError as error:
            raise BadAnswer(f"{self.url}{path}: the answer is not a {kind.__name__}: {error}") from None

    @contextmanager
    def _translated(self, method: str, path: str) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # Not chained: what aiohttp raises may carry the request's headers.
            raise no_answer(error, self.url, f"{method} {path}") from None


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within a minute that the other side is gone, which a silent watch would never do."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
    return made

"""A request as it came, handed to somebody else, and the answer as it comes back: whole, as a stream or upgraded.

What says who somebody is to us goes no further: the other side knows us alone, or is told in our own words (`more`).
"""

import ssl
from collections.abc import Iterable
from typing import Any, Final

import aiohttp
from aiohttp import web
from yarl import URL

from pykubelet.apiserver import status
from pykubelet.apiserver.requests.audit_id import named
from pykubelet.apiserver.subresources.targets import Target
from pykubelet.base.errors import Retry
from pykubelet.web.bearer import without_tokens
from pykubelet.web.tunnel import Destination, Headers, Refusal, tunnel
from pykubelet.web.upgrade import offered_protocols

_HOP_BY_HOP: Final = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
_OURS_ALONE: Final = frozenset(("host", "authorization", "cookie"))
_OURS_BY_BEGIN: Final = ("impersonate-", "x-remote-")
_ANSWERING: Final = 60.0
_FLUSHING: Final = 30.0
_LONGEST_REFUSAL: Final = 10_000
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10.0)


async def tunnelled(
    request: web.Request,
    target: Target,
    path: str,
    context: ssl.SSLContext | None,
    *,
    says_why: bool = False,
    more: Iterable[tuple[str, str]] = (),
) -> web.StreamResponse:
    offered = offered_protocols(request)

    def check(headers: Headers) -> None:
        """If the other side does not speak what the client wants, the client is told so, and tries another one."""
        if offered and headers.get("Sec-WebSocket-Protocol", "") not in offered:
            raise Refusal(403, f"none of the protocols {offered} is spoken by the runtime")

    to = Destination(host=target.host, port=target.port, target=path, tls=context, name=target.name)
    passed_on = without_tokens(request.headers.items())
    headers = [*more, *((name, value) for name, value in passed_on if not _is_ours_alone(name))]
    if target.name:  # whose page it is has been looked at: a kubelet knows no other origin than its own
        headers = [(name, value) for name, value in headers if name.lower() != "origin"]
    try:
        return await tunnel(request, to, headers, answering=_ANSWERING, patience=_FLUSHING, check=check)
    except Refusal as refused:
        if says_why:
            raise _not_upgraded(refused, target.where) from None
        return refused.response()
    except Retry as error:
        raise unreachable(target, str(error)) from None


def _is_ours_alone(header: str) -> bool:
    """Who somebody is to us is not the kubelet's business: it knows us alone."""
    return header.lower() in _OURS_ALONE or header.lower().startswith(_OURS_BY_BEGIN)


async def streamed(
    request: web.Request,
    target: Target,
    path: str,
    context: ssl.SSLContext | None,
    *,
    says_why: bool = False,
    more: Iterable[tuple[str, str]] = (),
) -> web.StreamResponse:
    scheme = "https" if context is not None else "http"
    url = URL(f"{scheme}://{target.shown}{path}", encoded=True)
    headers = [*more, *((name, value) for name, value in request.headers.items() if _is_passed_on(name))]
    body: Any = request.content if request.can_read_body else None
    connector = aiohttp.TCPConnector(ssl=context if context is not None else True, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT, auto_decompress=False) as session:
        try:
            answer = await session.request(
                request.method,
                url,
                headers=headers,
                data=body,
                allow_redirects=False,
                server_hostname=target.name or None,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise unreachable(target, why(error)) from None
        async with answer:
            if says_why and answer.status >= 400:
                raise await refusal(answer, target.where)
            return await _copy(request, answer)


def _not_upgraded(refusal: Refusal, where: str) -> status.ApiError:
    """Plain text would be read as YAML by clients, who then show nothing of what has a colon in it."""
    text = refusal.text[:_LONGEST_REFUSAL].strip() or f"{where} answers with {refusal.status}"
    if refusal.status == 400:
        return status.bad_request(text)
    return status.internal(f"unable to upgrade connection: {text}")


async def refusal(answer: aiohttp.ClientResponse, where: str) -> status.ApiError:
    """Clients of the API show a Status, and nothing else."""
    try:
        text = (await answer.content.read(_LONGEST_REFUSAL)).decode(errors="replace").strip()
    except aiohttp.ClientError:
        text = ""
    if answer.status == 400:
        return status.bad_request(text or f"{where} refuses this")
    if answer.status == 404:
        return status.ApiError(404, "NotFound", text or f"{where} does not have this", {})
    return status.internal(f"{where} answers with {answer.status}: {text or answer.reason}")


async def _copy(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """Until it ends. When the client goes, this handler is cancelled, and with it what it asked for."""
    headers = [(name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP]
    headers += named(request).items()
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
    await response.prepare(request)
    try:
        async for part in answer.content.iter_any():
            await response.write(part)
        await response.write_eof()
    except (ConnectionError, aiohttp.ClientError):
        if request.transport is not None:
            request.transport.abort()  # the client must not take a part for the whole
    return response


def why(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not believed: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or str(error.os_error) or "it hung up"
    return str(error) or "it does not answer in time"


def _is_passed_on(name: str) -> bool:
    return name.lower() not in (*_HOP_BY_HOP, "content-length") and not _is_ours_alone(name)


def unreachable(target: Target, why: str) -> status.ApiError:
    return status.internal(f"{target.where} at {target.shown} cannot be reached: {why}")

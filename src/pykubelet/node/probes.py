"""One attempt at a probe: what is asked of a container, and what its answer counts for.

Whoever probes decides what follows from that; here is only the asking. The texts of failures are those that people know
from upstream's events.
"""

import asyncio
import errno
import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from pykubelet.api.container import Container
from pykubelet.api.handlers import ExecAction, HTTPGetAction, HTTPHeader, Probe, TCPSocketAction
from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.node.health_check import check_health
from pykubelet.node.hooks import port_number
from pykubelet.pod.container.env import expand
from pykubelet.pod.node.node_object import KUBELET_VERSION
from pykubelet.pod.ports.probing import Answer, Verdict
from pykubelet.pod.ports.runtime import Runtime
from pykubelet.web.unverified import unverified_context

if TYPE_CHECKING:
    import aiohttp

USER_AGENT: Final = "kube-probe/" + ".".join(KUBELET_VERSION.removeprefix("v").split(".")[:2])
LONGEST_OUTPUT: Final = 10 << 10

_MOST_REQUESTS: Final = 256
_MOST_COMMANDS: Final = 64
"""At once. Time runs only from the moment at which a probe gets its turn."""
_MOST_REDIRECTS: Final = 10
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_LONGEST_HEADER: Final = 64 << 10
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|[\x00-\x1f\x7f]")


_QUERY: Final = "/%:@!$&'()*+,;=~[]?\"<>\\^`{|}"
"""Upstream sends a query as it is written. A space would end the request line, and is escaped."""
_PATH: Final = "/%:@!$&'()*+,;=~[]"


class Attempts:
    """Asks. Made once for an agent, inside of its event loop; `close` ends what it keeps open."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._requests = asyncio.Semaphore(_MOST_REQUESTS)
        self._commands = asyncio.Semaphore(_MOST_COMMANDS)
        self._session: aiohttp.ClientSession | None = None

    async def attempt(self, probe: Probe, container: Container, container_id: str, pod_ip: str) -> Answer:
        """Never raises for what a container, its spec or the runtime may do."""
        seconds = float(probe.timeout_seconds or 1)
        try:
            if probe.exec is not None:
                async with self._commands:
                    return await self._exec(probe.exec, container, container_id, seconds)
            async with self._requests:
                if probe.http_get is not None:
                    return await self._http_get(probe.http_get, container, pod_ip, seconds)
                if probe.tcp_socket is not None:
                    return await _tcp_socket(probe.tcp_socket, container, pod_ip, seconds)
                if probe.grpc is not None:
                    service = probe.grpc.service or ""
                    trouble = await check_health(pod_ip, probe.grpc.port, service, seconds, user_agent=USER_AGENT)
                    return Answer(Verdict.FAILURE, trouble) if trouble else Answer(Verdict.SUCCESS)
        except PykubeletError as error:
            return Answer(Verdict.UNKNOWN, str(error), is_error=True)
        what = f"the probe of container {container.name} names nothing to do: no exec, httpGet, tcpSocket or grpc"
        return Answer(Verdict.UNKNOWN, what, is_error=True)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # --- a command

    async def _exec(self, action: ExecAction, container: Container, container_id: str, seconds: float) -> Answer:
        fixed = {variable.name: variable.value for variable in container.env}
        command = tuple(expand(word, fixed) for word in action.command)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            result = await self._runtime.exec_sync(container_id, command, seconds)
        except PykubeletError:
            if loop.time() - began < seconds:
                raise
            text = quoted(" ".join(command))
            return Answer(Verdict.FAILURE, f"command timed out: {text} timed out after {seconds:g}s")
        output = (result.stdout + result.stderr)[:LONGEST_OUTPUT].decode(errors="replace")
        return Answer(Verdict.FAILURE if result.exit_code else Verdict.SUCCESS, output)

    # --- HTTP

    async def _http_get(self, action: HTTPGetAction, container: Container, pod_ip: str, seconds: float) -> Answer:
        host = action.host or pod_ip
        url = probe_url(action.scheme.lower() or "http", host, port_number(action.port, container), action.path)
        get = f"Get {quoted(url)}"
        stage = "awaiting headers"
        import aiohttp  # takes long to load, and many nodes have no such probe

        try:
            async with asyncio.timeout(seconds), await self._get(url, action.http_headers) as answer:
                stage = "reading body"
                body = await _beginning(answer.content)
        except TimeoutError:
            timeout = f"context deadline exceeded (Client.Timeout exceeded while {stage})"
            if stage == "reading body":
                return Answer(Verdict.FAILURE, timeout, is_error=True)
            return Answer(Verdict.FAILURE, f"{get}: {timeout}")
        except aiohttp.ClientPayloadError as error:
            return Answer(Verdict.FAILURE, f"{get}: {error}", is_error=True)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Answer(Verdict.FAILURE, f"{get}: {_trouble(error, url)}")
        if not 200 <= answer.status < 400:
            return Answer(Verdict.FAILURE, f"HTTP probe failed with statuscode: {answer.status}")
        if answer.status >= 300:
            return Answer(Verdict.WARNING, f"Probe terminated redirects, Response body: {body}")
        return Answer(Verdict.SUCCESS, body)

    async def _get(self, url: str, wanted: tuple[HTTPHeader, ...]) -> "aiohttp.ClientResponse":
        """The first answer that does not lead on to the same host."""
        from yarl import URL

        headers, first, here = request_headers(wanted), URL(url, encoded=True), URL(url, encoded=True)
        for _ in range(_MOST_REDIRECTS):
            answer = await self._opened().get(here, headers=headers, allow_redirects=False)
            location = answer.headers.get("Location", "")
            if answer.status not in _REDIRECTS or not location:
                return answer
            there = here.join(URL(location))
            if there.host != first.host or there.scheme not in ("http", "https"):
                return answer
            answer.close()
            if "//" in location.partition("?")[0]:  # it names a host, so the one that was asked for no longer counts
                headers = [(name, value) for name, value in headers if name.lower() != "host"]
            here = there
        raise ValueError(f"stopped after {_MOST_REDIRECTS} redirects")

    def _opened(self) -> "aiohttp.ClientSession":
        if self._session is None:
            import aiohttp

            # As upstream: the certificate is the pod's own affair.
            trust_anyone = unverified_context()
            self._session = aiohttp.ClientSession(
                # A connection of its own for each probe: what a kept one answers says little about the next client.
                connector=aiohttp.TCPConnector(ssl=trust_anyone, limit=0, force_close=True, use_dns_cache=False),
                timeout=aiohttp.ClientTimeout(),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
                auto_decompress=False,
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
            )
        return self._session


def probe_url(scheme: str, host: str, port: int, path: str) -> str:
    """What a probe asks for. The path may bring a query; what is odd about it is escaped, never refused."""
    if not host:
        raise Invalid("the pod has no address yet")
    where = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    if _BAD_ESCAPE.search(path):
        return f"{where}/{quote(path.removeprefix('/'), safe='/:@$&+,;=~')}"
    try:
        parts = urlsplit(path)
    except ValueError:
        return f"{where}/{quote(path.removeprefix('/'), safe='/:@$&+,;=~')}"
    asked = quote(parts.path.removeprefix("/"), safe=_PATH)
    query = f"?{quote(parts.query, safe=_QUERY)}" if parts.query else ""
    return f"{where}/{asked}{query}"


def request_headers(wanted: tuple[HTTPHeader, ...]) -> list[tuple[str, str]]:
    """What the author of the probe wrote, and what goes without saying. An empty Accept asks for none."""
    given = [(header.name, header.value) for header in wanted]
    names = {name.lower() for name, _ in given}
    if "user-agent" not in names:
        given.append(("User-Agent", USER_AGENT))
    if "accept" not in names:
        given.append(("Accept", "*/*"))
    elif next(value for name, value in given if name.lower() == "accept") == "":
        given = [(name, value) for name, value in given if name.lower() != "accept"]
    hosts = [value for name, value in given if name.lower() == "host"]
    given = [(name, value) for name, value in given if name.lower() not in ("host", "connection")]
    return [*([("Host", hosts[0])] if hosts and hosts[0] else []), *given, ("Connection", "close")]


async def _beginning(content: "aiohttp.StreamReader") -> str:
    """Of a body that may be endless."""
    body = b""
    while len(body) < LONGEST_OUTPUT and (piece := await content.read(LONGEST_OUTPUT - len(body))):
        body += piece
    return body.decode(errors="replace")


# --- TCP


async def _tcp_socket(action: TCPSocketAction, container: Container, pod_ip: str, seconds: float) -> Answer:
    """A connection that can be opened is a success; it is closed at once.

    It is not made to linger, as upstream's is: that would hold up the whole agent when the other end is gone.
    """
    port, host = port_number(action.port, container), action.host or pod_ip
    if not host:
        raise Invalid("the pod has no address yet")
    dial = f"dial tcp {joined(host, port)}"
    try:
        async with asyncio.timeout(seconds):
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
    except TimeoutError:
        return Answer(Verdict.FAILURE, f"{dial}: i/o timeout")
    except (OSError, ValueError) as error:
        return Answer(Verdict.FAILURE, f"{dial}: {_reason(error)}")
    transport.close()
    return Answer(Verdict.SUCCESS)


# --- texts


def joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _trouble(error: Exception, url: str) -> str:
    """What went wrong with a request, in the words that people look for."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        parts = urlsplit(url)
        return f"dial tcp {joined(parts.hostname or '', parts.port or 0)}: {_reason(error.os_error)}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"malformed HTTP response: {error.message}"
    if isinstance(error, ConnectionResetError):
        return "read: connection reset by peer"
    return str(error) or type(error).__name__


def _reason(error: Exception) -> str:
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.ETIMEDOUT:
        return "connect: connection timed out"
    if code is not None and code > 0 and code in errno.errorcode:
        return f"connect: {os.strerror(code).lower()}"
    return str(error)

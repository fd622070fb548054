"""Single attempts at real servers on the loopback interface, in real time."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web

from kit.certificates import Authority, server_context
from kit.fake_runtime import FakeRuntime
from kit.loopback import forwarding, serving
from pykubelet.api.container import Container, ContainerPort
from pykubelet.api.handlers import ExecAction, GRPCAction, HTTPGetAction, HTTPHeader, Probe, TCPSocketAction
from pykubelet.node.probes import LONGEST_OUTPUT, Attempts, probe_url, request_headers
from pykubelet.pod.ports.probing import Answer, Verdict

HERE = "127.0.0.1"


async def attempt(probe: Probe, container: Container | None = None, *, pod_ip: str = HERE) -> Answer:
    attempts = Attempts(FakeRuntime())
    try:
        return await attempts.attempt(probe, container or Container(name="c"), "c-1", pod_ip)
    finally:
        await attempts.close()


def http(port: int | str, path: str = "/", *, seconds: int = 10, **fields: Any) -> Probe:
    return Probe(http_get=HTTPGetAction(port=port, path=path, scheme="HTTP", **fields), timeout_seconds=seconds)


def answering(status: int, text: str = "", **headers: str) -> Callable[[web.BaseRequest], Awaitable[web.Response]]:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status, text=text, headers=headers)

    return answer


@asynccontextmanager
async def speaking(said: bytes) -> AsyncIterator[int]:
    """A server that says the same to everybody, whatever they ask, and hangs up."""

    visitors: set[asyncio.Task[None]] = set()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        with suppress(ConnectionError):
            writer.write(said)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visitors.add(asyncio.create_task(speak(reader, writer)))

    server = await asyncio.start_server(visit, HERE, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*visitors)


async def closed_port() -> int:
    server = await asyncio.start_server(lambda reader, writer: None, HERE, 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


# --- HTTP


@pytest.mark.parametrize("status", [200, 204, 299])
async def test_an_answer_of_200_or_more_is_a_success(status: int) -> None:
    async with serving(answering(status)) as port:
        assert (await attempt(http(port))).verdict is Verdict.SUCCESS


@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_an_answer_of_400_or_more_is_a_failure_and_its_body_is_not_told(status: int) -> None:
    async with serving(answering(status, "a secret")) as port:
        assert await attempt(http(port)) == Answer(Verdict.FAILURE, f"HTTP probe failed with statuscode: {status}")


async def test_a_request_is_what_the_author_of_the_probe_wrote() -> None:
    seen: list[tuple[str, dict[str, list[str]]]] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append((request.path_qs, {name: request.headers.getall(name) for name in request.headers}))
        return web.Response()

    async with serving(answer) as port:
        headers = tuple(
            HTTPHeader(name=name, value=value) for name, value in [("X-A", "1"), ("X-A", "2"), ("Host", "h")]
        )
        container = Container(name="c", ports=(ContainerPort(name="web", container_port=port),))
        await attempt(http("web", "/a%2Fb?x=1&y=%20#part", http_headers=headers), container)
        await attempt(http(str(port), "plain", http_headers=(HTTPHeader(name="accept", value=""),)))
    assert seen[0] == (
        "/a%2Fb?x=1&y=%20",
        {
            "Host": ["h"],
            "X-A": ["1", "2"],
            "User-Agent": ["kube-probe/1.34"],
            "Accept": ["*/*"],
            "Connection": ["close"],
        },
    )
    assert seen[1] == (
        "/plain",
        {"Host": [f"{HERE}:{port}"], "User-Agent": ["kube-probe/1.34"], "Connection": ["close"]},
    )


async def test_redirects_are_followed_on_the_same_host() -> None:
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        if request.path == "/a":
            return web.Response(status=302, headers={"Location": "/b"})
        if request.path == "/b":
            return web.Response(status=307, headers={"Location": f"http://{request.host}/c"})
        return web.Response(text="here")

    async with serving(answer) as port:
        assert await attempt(http(port, "/a")) == Answer(Verdict.SUCCESS, "here")
    assert asked == ["/a", "/b", "/c"]


async def test_a_redirect_to_another_host_is_a_success_with_a_warning() -> None:
    async with serving(answering(302, "go away", Location="http://elsewhere.invalid/")) as port:
        answer = await attempt(http(port))
    assert answer == Answer(Verdict.WARNING, "Probe terminated redirects, Response body: go away")


async def test_redirects_without_end_are_a_failure() -> None:
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        return web.Response(status=301, headers={"Location": request.path})

    async with serving(answer) as port:
        found = await attempt(http(port, "/x"))
    assert found == Answer(Verdict.FAILURE, f'Get "http://{HERE}:{port}/x": stopped after 10 redirects')
    assert len(asked) == 10


async def test_any_certificate_will_do() -> None:
    issued = Authority().issue("somebody", hosts=("elsewhere.example",))
    async with serving(answering(200, "fine"), tls=server_context(issued)) as port:
        probe = Probe(http_get=HTTPGetAction(port=port, path="/", scheme="HTTPS"), timeout_seconds=10)
        assert await attempt(probe) == Answer(Verdict.SUCCESS, "fine")
        assert (await attempt(http(port))).verdict is Verdict.FAILURE


async def test_a_port_where_nobody_listens_is_a_failure() -> None:
    port = await closed_port()
    refused = f"dial tcp {HERE}:{port}: connect: connection refused"
    assert await attempt(http(port, "/x")) == Answer(Verdict.FAILURE, f'Get "http://{HERE}:{port}/x": {refused}')
    assert await attempt(Probe(tcp_socket=TCPSocketAction(port=port))) == Answer(Verdict.FAILURE, refused)


async def test_a_server_that_takes_too_long_is_a_failure() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with serving(answer) as port:
        found = await attempt(http(port, seconds=1))
    timeout = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert found == Answer(Verdict.FAILURE, f'Get "http://{HERE}:{port}/": {timeout}')


async def test_of_a_body_without_end_only_the_beginning_is_read() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        while True:
            await stream.write(b"x" * 1000)

    async with serving(answer) as port:
        assert await attempt(http(port)) == Answer(Verdict.SUCCESS, "x" * LONGEST_OUTPUT)


async def test_a_body_that_breaks_off_says_nothing_about_the_container() -> None:
    async with speaking(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort") as port:
        answer = await attempt(http(port))
    assert (answer.verdict, answer.is_error) == (Verdict.FAILURE, True)


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 abc\r\n\r\n"])
async def test_what_is_no_http_server_is_a_failure(said: bytes) -> None:
    async with speaking(said) as port:
        answer = await attempt(http(port))
    assert (answer.verdict, answer.is_error) == (Verdict.FAILURE, False)
    assert answer.output.startswith(f'Get "http://{HERE}:{port}/": ')


async def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with forwarding() as proxy, serving(answering(200)) as port:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://{HERE}:{proxy.port}")
        assert (await attempt(http(port))).verdict is Verdict.SUCCESS
        assert proxy.asked == []


async def test_a_host_of_its_own_may_be_asked_instead_of_the_pod() -> None:
    async with serving(answering(200)) as port:
        probe = http(port, host="localhost")
        assert (await attempt(probe, pod_ip="192.0.2.1")).verdict is Verdict.SUCCESS


async def test_a_port_that_the_container_does_not_have_says_nothing_about_it() -> None:
    answer = await attempt(http("web"))
    assert answer == Answer(Verdict.UNKNOWN, "container c has no port 'web'", is_error=True)


async def test_a_pod_without_an_address_says_nothing_about_the_container() -> None:
    assert (await attempt(http(80), pod_ip="")).is_error
    assert (await attempt(Probe(tcp_socket=TCPSocketAction(port=80)), pod_ip="")).is_error


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("", "/"),
        ("healthz", "/healthz"),
        ("/a b", "/a%20b"),
        ("/a?b=c d", "/a?b=c%20d"),
        ("/100%", "/100%25"),
        ("/é", "/%C3%A9"),
        ("/a%20b", "/a%20b"),
        ("/a\r\nX: y", "/a%0D%0AX:%20y"),
    ],
)
def test_odd_paths_are_escaped(path: str, asked: str) -> None:
    assert probe_url("http", "10.0.0.1", 80, path) == f"http://10.0.0.1:80{asked}"


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert probe_url("https", "fd00::1", 8443, "/") == "https://[fd00::1]:8443/"


def test_an_own_user_agent_is_kept() -> None:
    headers = request_headers((HTTPHeader(name="user-agent", value="mine"),))
    assert headers == [("user-agent", "mine"), ("Accept", "*/*"), ("Connection", "close")]


# --- TCP, commands


async def test_a_connection_that_can_be_opened_is_a_success() -> None:
    async with speaking(b"") as port:
        named = Container(name="c", ports=(ContainerPort(name="db", container_port=port),))
        assert await attempt(Probe(tcp_socket=TCPSocketAction(port="db")), named) == Answer(Verdict.SUCCESS)


async def test_a_command_in_a_container_that_is_not_there_says_nothing_about_it() -> None:
    answer = await attempt(Probe(exec=ExecAction(command=("check", "it")), timeout_seconds=5))
    assert (answer.verdict, answer.is_error) == (Verdict.UNKNOWN, True)


async def test_a_probe_of_nothing_says_so() -> None:
    answer = await attempt(Probe())
    assert answer.is_error
    assert "names nothing to do" in answer.output


# --- gRPC


@asynccontextmanager
async def grpc_server(answer: Callable[[bytes, Any], Awaitable[bytes]]) -> AsyncIterator[int]:
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    import grpc
    import grpc.aio

    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {"Check": grpc.unary_unary_rpc_method_handler(answer)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", handlers),))
    port = server.add_insecure_port(f"{HERE}:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


def grpc_probe(port: int, service: str | None = None, seconds: int = 10) -> Probe:
    return Probe(grpc=GRPCAction(port=port, service=service), timeout_seconds=seconds)


async def test_a_grpc_server_is_asked_for_the_health_of_a_service() -> None:
    asked: list[tuple[bytes, str]] = []
    states = {b"": 1, b"\x0a\x02db": 2, b"\x0a\x03new": 9}

    async def answer(request: bytes, context: Any) -> bytes:
        asked.append((request, dict(context.invocation_metadata())["user-agent"]))
        return b"\x12\x03abc\x08" + bytes([states[request]])  # with a field that nobody knows

    async with grpc_server(answer) as port:
        assert await attempt(grpc_probe(port)) == Answer(Verdict.SUCCESS)
        sick = Answer(Verdict.FAILURE, 'service unhealthy (responded with "NOT_SERVING")')
        assert await attempt(grpc_probe(port, "db")) == sick
        assert (await attempt(grpc_probe(port, "new"))).output == 'service unhealthy (responded with "9")'
    assert [request for request, _ in asked] == list(states)
    assert asked[0][1].startswith("kube-probe/1.34 ")


async def test_an_answer_that_is_no_answer_is_a_failure() -> None:
    async def answer(request: bytes, context: Any) -> bytes:
        return b"\xff\xff"

    async with grpc_server(answer) as port:
        why = "error: health rpc probe failed: the answer cannot be read"
        assert await attempt(grpc_probe(port)) == Answer(Verdict.FAILURE, why)


async def test_a_grpc_server_without_health_checks_or_with_errors_is_a_failure() -> None:
    import grpc

    async def answer(request: bytes, context: Any) -> bytes:
        code = grpc.StatusCode.UNIMPLEMENTED if not request else grpc.StatusCode.NOT_FOUND
        await context.abort(code, "unknown service")
        return b""

    async with grpc_server(answer) as port:
        missing = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
        assert await attempt(grpc_probe(port)) == Answer(Verdict.FAILURE, f"{missing}unknown service")
        error = "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"
        assert await attempt(grpc_probe(port, "x")) == Answer(Verdict.FAILURE, error)


async def test_a_grpc_server_that_is_slow_or_not_there_is_a_failure() -> None:
    async def answer(request: bytes, context: Any) -> bytes:
        await asyncio.sleep(60)
        return b""

    async with grpc_server(answer) as port:
        slow = Answer(Verdict.FAILURE, "timeout: health rpc did not complete within 1s")
        assert await attempt(grpc_probe(port, seconds=1)) == slow
    port = await closed_port()
    why = f'timeout: failed to connect service "{HERE}:{port}" within 1s: context deadline exceeded'
    assert await attempt(grpc_probe(port, seconds=1)) == Answer(Verdict.FAILURE, why)

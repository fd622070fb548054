import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kit.loopback import Handler, serving
from kit.ports import free_port
from pykubelet import __version__
from pykubelet.api.meta import Status, StatusDetails
from pykubelet.api.objects import ConfigMap
from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError, Retry
from pykubelet.kube import client as rest
from pykubelet.kube import errors
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.pod.moments import Journal

PATH = "/api/v1/configmaps"


def client_of(port: int, *, prefix: str = "", **options: Any) -> ApiClient:
    cluster = Cluster(server=f"http://127.0.0.1:{port}{prefix}")
    return ApiClient(Credentials(ClientConfig(cluster, User()), environ={}), **options)


@asynccontextmanager
async def talking_to(handler: Handler, *, prefix: str = "", **options: Any) -> AsyncIterator[ApiClient]:
    async with serving(handler) as port, client_of(port, prefix=prefix, **options) as server:
        yield server


def answering(status: int = 200, body: bytes = b"", **headers: str) -> Handler:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(
            status=status, body=body, headers={name.replace("_", "-"): each for name, each in headers.items()}
        )

    return answer


def refusing(code: int, reason: str = "", message: str = "no", **details: Any) -> Handler:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code}
    body = json.dumps({**status, "reason": reason, "message": message, "details": details}).encode()
    return answering(code, body, Content_Type="application/json")


async def echo(request: web.BaseRequest) -> web.Response:
    """An object that tells what was asked."""
    told = {
        "method": request.method,
        "url": request.raw_path if isinstance(request, web.Request) else str(request.rel_url.raw_path_qs),
        "body": await request.text(),
        **{name.lower(): request.headers.get(name, "") for name in ("Content-Type", "Accept", "User-Agent")},
    }
    return web.json_response({"kind": "ConfigMap", "metadata": {"name": "told"}, "data": told})


# --- verbs


async def test_get_decodes_the_answer_or_gives_it_as_it_came() -> None:
    async with talking_to(echo) as server:
        told = await server.get(PATH, ConfigMap)
        assert told.data["method"] == "GET"
        assert told.data["user-agent"] == f"pykubelet/{__version__}"
        assert told.data["accept"] == "application/json"
        assert json.loads(await server.get(PATH, bytes))["metadata"] == {"name": "told"}


async def test_create_update_and_patch_send_an_object() -> None:
    async with talking_to(echo) as server:
        sent = ConfigMap(data={"a": "b"})
        created = await server.create(PATH, sent, ConfigMap, params={"dryRun": "All"})
        updated = await server.update(PATH + "/x", sent, ConfigMap)
        patched = await server.patch(PATH + "/x", {"data": {"a": None}}, ConfigMap)
    assert (created.data["method"], created.data["url"]) == ("POST", PATH + "?dryRun=All")
    assert json.loads(created.data["body"]) == {"data": {"a": "b"}, "metadata": {}}
    assert (updated.data["method"], updated.data["content-type"]) == ("PUT", "application/json")
    assert patched.data["content-type"] == "application/strategic-merge-patch+json"
    assert patched.data["body"] == '{"data":{"a":null}}'


async def test_delete_carries_uid_and_grace_even_when_it_is_zero() -> None:
    bodies = []

    async def note(request: web.BaseRequest) -> web.Response:
        bodies.append(json.loads(await request.text()))
        return web.json_response({"kind": "Status", "status": "Success"})

    async with talking_to(note) as server:
        await server.delete(PATH + "/x", uid="u", grace_period_seconds=0)
        await server.delete(PATH + "/x")
    assert bodies == [
        {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": "u"},
            "gracePeriodSeconds": 0,
        },
        {"kind": "DeleteOptions", "apiVersion": "v1"},
    ]


async def test_parameters_are_encoded_and_absent_ones_left_out() -> None:
    params: rest.Params = {
        "fieldSelector": "spec.nodeName=a b&c",
        "watch": True,
        "limit": 0,
        "gone": None,
        "labelSelector": "a in (b,ç)+",
    }
    async with talking_to(echo, prefix="/k8s/clusters/c-1/") as server:
        told = await server.get("/api/v1/a b:ç?", ConfigMap, params=params)
    assert told.data["url"] == (
        "/k8s/clusters/c-1/api/v1/a%20b:%C3%A7%3F?fieldSelector=spec.nodeName%3Da+b%26c&watch=true&limit=0"
        "&labelSelector=a+in+%28b%2C%C3%A7%29%2B"
    )


def test_paths_follow_the_api() -> None:
    assert object_path("pods") == "/api/v1/pods"
    assert object_path("pods", namespace="n", name="p", subresource="status") == "/api/v1/namespaces/n/pods/p/status"
    assert (
        object_path("leases", group="coordination.k8s.io/v1", namespace="kube-node-lease", name="me")
        == "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/me"
    )


@pytest.mark.parametrize("name", ["..", ".", "../secrets/other", "a/b", "a%2fb"])
def test_a_name_cannot_lead_elsewhere(name: str) -> None:
    with pytest.raises(Invalid, match="cannot be the name of an object"):
        object_path("configmaps", namespace="n", name=name)
    with pytest.raises(Invalid):
        object_path("configmaps", namespace=name)


# --- answers that are errors


@pytest.mark.parametrize(
    ("code", "reason", "ours", "base"),
    [
        (400, "BadRequest", errors.Refused, Invalid),
        (401, "Unauthorized", errors.Unauthorized, Retry),
        (403, "Forbidden", errors.Forbidden, Invalid),
        (404, "NotFound", errors.ObjectNotFound, NotFound),
        (405, "MethodNotAllowed", errors.Refused, Invalid),
        (408, "Timeout", errors.Unavailable, Retry),
        (409, "Conflict", errors.ObjectConflict, Conflict),
        (409, "AlreadyExists", errors.AlreadyExists, Conflict),
        (410, "Expired", errors.Expired, Conflict),
        (413, "RequestEntityTooLarge", errors.Refused, Invalid),
        (415, "UnsupportedMediaType", errors.Refused, Invalid),
        (422, "Invalid", errors.Refused, Invalid),
        (429, "TooManyRequests", errors.Unavailable, Retry),
        (500, "InternalError", errors.Unavailable, Retry),
        (503, "ServiceUnavailable", errors.Unavailable, Retry),
        (504, "Timeout", errors.Unavailable, Retry),
    ],
)
async def test_a_refusal_says_what_to_do_about_it(
    code: int, reason: str, ours: type[errors.ApiError], base: type[PykubeletError]
) -> None:
    async with talking_to(refusing(code, reason, 'configmaps "x" is in trouble')) as server:
        with pytest.raises(base) as caught:
            await server.get(PATH + "/x", ConfigMap)
    error = caught.value
    assert type(error) is ours
    assert isinstance(error, errors.ApiError)
    assert (error.code, error.reason, error.status.message) == (code, reason, 'configmaps "x" is in trouble')
    asked = f"GET {server.url}{PATH}/x" + (" with the credentials of the configuration" if code == 401 else "")
    assert str(error) == f'{asked}: configmaps "x" is in trouble'


async def test_the_server_may_say_when_to_try_again() -> None:
    async with talking_to(answering(503, b"", Retry_After="7")) as server:
        with pytest.raises(Retry) as caught:
            await server.get(PATH, ConfigMap)
        assert caught.value.after == 7
    async with talking_to(refusing(429, retryAfterSeconds=3)) as server:
        with pytest.raises(Retry) as caught:
            await server.get(PATH, ConfigMap)
        assert caught.value.after == 3
    async with talking_to(answering(500, b"", Retry_After="tomorrow")) as server:
        with pytest.raises(Retry) as caught:
            await server.get(PATH, ConfigMap)
        assert caught.value.after is None


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"upstream is away\nmore", "text/plain", "503 Service Unavailable: upstream is away"),
        (b"<html>", "text/html", "503 Service Unavailable"),
        (b'{"kind": "Other"}', "application/json", "503 Service Unavailable"),
        (b"\xff\x00", "application/octet-stream", "503 Service Unavailable"),
    ],
)
async def test_a_refusal_from_something_else_is_understood_too(body: bytes, kind: str, message: str) -> None:
    async with talking_to(answering(503, body, Content_Type=kind)) as server:
        with pytest.raises(errors.Unavailable) as caught:
            await server.get(PATH, ConfigMap)
    assert caught.value.status == Status(kind="Status", status="Failure", message=message, code=503)


async def test_a_redirect_is_not_followed() -> None:
    async with talking_to(answering(302, b"", Location="https://elsewhere:1/x?y")) as server:
        with pytest.raises(errors.Refused, match="a redirect to https://elsewhere:1/x, which is not followed"):
            await server.get(PATH, ConfigMap)


def test_a_status_in_a_watch_makes_the_same_errors() -> None:
    error = errors.api_error(Status(code=410, message="too old"))
    assert isinstance(error, errors.Expired)
    assert str(error) == "too old"
    slow_down = errors.api_error(Status(code=429, details=StatusDetails(retry_after_seconds=2)), "watch")
    assert isinstance(slow_down, Retry)
    assert slow_down.after == 2


async def test_an_answer_of_another_shape_is_no_answer() -> None:
    async with talking_to(answering(200, b"<html>")) as server:
        with pytest.raises(errors.BadAnswer, match="the answer is not a ConfigMap: is not JSON"):
            await server.get(PATH, ConfigMap)


# --- limits


async def test_an_answer_may_be_large_but_not_too_large() -> None:
    async with talking_to(answering(200, b"x" * 300_000), max_answer=300_000) as server:
        assert len(await server.get(PATH, bytes)) == 300_000
    packed = gzip.compress(b"x" * 300_001)
    async with talking_to(answering(200, packed, Content_Encoding="gzip"), max_answer=300_000) as server:
        with pytest.raises(errors.TooLarge, match="larger than 300,000 bytes"):
            await server.get(PATH, bytes)


async def test_an_answer_that_does_not_come_is_given_up() -> None:
    async def never(request: web.BaseRequest) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with talking_to(never, timeout=0.05) as server:
        with pytest.raises(Retry, match=r"http://127.0.0.1:\d+ took too long"):
            await server.get(PATH, ConfigMap)
        with pytest.raises(Retry, match="took too long"):
            async with server.stream(PATH):
                pass


async def test_the_rate_limit_counts_requests_but_not_streams() -> None:
    async with talking_to(answering(200, b"{}"), qps=0.001, burst=2) as server:
        for _ in range(5):
            async with server.stream(PATH):
                pass
        await server.get(PATH, bytes)
        await server.get(PATH, bytes)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await server.get(PATH, bytes)


# --- connections


async def test_a_server_that_is_away_is_named() -> None:
    port = free_port()
    async with client_of(port) as server:
        with pytest.raises(errors.Unreachable, match=rf"http://127.0.0.1:{port} cannot be reached: .*refused"):
            await server.get(PATH, ConfigMap)


async def test_a_name_that_does_not_resolve_is_named() -> None:
    config = ClientConfig(Cluster(server="https://nowhere.invalid"), User())
    async with ApiClient(Credentials(config, environ={})) as server:
        with pytest.raises(errors.Unreachable, match=r"the name nowhere.invalid cannot be resolved"):
            await server.get(PATH, ConfigMap)


Connection = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_server(answer: bytes) -> AsyncIterator[int]:
    """Reads a request's head, writes the answer as it is, and hangs up."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"HTTP/1.0 400 Bad Request\r\n\r\nspeak TLS", "GET .*: 400 Bad Request: speak TLS"),
        (b"", "broke the connection off during GET"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "broke the connection off during GET"),
        (b"SSH-2.0-OpenSSH\r\n", "is not HTTP as it should be"),
    ],
)
async def test_half_an_answer_is_none(answer: bytes, complaint: str) -> None:
    async with raw_server(answer) as port, client_of(port) as server:
        with pytest.raises(PykubeletError, match=complaint):
            await server.get(PATH, ConfigMap)


async def test_https_to_a_plain_server_says_so() -> None:
    async with serving(echo) as port:
        config = ClientConfig(Cluster(server=f"https://127.0.0.1:{port}"), User())
        async with ApiClient(Credentials(config, environ={})) as server:
            with pytest.raises(errors.Untrusted, match="the server does not speak TLS"):
                await server.get(PATH, ConfigMap)


# --- streams


def streaming(*chunks: bytes, then: Callable[[], Awaitable[object]] | None = None) -> Handler:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then is not None:
            await then()
        return response

    return answer


async def lines_of(server: ApiClient) -> list[bytes]:
    async with server.stream(PATH, {"watch": True}) as lines:
        return [line async for line in lines]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ((b"a\nb\n", b"c\n"), [b"a", b"b", b"c"]),
        ((b"a", b"b", b"\n", b"c\nd", b"e\n"), [b"ab", b"c", b"de"]),
        ((b"\n\na\n\n",), [b"a"]),
        ((b"a\nb",), [b"a", b"b"]),
        ((), []),
    ],
)
async def test_a_stream_is_cut_into_lines(chunks: tuple[bytes, ...], lines: list[bytes]) -> None:
    async with talking_to(streaming(*chunks)) as server:
        assert await lines_of(server) == lines


async def test_a_line_may_be_long_but_not_too_long() -> None:
    size = 3 << 20
    async with talking_to(streaming(b"a\n" + b"x" * size + b"\nb\n"), max_line=size) as server:
        assert [len(line) for line in await lines_of(server)] == [1, size, 1]
    async with talking_to(streaming(b"x" * (size + 1) + b"\n"), max_line=size) as server:
        with pytest.raises(errors.TooLarge, match="one line is longer than 3,145,728 bytes"):
            await lines_of(server)
    async with talking_to(streaming(b"x" * (size + 1), then=asyncio.Event().wait), max_line=size) as server:
        with pytest.raises(errors.TooLarge):
            await lines_of(server)


async def test_lines_arrive_while_the_stream_is_open_and_leaving_closes_it() -> None:
    left = asyncio.Event()

    async def until_left() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    async with talking_to(streaming(b"a\n", then=until_left)) as server:
        async with server.stream(PATH) as lines:
            assert await anext(lines) == b"a"
            assert not left.is_set()
        await left.wait()


async def test_a_silent_stream_ends_when_it_may_not_idle() -> None:
    async with (
        talking_to(streaming(b"a\n", then=asyncio.Event().wait)) as server,
        server.stream(PATH, idle=0.5) as lines,
    ):
        assert await anext(lines) == b"a"
        with pytest.raises(errors.Unreachable, match="took too long"):
            await anext(lines)


async def test_a_stream_that_breaks_is_not_a_stream_that_ends() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with (
        raw_server(head + b"2\r\na\n\r\n") as port,
        client_of(port) as server,
        server.stream(PATH) as lines,
    ):
        assert await anext(lines) == b"a"
        with pytest.raises(errors.Unreachable, match="broke the connection off"):
            await anext(lines)


async def test_a_stream_that_is_refused_says_why() -> None:
    async with talking_to(refusing(410, "Expired", "too old resource version")) as server:
        with pytest.raises(errors.Expired, match="too old resource version"):
            async with server.stream(PATH):
                pass


async def test_an_error_in_the_reader_of_a_stream_is_its_own() -> None:
    async with talking_to(streaming(b"a\n")) as server:
        with pytest.raises(TimeoutError, match="mine"):
            async with server.stream(PATH):
                raise TimeoutError("mine")


async def test_a_dead_peer_is_noticed_within_a_minute() -> None:
    with rest._socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))) as made:
        idle, interval, count = (
            made.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert idle + interval * count <= 60


async def test_the_server_is_told_of_the_trace_that_goes_on() -> None:
    told = []

    async def answer(request: web.BaseRequest) -> web.Response:
        told.append(request.headers.get("traceparent"))
        return web.Response(body=b"{}")

    journal = Journal()
    async with talking_to(answer, journal=journal) as server:
        await server.request("GET", PATH)
        journal.traceparent = lambda: "00-aa-bb-01"
        await server.request("GET", PATH)
    assert told == [None, "00-aa-bb-01"]

"""Whatever a client sends, the API server answers with an object or with a Status that says what is wrong with it.

PYKUBELET_TEST_SEED chooses other requests, PYKUBELET_TEST_FUZZ_SECONDS how long each kind of them goes on.
"""

import asyncio
import contextlib
import gzip
import json
import os
import socket
import ssl
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final, cast

import aiohttp
import hypothesis
import pytest
import schemathesis
from yarl import URL

from kit.agent_process import is_alive
from kit.api_fuzz import PATCHES, Ask, Hostile, friendly
from kit.api_process import serving_api
from kit.apiserver_process import ApiServerProcess
from kit.waiting import wait_for
from pykubelet.apiserver.requests import request_body

SEED: Final = int(os.environ.get("PYKUBELET_TEST_SEED") or 1)
SECONDS: Final = float(os.environ.get("PYKUBELET_TEST_FUZZ_SECONDS") or 8)
MAPS: Final = "/api/v1/namespaces/default/configmaps"
# Faults in a patch that upstream calls its own, too.
UPSTREAM: Final = (
    *("does not contain declared merge key", "failed to create typed", "list element types are not identical"),
    *("unknown patch type", "resourceVersion should not be set on objects to be created", "ResourceVersionTooLarge"),
    *("delete: ", "$retainKeys", "$setElementOrder", "cannot be merged", "invalid", "doesn't match"),
)
STREAMS: Final = ("attach", "exec", "portforward", "proxy")


class Server(ApiServerProcess):
    """A real one, in a process of its own, so that what it uses can be seen."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "--store", "memory", "--controllers=*,-kube-scheduler")

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {(self.data / 'pki' / 'admin.token').read_text()}"}

    def files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def faults(self) -> str:
        text = self.log.read_text(errors="replace")
        return text[text.index("Traceback") - 500 :][:5000] if "Traceback" in text else ""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="pykubelet-fuzz-") as folder:
        running = Server(Path(folder))
        running.start()
        try:
            yield running
        finally:
            running.stop()


@pytest.fixture(autouse=True)
def _nothing_is_left(server: Server) -> Iterator[None]:
    """Neither connections nor memory nor a fault in the log."""
    files = server.files()
    yield
    assert is_alive(server.pid)
    assert server.faults() == ""
    wait_for(lambda: server.files() <= files + 2, seconds=20, otherwise=lambda: f"{files} files, {server.files()} now")
    assert server.rss() < 300


@contextlib.asynccontextmanager
async def client(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(server.url, headers=server.headers, connector=connector) as session:
        yield session


def check(code: int, text: bytes, what: object) -> None:
    if code < 400:
        return
    answer = json.loads(text)
    assert answer["kind"] == "Status", (what, text)
    assert answer["code"] == code, (what, text)
    assert answer["message"], (what, text)
    assert code < 500 or any(each in text.decode() for each in UPSTREAM), (what, text)


async def ask(session: aiohttp.ClientSession, each: Ask, **headers: str) -> int:
    sent = {"Content-Type": each.kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with session.request(each.method, each.path, data=each.body or None, headers=sent) as answer:
        check(answer.status, await answer.read(), each)
        return answer.status


async def left(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


# --- many requests that are nearly right


async def test_no_object_or_patch_that_is_nearly_right_makes_it_fail(server: Server) -> None:
    requests = Hostile(SEED).requests()
    deadline = time.monotonic() + SECONDS

    async def go_on(session: aiohttp.ClientSession) -> int:
        count = 0
        while time.monotonic() < deadline:
            await ask(session, next(requests))
            count += 1
        return count

    async with client(server) as session:
        for path, obj in friendly().items():
            assert await ask(session, Ask("POST", path, json.dumps(obj).encode())) in (201, 409)
        counts = await asyncio.gather(*(go_on(session) for _ in range(4)))
        codes = {await ask(session, Ask("GET", path)) for path in friendly() if "review" not in path}
    print(f"{sum(counts)} requests")
    assert codes == {200}


def test_no_request_that_its_own_description_allows_makes_it_fail(server: Server) -> None:
    def described(path: str) -> dict[str, Any]:
        context = ssl._create_unverified_context()
        raw = socket.create_connection(("127.0.0.1", server.port))
        with raw, context.wrap_socket(raw) as tls:
            token = server.headers["Authorization"]
            tls.sendall(f"GET {path} HTTP/1.0\r\nAuthorization: {token}\r\n\r\n".encode())
            data = b"".join(iter(lambda: tls.recv(65536), b""))
        found: dict[str, Any] = json.loads(data.partition(b"\r\n\r\n")[2])
        return found

    operations: list[Any] = [
        cast(Any, found).ok()
        for path in described("/openapi/v3")["paths"]
        for found in schemathesis.openapi.from_dict(described(f"/openapi/v3/{path}")).get_all_operations()
    ]
    wanted = [each for each in operations if not each.path.rpartition("/")[2].startswith(STREAMS)]
    deadline = time.monotonic() + SECONDS
    # Those that come first change from seed to seed: all of them would take a minute.
    for number in sorted(range(len(wanted)), key=lambda index: (index * 7919 + SEED * 31) % len(wanted)):
        if time.monotonic() > deadline:
            break
        _try(server, wanted[number])


def _try(server: Server, operation: Any) -> None:
    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=3,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(case=operation.as_strategy())
    def go(case: Any) -> None:
        (case.query or {}).pop("watch", None)  # it would go on for as long as it says
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = case.call(base_url=server.url, headers=server.headers, verify=False, timeout=30)
        check(answer.status_code, answer.content, f"{operation.method} {operation.path}")

    go()


# --- requests that are not right at all

BAD_BODIES: Final = (
    *(b"", b"{", b"[]", b"null", b"1", b'"a"', b"{}" * 3, b"\xff\xfe", b'{"a":"\xff"}', b'{"kind":"\\ud800"}', b"\0"),
    *(b"[" * 100_000, b'{"a":' * 100_000, b'{"metadata":' * 300 + b"{}" + b"}" * 300, b"- " * 50_000 + b"a"),
    *(b'{"a":1,"a":2}', b'{"metadata":{"name":"a","name":"b"}}', b"NaN", b'{"data":{"a":Infinity}}', b"1" * 10_000),
    *(b"a: &a [*a]", b"a: &a {b: *a}", b"!!python/object/apply:os.system ['true']", b"%YAML 9.9\n---\n", b"a: b: c"),
    b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"\n".join(b"b%d: &b%d [*a,*a,*a,*a,*a,*a,*a,*a,*a]" % (n, n) for n in range(9)),
    *(b"k8s\0", b"k8s\0" + b"\xff" * 50, b"k8s\0\x0a\xff\xff\xff\xff\x0f", b"k8s\0\x0a\x04\x0a\x02v1\x12\x02\x0a\x00"),
    b"k8s\0" + b"\x0a\x0d\x0a\x02v1\x12\x07" + b"ConfigM" + b"\x12" + b"\x7f" * 30,
)
KINDS: Final = (
    *("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", *PATCHES),
    *("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "a/b; charset=\xe9"),
)


async def test_bodies_that_cannot_be_read_are_refused_whatever_they_say_they_are(server: Server) -> None:
    async with client(server) as session:
        await ask(session, Ask("POST", MAPS, b'{"metadata":{"name":"there"}}'))
        for kind in KINDS:
            for body in BAD_BODIES:
                query = "?fieldManager=m" if "apply" in kind else ""
                for method, path in (("POST", MAPS), ("PUT", f"{MAPS}/there"), ("PATCH", f"{MAPS}/there")):
                    await ask(session, Ask(method, path + query, body, kind))
                await ask(session, Ask("DELETE", f"{MAPS}/there?dryRun=All", body, kind))


PATHS: Final = [
    *(
        "//api//v1//pods",
        "/api/v1/pods/../../..",
        "/api/v1/%2e%2e/secrets",
        f"{MAPS}/..%2f..%2fsecrets",
        f"{MAPS}/%00",
    ),
    *("/api/v1/namespaces/%00/pods", f"{MAPS}/%ff%fe", f"{MAPS}/a%2Fb", f"{MAPS}/{'a' * 5000}", "/api/v1/nothing"),
    *(
        "/apis/none/v1/x",
        "/apis/v1",
        "/api/v2/pods",
        "/api/v1/pods/a/b/c/d/e",
        f"{MAPS}/a/status",
        f"{MAPS}/a/exec",
    ),
    *(
        "/api/v1/namespaces//pods",
        "/openapi/v3/../../x",
        "/openapi/v3/none",
        "/metrics",
        "/.well-known/x",
        "/*",
        "/%",
    ),
    *("/api/v1/watch", "/api/v1/watch/namespaces/default/pods/x/y", "/api/v1/proxy/namespaces/a", "/readyz/none"),
    "/api/v1/namespaces/default/pods/a/proxy/../../../x",
]
QUERIES: Final = [
    *(
        "limit=-1",
        "limit=9999999999999999999999",
        "limit=a",
        "continue=a",
        "continue=e30",
        "continue=%ff",
        "watch=maybe",
    ),
    *("resourceVersion=-1", "resourceVersion=a", "resourceVersion=99999999999999999999", "resourceVersionMatch=x"),
    *("labelSelector=%00", "labelSelector=a%20in%20(", "labelSelector=!!!", "labelSelector==", "labelSelector=,,,"),
    *("fieldSelector=spec.x=1", "fieldSelector==", "fieldSelector=a%3D%3D%3D", "fieldSelector=%ff", "dryRun=x"),
    *("timeoutSeconds=-5", "timeoutSeconds=x", "sendInitialEvents=true", "pretty=x", "a=" + "b" * 9000),
    "labelSelector=" + ",".join(f"k{n}%20in%20(a,b,c)" for n in range(5000)),
    "labelSelector=" + "(" * 20_000,
    "fieldSelector=" + ",".join("metadata.name%21%3Dx" for _ in range(5000)),
    "&".join(f"labelSelector=a{n}" for n in range(5000)),
]


async def test_paths_queries_and_methods_that_make_no_sense_are_refused(server: Server) -> None:
    async with client(server) as session:
        for path in PATHS:
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"):
                raw = URL(f"{server.url}{path}", encoded=True)
                async with session.request(method, raw) as answer:
                    text = await answer.read()
                    if answer.content_type == "application/json" and text:
                        check(answer.status, text, (method, path))
                    assert answer.status < 500, (method, path, text)
        for query in QUERIES:
            for path in (MAPS, f"{MAPS}/there", "/api/v1/pods"):
                raw = URL(f"{server.url}{path}?{query}", encoded=True)
                async with session.get(raw) as answer:
                    check(answer.status, await answer.read(), query[:100])


async def test_headers_that_make_no_sense_are_refused(server: Server) -> None:
    body = b'{"metadata":{"name":"headers"}}'
    bomb = gzip.compress(b" " * (200 << 20))
    async with client(server) as session:
        for accept in ("", "text/html", ";;;", "application/json;as=Table", "a" * 5000, "*/*;q=x", "application/xml"):
            await ask(session, Ask("GET", MAPS), Accept=accept)
        for agent in ("", "\xe9" * 100, "x" * 5000, "a/b" * 100):
            await ask(session, Ask("POST", f"{MAPS}?dryRun=All", body), User_Agent=agent)
        for name in ("Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-%ff"):
            await ask(session, Ask("GET", MAPS), **{name: "\xe9"})
        for encoding in ("gzip", "br", "deflate", "nonsense", "gzip, gzip"):
            headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
            for data in (body, bomb):
                async with session.post(MAPS, data=data, headers=headers) as answer:
                    await answer.read()
                    assert 400 <= answer.status < 500 or data is body, encoding  # nobody looks at the header


# --- too much, too slow


async def refused_while_sending(server: Server, head: str, chunk: bytes, count: int) -> int:
    """-> how many chunks were taken from us before the answer was there, which is 413"""
    context = ssl._create_unverified_context()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    token = server.headers["Authorization"]
    writer.write(f"{head} HTTP/1.1\r\nHost: a\r\nAuthorization: {token}\r\n".encode())
    writer.write(b"Transfer-Encoding: chunked\r\n\r\n" if count else b"Content-Length: 100000000\r\n\r\n")
    answer = asyncio.create_task(reader.readline())
    sent = 0
    try:
        async with asyncio.timeout(20):
            while not answer.done() and sent < count:
                writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                await writer.drain()
                sent += 1
            assert b" 413 " in await answer
    finally:
        await left(writer)
    return sent


async def test_a_body_that_is_too_large_is_refused_before_it_is_there(server: Server) -> None:
    before = server.rss()
    for method, path in (("POST", MAPS), ("PATCH", f"{MAPS}/there"), ("DELETE", f"{MAPS}/there")):
        assert await refused_while_sending(server, f"{method} {path}", b" " * (1 << 20), 100) < 50
    assert await refused_while_sending(server, f"POST {MAPS}", b"", 0) == 0
    assert server.rss() < before + 60


async def test_who_is_slow_or_speaks_no_http_keeps_nobody_waiting(server: Server) -> None:
    context = ssl._create_unverified_context()
    lines = (
        *(
            b"GET / HTTP/1.1\r\nX: ",
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
            b"\0" * 100,
            b"BREW\r\n\r\n",
        ),
        *(b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"/" * 300_000 + b" HTTP/1.1\r\n\r\n", b"G", b"\r\n" * 100, b""),
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    )
    writers = []
    for line in lines * 10:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        writer.write(line)
        writers.append(writer)
    async with client(server) as session, asyncio.timeout(10):
        assert await ask(session, Ask("GET", MAPS)) == 200
    for writer in writers:
        await left(writer)


async def test_a_body_that_does_not_come_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "_AT_FIRST", 0.2)
    async with serving_api() as api:
        port = int(api.url.rpartition(":")[2])
        before = len(asyncio.all_tasks())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{{".encode())
        async with asyncio.timeout(20):
            assert b" 408 " in await reader.readline()
            writer.close()
            while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - nobody tells when a task has gone
                await asyncio.sleep(0.01)


async def test_who_leaves_in_the_middle_leaves_no_task_behind() -> None:
    async with serving_api() as api:
        port = int(api.url.rpartition(":")[2])
        await api.ask("GET", MAPS)
        before = len(asyncio.all_tasks())
        lines = (
            f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: a\r\n\r\n",
            f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n{{",
        )
        for line in lines * 20:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(line.encode())
            await writer.drain()
            await asyncio.sleep(0)
            await left(writer)
        async with asyncio.timeout(20):
            while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - nobody tells when a task has gone
                await asyncio.sleep(0.01)

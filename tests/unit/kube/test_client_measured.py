"""What a client of an API server tells of its requests."""

import pytest
from aiohttp import web

from kit.loopback import Handler, serving
from pykubelet.base.errors import NotFound, Retry
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.pod.moments import ApiAnswered, ApiRequested, Journal, Noted


class Told:
    def __init__(self) -> None:
        self.answers: list[tuple[str, str, str]] = []
        self.requests: list[tuple[str, int, int | None]] = []
        self.waited = 0.0

    def read(self, noted: Noted) -> None:
        match noted.moment:
            case ApiAnswered(method, host, code):
                self.answers.append((method, host, code))
            case ApiRequested(method, _, waited, seconds, sent, received):
                assert seconds > 0
                self.waited += waited
                self.requests.append((method, sent, received))


def client(url: str, told: Told, **options: float) -> ApiClient:
    credentials = Credentials(ClientConfig(Cluster(server=url), User()), environ={})
    journal = Journal()
    journal.read_by(told.read)
    return ApiClient(credentials, journal=journal, **options)  # type: ignore[arg-type]


def answering(status: int, body: bytes = b"") -> Handler:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=body)

    return answer


async def test_each_request_is_told_with_its_answer_and_its_size() -> None:
    told = Told()
    async with serving(answering(200, b"12345")) as port, client(f"http://127.0.0.1:{port}", told) as server:
        await server.request("POST", "/api", body=b"123")
        async with server.stream("/api"):
            pass
    assert told.answers == [(method, f"127.0.0.1:{port}", "200") for method in ("POST", "GET")]
    assert told.requests == [("POST", 3, 5)]  # a stream has no end to wait for


async def test_refusals_and_silence_are_told_too() -> None:
    told = Told()
    async with serving(answering(404)) as port, client(f"http://127.0.0.1:{port}", told) as server:
        with pytest.raises(NotFound):
            await server.request("GET", "/api")
    async with client(f"http://127.0.0.1:{port}", told) as server:
        with pytest.raises(Retry):
            await server.request("GET", "/api")
    assert [code for _, _, code in told.answers] == ["404", "<error>"]
    assert told.requests == [("GET", 0, None)] * 2


async def test_the_wait_for_the_rate_limit_is_told_apart() -> None:
    told = Told()
    async with (
        serving(answering(200)) as port,
        client(f"http://127.0.0.1:{port}", told, qps=20, burst=1) as server,
    ):
        for _ in range(3):
            await server.request("GET", "/api")
    assert told.waited > 0.05
    assert {host for _, host, _ in told.answers} == {f"127.0.0.1:{port}"}

import asyncio
import base64
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from kit.virtual_time import virtual_time
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.pod.ports.server import Access, Decision, Identity
from pykubelet.server.auth.kubelet_auth import ANONYMOUS, KubeletAuth, Undecided, protocol_token
from pykubelet.server.settings import AuthSettings

ANN = Identity(name="ann", uid="7", groups=("readers",), extra={"team": ("a", "b")})


class FakeReviews:
    """An API server's word, and how often it was asked for."""

    def __init__(self) -> None:
        self.tokens: dict[str, Identity] = {"good": ANN}
        self.allowed: set[str] = set()
        self.asked: list[object] = []
        self.error: PykubeletError | None = None
        self.takes = 0.0

    async def who(self, token: str) -> Identity | None:
        await self._ask(token)
        return self.tokens.get(token)

    async def may(self, identity: Identity, access: Access) -> Decision:
        await self._ask((identity.name, access.verb, access.subresource))
        return Decision(allowed=access.subresource in self.allowed, reason="because")

    async def _ask(self, what: object) -> None:
        self.asked.append(what)
        await asyncio.sleep(self.takes)
        if self.error is not None:
            raise self.error


def request(headers: Mapping[str, str] | None = None, **arguments: Any) -> web.Request:
    return make_mocked_request("GET", "/pods", CIMultiDict(headers or {}), **arguments)


def bearer(token: str) -> web.Request:
    return request({"Authorization": f"Bearer {token}"})


# --- who


@virtual_time
async def test_a_bearer_token_is_whose_the_api_server_says() -> None:
    auth = KubeletAuth(AuthSettings(), FakeReviews(), "n1")

    identity = await auth.identify(bearer("good"))

    assert identity == Identity(
        name="ann", uid="7", groups=("readers", "system:authenticated"), extra={"team": ("a", "b")}
    )


@virtual_time
async def test_a_group_of_all_who_are_known_is_not_added_twice() -> None:
    reviews = FakeReviews()
    reviews.tokens["good"] = Identity(name="ann", groups=("system:authenticated", "x"))

    identity = await KubeletAuth(AuthSettings(), reviews, "n1").identify(bearer("good"))

    assert identity is not None
    assert identity.groups == ("system:authenticated", "x")


@pytest.mark.parametrize("header", ["", "Basic Z29vZA==", "Bearer", "Bearer ", "good", "Bearer  good"])
def test_what_is_no_bearer_token_is_not_looked_at(header: str) -> None:
    @virtual_time
    async def check() -> None:
        reviews = FakeReviews()
        headers = {"Authorization": header}
        assert await KubeletAuth(AuthSettings(), reviews, "n1").identify(request(headers)) is None
        assert await KubeletAuth(AuthSettings(anonymous=True), reviews, "n1").identify(request(headers)) == ANONYMOUS
        assert reviews.asked == []

    check()


@virtual_time
async def test_nobody_in_particular_is_let_in_only_where_that_is_allowed() -> None:
    assert await KubeletAuth(AuthSettings(), FakeReviews(), "n1").identify(request()) is None
    identity = await KubeletAuth(AuthSettings(anonymous=True), FakeReviews(), "n1").identify(request())
    assert identity == Identity(name="system:anonymous", groups=("system:unauthenticated",))


@virtual_time
async def test_a_bad_token_is_refused_even_where_nobody_in_particular_is_let_in() -> None:
    assert await KubeletAuth(AuthSettings(anonymous=True), FakeReviews(), "n1").identify(bearer("bad")) is None


@virtual_time
async def test_a_token_that_cannot_be_judged_is_refused_and_asked_about_again() -> None:
    reviews = FakeReviews()
    auth = KubeletAuth(AuthSettings(anonymous=True), reviews, "n1")
    reviews.error = Retry("the API server is away")
    assert await auth.identify(bearer("good")) is None
    reviews.error = None
    assert await auth.identify(bearer("good")) is not None


@virtual_time
async def test_without_an_api_server_a_token_is_refused() -> None:
    assert await KubeletAuth(AuthSettings(anonymous=True), None, "n1").identify(bearer("good")) is None


@virtual_time
async def test_tokens_are_ignored_where_they_are_switched_off() -> None:
    reviews = FakeReviews()
    settings = AuthSettings(token_webhook=False, anonymous=True)
    assert await KubeletAuth(settings, reviews, "n1").identify(bearer("good")) == ANONYMOUS
    assert reviews.asked == []


@virtual_time
async def test_whose_a_token_is_holds_for_two_minutes_and_nobodys_for_ten_seconds() -> None:
    reviews = FakeReviews()
    auth = KubeletAuth(AuthSettings(), reviews, "n1")
    for _ in range(3):
        assert await auth.identify(bearer("good")) is not None
        assert await auth.identify(bearer("bad")) is None
    assert reviews.asked == ["good", "bad"]

    await asyncio.sleep(11)
    reviews.tokens["bad"] = ANN
    assert await auth.identify(bearer("bad")) is not None
    assert await auth.identify(bearer("good")) is not None
    assert reviews.asked == ["good", "bad", "bad"]

    await asyncio.sleep(110)
    del reviews.tokens["good"]
    assert await auth.identify(bearer("good")) is None
    assert reviews.asked == ["good", "bad", "bad", "good"]


@virtual_time
async def test_those_who_ask_the_same_at_once_share_one_review() -> None:
    reviews = FakeReviews()
    reviews.takes = 1.0
    auth = KubeletAuth(AuthSettings(), reviews, "n1")
    found = await asyncio.gather(*(auth.identify(bearer("good")) for _ in range(20)))
    assert all(found)
    assert reviews.asked == ["good"]


@virtual_time
async def test_a_shared_review_survives_the_first_who_asked_for_it() -> None:
    reviews = FakeReviews()
    reviews.takes = 1.0
    auth = KubeletAuth(AuthSettings(), reviews, "n1")
    first = asyncio.create_task(auth.identify(bearer("good")))
    second = asyncio.create_task(auth.identify(bearer("good")))
    await asyncio.sleep(0.5)
    first.cancel()
    assert await second is not None
    assert reviews.asked == ["good"]


@virtual_time
async def test_a_review_that_nobody_waits_for_any_more_is_given_up() -> None:
    reviews = FakeReviews()
    reviews.takes = 1000.0
    auth = KubeletAuth(AuthSettings(), reviews, "n1")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await auth.identify(bearer("good"))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtual_time
async def test_no_token_is_remembered_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    reviews = FakeReviews()
    auth = KubeletAuth(AuthSettings(), reviews, "n1")
    reviews.tokens["s3cret-good"] = ANN
    await auth.identify(bearer("s3cret-good"))
    await auth.identify(bearer("s3cret-bad"))
    assert "s3cret" not in caplog.text
    assert b"s3cret" not in b"".join(auth._tokens._known)


# --- tokens of WebSockets


def encoded(token: str) -> str:
    text = base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()
    return f"base64url.bearer.authorization.k8s.io.{text}"


@virtual_time
async def test_a_web_socket_may_say_its_token_as_a_protocol() -> None:
    reviews = FakeReviews()
    token = "good?>~ü"
    reviews.tokens[token] = ANN
    auth = KubeletAuth(AuthSettings(), reviews, "n1")
    headers = {"Upgrade": "websocket", "Sec-WebSocket-Protocol": f"v5.channel.k8s.io, {encoded(token)}"}
    assert await auth.identify(request(headers)) is not None
    del headers["Upgrade"]
    assert await auth.identify(request(headers)) is None


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ([f"{encoded('a')}, {encoded('b')}, x"], "one bearer token"),
        ([encoded("a")], "another protocol"),
        (["x, base64url.bearer.authorization.k8s.io.a+=="], "not base64url"),
        (["x", "base64url.bearer.authorization.k8s.io._w"], "not base64url"),
    ],
)
def test_a_token_protocol_that_is_not_right_is_refused(headers: list[str], problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        protocol_token(headers)


def test_other_protocols_are_no_tokens() -> None:
    assert protocol_token(["v5.channel.k8s.io, v4.channel.k8s.io"]) == ""
    assert protocol_token([]) == ""


# --- whether


@virtual_time
async def test_any_of_the_rights_will_do() -> None:
    reviews = FakeReviews()
    reviews.allowed = {"proxy"}
    auth = KubeletAuth(AuthSettings(), reviews, "n1")
    assert (await auth.check(ANN, "GET", "/pods")).allowed
    assert reviews.asked == [("ann", "get", "pods"), ("ann", "get", "proxy")]
    reviews.asked.clear()
    reviews.allowed = {"healthz"}
    assert (await auth.check(ANN, "GET", "/healthz")).allowed
    assert reviews.asked == [("ann", "get", "healthz")]


@virtual_time
async def test_who_may_not_is_told_what_was_asked_for() -> None:
    decision = await KubeletAuth(AuthSettings(), FakeReviews(), "n1").check(ANN, "GET", "/pods")
    assert decision == Decision(
        allowed=False, reason="Forbidden (user=ann, verb=get, resource=nodes, subresource(s)=[pods proxy])"
    )


@virtual_time
async def test_when_nobody_can_tell_it_is_an_error_and_is_not_remembered() -> None:
    reviews = FakeReviews()
    reviews.error, reviews.allowed = Retry("away"), {"stats"}
    auth = KubeletAuth(AuthSettings(), reviews, "n1")
    with pytest.raises(Undecided) as caught:
        await auth.check(ANN, "GET", "/stats/summary")
    assert str(caught.value) == "Authorization error (user=ann, verb=get, resource=nodes, subresource=stats)"
    reviews.error = None
    assert (await auth.check(ANN, "GET", "/stats/summary")).allowed


@virtual_time
async def test_a_yes_holds_for_five_minutes_and_a_no_for_half_of_one() -> None:
    reviews = FakeReviews()
    reviews.allowed = {"stats"}
    auth = KubeletAuth(AuthSettings(), reviews, "n1")
    for _ in range(3):
        assert (await auth.check(ANN, "GET", "/stats")).allowed
        assert not (await auth.check(ANN, "GET", "/logs")).allowed
    assert len(reviews.asked) == 2

    await asyncio.sleep(31)
    reviews.allowed = {"log"}
    assert (await auth.check(ANN, "GET", "/logs")).allowed
    assert (await auth.check(ANN, "GET", "/stats")).allowed
    await asyncio.sleep(270)
    assert not (await auth.check(ANN, "GET", "/stats")).allowed


@virtual_time
async def test_rights_are_not_mixed_up_between_people_verbs_or_groups() -> None:
    reviews = FakeReviews()
    reviews.allowed = {"stats"}
    auth = KubeletAuth(AuthSettings(), reviews, "n1")
    others = [Identity(name="bob"), Identity(name="ann"), Identity(name="ann", groups=("a", "b")), ANN]
    for identity in others:
        await auth.check(identity, "GET", "/stats")
    await auth.check(ANN, "POST", "/stats")
    assert len(reviews.asked) == 5


@virtual_time
async def test_always_allow_asks_nobody() -> None:
    reviews = FakeReviews()
    auth = KubeletAuth(AuthSettings(authorization="AlwaysAllow"), reviews, "n1")
    assert (await auth.check(ANN, "POST", "/exec/a/b/c")).allowed
    assert reviews.asked == []


@virtual_time
async def test_without_an_api_server_nobody_may_and_the_reason_says_so() -> None:
    decision = await KubeletAuth(AuthSettings(), None, "n1").check(ANN, "GET", "/pods")
    assert not decision.allowed
    assert "has no API server" in decision.reason


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Invalid, match="Webhook or AlwaysAllow"):
        KubeletAuth(AuthSettings(authorization="RBAC"), None, "n1")

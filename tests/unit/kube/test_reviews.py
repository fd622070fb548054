import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kit.loopback import serving
from kit.virtual_time import virtual_time
from pykubelet.base.errors import PykubeletError, Retry
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.kube.reviews import KubeReviews
from pykubelet.pod.ports.server import Access, Decision, Identity

ANN = Identity(name="ann", uid="7", groups=("g",), extra={"k": ("v", "w")})


class Judge:
    """Answers each review with the next status, or the last one again; a number is an error."""

    def __init__(self, *answers: dict[str, Any] | int) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        question = json.loads(await request.text())
        self.asked.append((f"{request.method} {request.path}", question))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, int):
            return web.json_response({"kind": "Status", "message": "not now", "code": answer}, status=answer)
        return web.json_response({**question, "status": answer}, status=201)


@asynccontextmanager
async def reviews(judge: Judge) -> AsyncIterator[KubeReviews]:
    async with serving(judge.handle) as port:
        config = ClientConfig(Cluster(server=f"http://127.0.0.1:{port}"), User())
        async with ApiClient(Credentials(config, environ={})) as server:
            yield KubeReviews(server)


@virtual_time
async def test_a_token_is_sent_and_its_owner_comes_back() -> None:
    user = {"username": "ann", "uid": "7", "groups": ["g"], "extra": {"k": ["v", "w"]}}
    judge = Judge({"authenticated": True, "user": user})
    async with reviews(judge) as port:
        assert await port.who("secret") == ANN
    (where, question) = judge.asked[0]
    assert where == "POST /apis/authentication.k8s.io/v1/tokenreviews"
    assert question == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "secret"},
    }


@pytest.mark.parametrize("status", [{}, {"authenticated": False, "error": "invalid bearer token"}])
def test_a_token_may_be_nobodys(status: dict[str, Any]) -> None:
    @virtual_time
    async def check() -> None:
        async with reviews(Judge(status)) as port:
            assert await port.who("secret") is None

    check()


@virtual_time
async def test_an_owner_without_a_name_is_no_answer() -> None:
    async with reviews(Judge({"authenticated": True})) as port:
        with pytest.raises(Retry, match="not whose it is"):
            await port.who("secret")


@virtual_time
async def test_a_right_is_asked_for_as_one_of_this_node() -> None:
    judge = Judge({"allowed": True, "reason": "RBAC says so"})
    async with reviews(judge) as port:
        decision = await port.may(ANN, Access(verb="get", subresource="stats", node="n1"))
    assert decision == Decision(allowed=True, reason="RBAC says so")
    (where, question) = judge.asked[0]
    assert where == "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert question["spec"] == {
        "user": "ann",
        "uid": "7",
        "groups": ["g"],
        "extra": {"k": ["v", "w"]},
        "resourceAttributes": {
            "verb": "get",
            "version": "v1",
            "resource": "nodes",
            "subresource": "stats",
            "name": "n1",
        },
    }


@virtual_time
async def test_no_opinion_and_a_no_are_both_a_no() -> None:
    access = Access(verb="get", subresource="stats", node="n1")
    async with reviews(Judge({}, {"denied": True, "reason": "never", "evaluationError": "half of it"})) as port:
        assert await port.may(ANN, access) == Decision(allowed=False)
        assert await port.may(ANN, access) == Decision(allowed=False, reason="never; half of it")


@virtual_time
async def test_a_yes_and_a_no_at_once_are_no_answer() -> None:
    async with reviews(Judge({"allowed": True, "denied": True})) as port:
        with pytest.raises(Retry, match="allowed and denied at once"):
            await port.may(ANN, Access(verb="get", subresource="stats", node="n1"))


@virtual_time
async def test_a_server_with_too_much_to_do_is_asked_a_few_times() -> None:
    judge = Judge(503, 429, {"allowed": True})
    async with reviews(judge) as port:
        assert (await port.may(ANN, Access(verb="get", subresource="stats", node="n1"))).allowed
        assert len(judge.asked) == 3
    judge = Judge(500)
    async with reviews(judge) as port:
        with pytest.raises(Retry):
            await port.who("secret")
        assert len(judge.asked) == 5
        assert asyncio.get_running_loop().time() < 30


@virtual_time
async def test_a_refusal_is_not_repeated_and_holds_no_token() -> None:
    judge = Judge(403)
    async with reviews(judge) as port:
        with pytest.raises(PykubeletError) as caught:
            await port.who("s3cret")
    assert len(judge.asked) == 1
    assert "s3cret" not in str(caught.value)

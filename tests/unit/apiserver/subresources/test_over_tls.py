"""The whole way over TLS, as clients of ours go it."""

import base64
import json
import socket
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec

from kit.tls_world import PODS, World, now, served
from kit.waiting import eventually
from pykubelet.apiserver.security import jwt
from pykubelet.apiserver.security.pki import Pki
from pykubelet.apiserver.subresources.kubelet_proxy import proxied


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World, None]:
    async with World(tmp_path).running() as running:
        yield running


# --- who is who


async def test_a_certificate_or_a_token_opens_and_without_either_only_health_is_shown(world: World) -> None:
    assert (await world.ask("GET", PODS))[0] == 200
    assert (await world.ask("GET", PODS, token="admin-token"))[0] == 200
    code, status = await world.ask("GET", PODS, user="")
    assert (code, status["reason"], status["message"]) == (
        403,
        "Forbidden",
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace '
        '"default"',
    )
    assert (await world.ask("GET", PODS, token="guess"))[0] == 401
    for path in ("/livez", "/readyz", "/healthz", "/version"):
        assert (await world.ask("GET", path, user=""))[0] == 200
    assert (await world.ask("GET", "/api", user=""))[0] == 403


async def test_a_certificate_of_another_authority_does_not_come_in(world: World, tmp_path: Path) -> None:
    other = Pki.open(tmp_path / "other", now)
    context = ssl.create_default_context(cafile=str(world.pki.authority_file))
    context.load_cert_chain(*other.admin())
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
            await session.get(f"https://127.0.0.1:{world.port}/version")


async def test_a_certificate_holds_only_as_long_as_its_authority_even_on_an_open_connection(
    world: World, tmp_path: Path
) -> None:
    connector = aiohttp.TCPConnector(ssl=world.client())
    async with aiohttp.ClientSession(connector=connector) as session:

        async def status() -> int:
            async with session.get(f"https://127.0.0.1:{world.port}{PODS}") as answer:
                return answer.status

        assert await status() == 200
        world.pki.authority_file.write_bytes(Pki.open(tmp_path / "other", now).authority.pem)
        await world.tls.refresh()
        assert await status() == 401


async def test_a_node_sees_its_own_and_is_told_why_it_does_not_see_more(world: World) -> None:
    assert (await world.ask("GET", f"{PODS}/x", user="n1"))[0] == 200
    code, status = await world.ask("GET", f"{PODS}/waiting", user="n1")
    assert code == 403
    assert status["message"] == (
        'pods "waiting" is forbidden: User "system:node:n1" cannot get resource "pods" in API group "" in the '
        "namespace \"default\": no relationship found between node 'n1' and this object"
    )


async def test_a_node_patches_the_status_of_its_own_pods_alone(world: World) -> None:
    for name, expected in (("x", 200), ("waiting", 403)):
        connector = aiohttp.TCPConnector(ssl=world.client("n1"))
        async with aiohttp.ClientSession(connector=connector) as session:
            answer = await session.patch(
                f"https://127.0.0.1:{world.port}{PODS}/{name}/status",
                data='{"status":{"message":"hello"}}',
                headers={"Content-Type": "application/merge-patch+json"},
            )
            assert answer.status == expected, await answer.text()


async def test_a_node_acts_as_nobody_else(world: World) -> None:
    connector = aiohttp.TCPConnector(ssl=world.client("n1"))
    async with aiohttp.ClientSession(connector=connector) as session:
        url = f"https://127.0.0.1:{world.port}{PODS}/x"
        answer = await session.get(url, headers={"Impersonate-User": "root", "Impersonate-Group": "system:masters"})
        assert answer.status == 403
        assert "cannot impersonate" in (await answer.json())["message"]
        assert (await session.get(url, headers={"Impersonate-Group": "system:masters"})).status == 400


# --- tokens and reviews


async def test_a_node_gets_a_token_for_its_pod_and_the_token_is_believed_until_the_pod_is_gone(world: World) -> None:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "uid-of-x"}
    body = {"spec": {"boundObjectRef": reference, "expirationSeconds": 3607}}
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    code, made = await world.ask("POST", path, user="n1", body=body)
    assert code == 201, made
    token = made["status"]["token"]

    review = {"spec": {"token": token}}
    tokenreviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    _, found = await world.ask("POST", tokenreviews, user="n1", body=review)
    assert found["status"]["authenticated"], found
    assert found["status"]["user"]["username"] == "system:serviceaccount:default:default"
    assert (await world.ask("GET", "/api/v1", token=token))[0] == 200
    assert (await world.ask("GET", PODS, token=token))[0] == 403

    assert (await world.ask("DELETE", f"{PODS}/x?gracePeriodSeconds=0"))[0] == 200
    _, found = await world.ask("POST", tokenreviews, user="n1", body=review)
    assert not found["status"].get("authenticated")
    assert (await world.ask("GET", "/api/v1", token=token))[0] == 401


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"expirationSeconds": 60}, 422),
        ({"expirationSeconds": "long"}, 400),
        ({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "none"}}, 404),
        ({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "former"}}, 409),
        ({"boundObjectRef": {"apiVersion": "v1", "kind": "Service", "name": "x"}}, 400),
    ],
)
async def test_a_token_request_that_makes_no_sense_is_refused(world: World, spec: dict[str, Any], code: int) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    assert (await world.ask("POST", path, body={"spec": spec}))[0] == code


async def test_reviews_say_who_somebody_is_and_what_he_may(world: World) -> None:
    _, found = await world.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", user="n1", body={})
    assert found["status"]["userInfo"]["username"] == "system:node:n1"

    def access(name: str, **who: Any) -> dict[str, Any]:
        attributes = {"namespace": "default", "verb": "get", "resource": "pods", "name": name}
        return {"spec": {"resourceAttributes": attributes, **who}}

    own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await world.ask("POST", own, user="n1", body=access("x")))[1]["status"] == {"allowed": True}
    assert (await world.ask("POST", own, user="n1", body=access("waiting")))[1]["status"]["allowed"] is False
    anybody = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    node = {"user": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]}
    assert (await world.ask("POST", anybody, body=access("x", **node)))[1]["status"] == {"allowed": True}
    assert (await world.ask("POST", anybody, body={"spec": {"user": "x"}}))[0] == 400


# --- kubelets


async def test_logs_come_from_the_kubelet_which_never_sees_the_clients_token(world: World) -> None:
    path = f"{PODS}/x/log?container=main&tailLines=5&limitBytes=7"
    assert await world.ask("GET", path, token="admin-token") == (200, "first\nlast\n")
    method, url, headers = world.asked[-1]
    assert (method, url) == ("GET", "/containerLogs/default/x/main?tailLines=5&limitBytes=7")
    assert "Authorization" not in headers


async def test_a_log_that_is_followed_ends_at_the_kubelet_when_the_client_goes(world: World) -> None:
    async with world.asking("GET", f"{PODS}/x/log?follow=true") as answer:
        assert await answer.content.readline() == b"first\n"
    await eventually(lambda: world.ended)


async def test_why_a_kubelet_shows_no_log_is_told_as_a_status(world: World) -> None:
    world.refusal = (400, 'container "main" in pod "x" is waiting to start: PodInitializing\n')
    code, status = await world.ask("GET", f"{PODS}/x/log")
    assert (code, status["kind"], status["reason"]) == (400, "Status", "BadRequest")
    assert status["message"] == 'container "main" in pod "x" is waiting to start: PodInitializing'
    world.refusal = (404, "")
    code, status = await world.ask("GET", f"{PODS}/x/log")
    assert (code, status["reason"], status["message"]) == (
        404,
        "NotFound",
        "the kubelet of node n1 does not have this",
    )
    world.refusal = (503, "not now")
    code, status = await world.ask("GET", f"{PODS}/x/log")
    assert (code, status["reason"]) == (500, "InternalError")
    assert "answers with 503: not now" in status["message"]


@pytest.mark.parametrize("what", ["exec?command=date&stdout=1", "attach?stdout=1", "portforward"])
async def test_why_a_kubelet_opens_no_stream_is_told_as_a_status(world: World, what: str) -> None:
    world.streams = False
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version": "13",
    }
    async with world.asking("GET", f"{PODS}/x/{what}", headers=upgrade) as answer:
        status = await answer.json()
    assert (answer.status, status["kind"], status["reason"]) == (500, "Status", "InternalError")
    assert status["message"] == "Internal error occurred: unable to upgrade connection: unknown protocol"


async def test_what_cannot_be_passed_on_is_refused_in_upstreams_words(world: World) -> None:
    assert await world.ask("GET", f"{PODS}/waiting/log") == (200, "")
    code, status = await world.ask("GET", f"{PODS}/x/log?container=other")
    assert (code, status["message"]) == (400, "container other is not valid for pod x")
    assert (await world.ask("GET", f"{PODS}/none/log"))[0] == 404
    code, status = await world.ask("POST", f"{PODS}/x/exec?command=date&stdout=1")
    assert (code, status["message"]) == (400, "Upgrade request required")


async def _gotcha(_: web.Request) -> web.StreamResponse:
    return web.Response(text="gotcha")


async def test_a_kubelet_whose_certificate_is_not_ours_gets_no_requests(world: World, tmp_path: Path) -> None:
    other = Pki.open(tmp_path / "other", now)
    pair = other.authority.server("n2", ["n2"], now())
    path = tmp_path / "other.pem"
    path.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _gotcha)
    async with served(app, context) as port:
        await world.add_node("n2", port)
        code, status = await world.ask("GET", "/api/v1/nodes/n2/proxy/healthz")
    assert code == 500
    assert "certificate verify failed" in status["message"]


async def test_what_nodes_use_is_asked_of_their_kubelets(world: World) -> None:
    code, found = await world.ask("GET", "/apis/metrics.k8s.io/v1beta1/nodes/n1")
    assert (code, found["usage"]) == (200, {"cpu": "100000000n", "memory": "1Ki"})
    assert {target for _, target, _ in world.asked} == {"/metrics/resource"}
    assert (await world.ask("GET", "/apis/metrics.k8s.io/v1beta1/nodes", user=""))[0] == 403


async def test_the_proxy_to_a_node_passes_path_query_and_body_on(world: World) -> None:
    code, text = await world.ask("POST", "/api/v1/nodes/n1/proxy/some/proxy/a%2Fb?x=1&y=%20", body={"a": 1})
    assert (code, text) == (200, 'POST /some/proxy/a%2Fb?x=1&y=%20 {"a": 1}'), text
    code, text = await world.ask("POST", "/api//v1/nodes//n1/proxy/a//nodes/b/proxy/", body={})
    assert (code, text) == (200, "POST /a//nodes/b/proxy/ {}"), text


async def test_a_kubelet_that_is_not_there_is_named(world: World) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        await world.add_node("n3", port)
        code, status = await world.ask("GET", "/api/v1/nodes/n3/proxy/healthz")

    assert code == 500
    assert f"the kubelet of node n3 at 127.0.0.1:{port} cannot be reached: " in status["message"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web", ("http", "web", "")),
        ("web:80", ("http", "web", "80")),
        ("https:web:http", ("https", "web", "http")),
        (":web:80", ("http", "web", "80")),
    ],
)
def test_the_name_of_a_proxied_pod_may_say_scheme_and_port(text: str, expected: tuple[str, str, str]) -> None:
    assert proxied(text) == expected


async def test_others_can_verify_the_tokens_of_service_accounts_without_asking(world: World) -> None:
    code, found = await world.ask("GET", "/.well-known/openid-configuration")
    assert code == 200
    assert found["jwks_uri"].endswith("/openid/v1/jwks")
    _, keys = await world.ask("GET", "/openid/v1/jwks")
    (key,) = keys["keys"]
    x, y = (int.from_bytes(base64.urlsafe_b64decode(key[each] + "=")) for each in "xy")
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    assert public == world.pki.service_account_key().public_key()
    _, made = await world.ask("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", body={"spec": {}})
    token = made["status"]["token"]
    claims = jwt.verified_claims(token, public)
    assert claims["iss"] == found["issuer"]
    assert json.loads(base64.urlsafe_b64decode(token.partition(".")[0] + "=="))["kid"] == key["kid"]
    assert (await world.ask("GET", "/openid/v1/jwks", user=""))[0] in (401, 403)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("tailLines=-1", "tailLines"),
        ("limitBytes=-1", "limitBytes"),
        ("limitBytes=0", "limitBytes"),
        ("sinceSeconds=0", "sinceSeconds"),
        ("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", ""),
    ],
)
async def test_what_cannot_be_asked_of_a_log_is_refused_before_anybody_is_asked(
    world: World, query: str, field: str
) -> None:
    code, refused = await world.ask("GET", f"{PODS}/none/log?{query}")
    assert (code, refused["details"]["kind"]) == (422, "PodLogOptions")
    assert [each.get("field", "") for each in refused["details"]["causes"]] == [field]

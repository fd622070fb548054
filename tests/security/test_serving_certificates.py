"""From a bootstrap token to a certificate with which somebody is taken for the API server: every step is tried, and the
last one fails."""

import ssl
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from kit.rogue_node import MERGE, REQUESTS, RogueNode, rogue_node
from kit.tls_world import World, served
from pykubelet.web.key_pairs import key_pem

OWN: Final = "/api/v1/nodes/n9"
SERVING: Final = "kubelet-serving"
CLIENT: Final = "kube-apiserver-client-kubelet"


def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def names(pem: bytes | None) -> list[str]:
    if pem is None:
        return []
    found = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return [str(each.value) for each in found.value]


COVETED: Final = [
    "kubernetes.default.svc", "kubernetes", "localhost", "127.0.0.1", "::1", "10.96.0.1", "192.0.2.77", "n1",
]  # fmt: skip


async def claimed(rogue: RogueNode, hosts: list[str]) -> None:
    """The node says that it is called all this."""
    told = [{"type": kind, "address": each} for each in hosts for kind in ("InternalIP", "ExternalIP", "InternalDNS")]
    code, _ = await rogue.ask("PATCH", f"{OWN}/status", {"status": {"addresses": told}}, MERGE)
    assert code == 200


@pytest.mark.parametrize("host", COVETED)
async def test_a_node_gets_no_certificate_for_what_others_are_called(rogue: RogueNode, host: str) -> None:
    await claimed(rogue, COVETED)
    assert names(await rogue.answer(await rogue.request(key(), SERVING, [host]))) == []
    assert names(await rogue.answer(await rogue.request(key(), SERVING, ["n9", host]))) == ["n9"]


async def test_nobody_is_taken_for_the_api_server(rogue: RogueNode, tmp_path: Path) -> None:
    """The whole of it: a server with what the node could get, and a client that trusts the cluster's authority."""
    await claimed(rogue, COVETED)
    own = key()
    pem = await rogue.answer(await rogue.request(own, SERVING, ["n9", *COVETED]))
    assert pem is not None
    file = tmp_path / "fake.pem"
    file.write_bytes(pem + key_pem(own))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    asked: list[str] = []

    async def gotcha(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return web.json_response({})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", gotcha)
    async with served(app, context) as port:
        connector = aiohttp.TCPConnector(ssl=rogue.world.client(), force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            for called in (None, *COVETED):
                with pytest.raises(aiohttp.ClientConnectorCertificateError):
                    await session.get(f"https://127.0.0.1:{port}/api", server_hostname=called)
            async with session.get(f"https://127.0.0.1:{port}/api", server_hostname="n9") as answer:
                assert answer.status == 200
    assert asked == ["/api"]


async def test_where_a_request_comes_from_is_not_for_the_client_to_say(rogue: RogueNode) -> None:
    name = await rogue.request(key(), SERVING, ["n9"])
    _, found = await rogue.world.ask("GET", f"{REQUESTS}/{name}")
    assert found["metadata"]["annotations"] == {"pykubelet.dev/source-address": "127.0.0.1"}
    forged = {"metadata": {"annotations": {"pykubelet.dev/source-address": "192.0.2.77"}}}
    assert (await rogue.ask("PATCH", f"{REQUESTS}/{name}", forged, MERGE))[0] == 403


async def test_a_node_asks_for_itself_alone(rogue: RogueNode) -> None:
    for signer, hosts in ((SERVING, ["n1"]), (CLIENT, [])):
        assert await rogue.request(key(), signer, hosts, node="n1") == ""
    assert await rogue.answer(await rogue.request(key(), CLIENT, [], organization="system:masters")) is None
    assert await rogue.answer(await rogue.request(key(), CLIENT, ["n9"])) is None
    assert await rogue.answer(await rogue.request(key(), CLIENT, [])) is not None


@pytest.mark.parametrize("name", ["localhost", "kubernetes", "kubernetes.default.svc"])
async def test_a_node_that_is_called_like_the_server_is_believed_by_nobody(
    world: World, tmp_path: Path, name: str
) -> None:
    async with rogue_node(world, tmp_path, name) as rogue:
        assert await rogue.answer(await rogue.request(key(), SERVING, [name])) is None


async def test_a_bootstrap_token_takes_over_no_node(world: World, tmp_path: Path) -> None:
    rogue = RogueNode(world, tmp_path, "n1")
    assert not await rogue.introduce()
    _, found = await world.ask("GET", f"{REQUESTS}/n1-1")
    condition = found["status"]["conditions"][0]
    assert (condition["type"], "a node n1 is there already" in condition["message"]) == ("Denied", True)
    other = RogueNode(world, tmp_path, "n8")
    assert await other.introduce()
    assert await other.answer(await other.request(key(), SERVING, ["n1"], node="n1", token=other.token)) is None
    assert await other.answer(await other.request(key(), SERVING, ["n8"], token=other.token)) is None


async def test_nobody_asks_to_become_a_master(rogue: RogueNode) -> None:
    asked = await rogue.request(key(), "kube-apiserver-client", [], organization="system:masters")
    assert asked == ""
    assert (
        await rogue.request(key(), "kube-apiserver-client", [], organization="system:masters", token=rogue.token) == ""
    )

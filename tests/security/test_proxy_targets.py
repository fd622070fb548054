"""A node says where it is, and where its pods are. It would have the API server go elsewhere: to itself, to what only
its machine can reach, or to another node."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from aiohttp import web

from kit.rogue_node import MERGE, RogueNode
from kit.tls_world import PODS, World, now, served

OWN: Final = "/api/v1/nodes/n9"


@asynccontextmanager
async def listener() -> AsyncGenerator[tuple[int, list[str]], None]:
    """Something that only this machine should reach. -> its port, and who has come"""
    came: list[str] = []

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(str(writer.get_extra_info("peername")))
        writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], came


async def said_to_be_at(rogue: RogueNode, address: str, port: int, kind: str = "InternalIP") -> None:
    endpoints = {"kubeletEndpoint": {"Port": port}}
    status = {"addresses": [{"type": kind, "address": address}], "daemonEndpoints": endpoints}
    code, _ = await rogue.ask("PATCH", f"{OWN}/status", {"status": status}, MERGE)
    assert code == 200


async def pod_on(rogue: RogueNode, address: str, port: int) -> None:
    ports = [{"containerPort": port}]
    spec = {"nodeName": rogue.name, "containers": [{"name": "c", "image": "i", "ports": ports}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert (await rogue.world.ask("POST", PODS, body=body))[0] == 201
    status = {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running"}
    assert (await rogue.ask("PATCH", f"{PODS}/p/status", {"status": status}, MERGE))[0] == 200


LOCAL: Final = ["127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::1", "0.0.0.0", "169.254.169.254", "fe80::1"]


@pytest.mark.parametrize("address", [*LOCAL, "224.0.0.1", "10.96.0.1"])
async def test_neither_a_node_nor_a_pod_leads_to_what_only_this_machine_reaches(rogue: RogueNode, address: str) -> None:
    async with listener() as (port, came):
        await said_to_be_at(rogue, address, port)
        await pod_on(rogue, address, port)
        for path in (
            f"{OWN}/proxy/secrets",
            f"{PODS}/p/log",
            f"{PODS}/p/log?insecureSkipTLSVerifyBackend=true",
            f"{PODS}/p:{port}/proxy/",
            f"{PODS}/https:p:{port}/proxy/",
        ):
            code, refused = await rogue.world.ask("GET", path)
            assert (code, "address not allowed" in refused["message"]) == (400, True), (path, refused)
        for path in (f"{PODS}/p/exec?command=id", f"{PODS}/p/portforward?ports=1", f"{PODS}/p/attach"):
            assert await upgraded(rogue.world, path) == 400, path
        assert not came


@pytest.mark.parametrize("name", ["localhost", "127.1", "0x7f000001", "2130706433"])
async def test_a_name_does_not_lead_there_either(rogue: RogueNode, name: str) -> None:
    async with listener() as (port, came):
        await said_to_be_at(rogue, name, port, "Hostname")
        code, refused = await rogue.world.ask("GET", f"{OWN}/proxy/secrets")
        assert (code, refused["status"]) in ((400, "Failure"), (500, "Failure"))
        await said_to_be_at(rogue, name, port, "InternalIP")
        assert (await rogue.world.ask("GET", f"{OWN}/proxy/secrets"))[0] in (400, 500)
        assert not came


async def test_the_server_is_not_led_to_itself(rogue: RogueNode) -> None:
    """As an address of its machine, too: in the test it believes to have this one."""
    await said_to_be_at(rogue, "192.0.2.77", rogue.world.port)
    await pod_on(rogue, "192.0.2.77", rogue.world.port)
    for path in (f"{OWN}/proxy/api/v1/secrets", f"{PODS}/https:p:{rogue.world.port}/proxy/api/v1/secrets"):
        code, refused = await rogue.world.ask("GET", path)
        assert (code, "the API server itself" in refused["message"]) == (400, True), refused
    code, refused = await rogue.world.ask("GET", f"{PODS}/p:22/proxy/")
    assert (code, "does not declare" in refused["message"]) == (400, True)


async def test_a_path_does_not_become_a_part_of_the_address(rogue: RogueNode) -> None:
    """What is written in another way is read in the same: the path begins where the right was asked for."""
    await pod_on(rogue, "192.0.2.1", 80)
    async with listener() as (port, came):
        where = f"@127.0.0.1:{port}/secrets"
        for path in (
            f"/api/v1/namespaces/default/%70ods/p:80/proxy/pods/x/proxy{where}",
            f"/api/v1/namespaces/default/%70ods/p:80/%70roxy/pods/x/proxy{where}",
            f"/api/v1/nodes/n1/%70roxy/nodes/x/proxy{where}",
            f"/api/v1/%6eodes/n1/proxy/nodes/x/proxy{where}",
        ):
            with suppress(TimeoutError):  # nobody is at the address of the pod
                async with asyncio.timeout(2):
                    await raw(rogue.world, path)
            assert not came, path


async def raw(world: World, path: str) -> None:
    """A request with a path that nobody puts in order before it is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port, ssl=world.client())
    try:
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        assert b" 404 " not in await reader.readline()
    finally:
        writer.close()


async def test_a_node_is_not_taken_for_another(rogue: RogueNode) -> None:
    """Even at an address that is fine: whoever answers there has to be the node that was meant."""
    rogue.world.kubelets["n9"] = rogue.world.kubelets["n1"]
    await pod_on(rogue, "10.0.0.9", 80)
    before = len(rogue.world.asked)
    for path in (f"{OWN}/proxy/pods", f"{PODS}/p/log", "/apis/metrics.k8s.io/v1beta1/nodes/n9"):
        code, refused = await rogue.world.ask("GET", path)
        assert code in (404, 500), (path, refused)
    assert await upgraded(rogue.world, f"{PODS}/p/exec?command=id&stdout=1") == 500
    assert len(rogue.world.asked) == before
    rogue.world.kubelets["n9"] = rogue.world.kubelets.pop("n1")


async def test_a_kubelet_that_points_elsewhere_is_not_followed(rogue: RogueNode, tmp_path: Path) -> None:
    async with listener() as (port, came):

        async def elsewhere(request: web.Request) -> web.StreamResponse:
            raise web.HTTPTemporaryRedirect(f"http://127.0.0.1:{port}/secrets")

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", elsewhere)
        async with served(app, kubelet_tls(rogue.world, tmp_path)) as kubelet:
            await rogue.world.add_node("n2", kubelet)
            code, _ = await rogue.world.ask("GET", "/apis/metrics.k8s.io/v1beta1/nodes/n2")
            assert code != 200
            connector = aiohttp.TCPConnector(ssl=rogue.world.client(), force_close=True)
            url = f"https://127.0.0.1:{rogue.world.port}/api/v1/nodes/n2/proxy/x"
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(url, allow_redirects=False) as answer,
            ):
                assert answer.status == 307
        assert not came


def kubelet_tls(world: World, folder: Path) -> ssl.SSLContext:
    pair = world.pki.authority.server("n2", ["n2"], now())
    path = folder / "n2.pem"
    path.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


async def upgraded(world: World, path: str) -> int:
    """The answer to a client that asks for WebSocket."""
    connector = aiohttp.TCPConnector(ssl=world.client(), force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            protocols = ("v5.channel.k8s.io", "v4.channel.k8s.io")
            async with session.ws_connect(f"https://127.0.0.1:{world.port}{path}", protocols=protocols):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status


async def test_what_the_server_is_to_kubelets_is_nobody_elsewhere(world: World) -> None:
    """The certificate with which it comes to kubelets, in other hands."""
    context = ssl.create_default_context(cafile=str(world.pki.authority_file))
    context.load_cert_chain(*world.pki.kubelet_client())
    connector = aiohttp.TCPConnector(ssl=context, force_close=True)
    tries: list[tuple[str, str, Any]] = [
        ("GET", "/api/v1/secrets", None),
        ("GET", PODS, None),
        ("POST", PODS, {"metadata": {"name": "p"}}),
        ("PATCH", "/api/v1/nodes/n1/status", {}),
        ("DELETE", "/api/v1/nodes/n1", None),
        ("POST", f"{PODS}/x/exec?command=id", None),
        ("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", {}),
    ]
    async with aiohttp.ClientSession(connector=connector) as session:
        for method, path, body in tries:
            async with session.request(method, f"https://127.0.0.1:{world.port}{path}", json=body) as answer:
                assert answer.status == 403, (method, path)


async def test_a_kubelet_does_not_hear_the_token_that_a_browser_puts_among_the_protocols(world: World) -> None:
    token = "base64url.bearer.authorization.k8s.io." + "c2VjcmV0"
    connector = aiohttp.TCPConnector(ssl=world.client(), force_close=True)
    origin = f"https://127.0.0.1:{world.port}"
    async with aiohttp.ClientSession(connector=connector) as session:
        url = f"{origin}{PODS}/x/exec?command=true&stdout=1"
        async with session.ws_connect(
            url, protocols=("v5.channel.k8s.io", token), headers={"Origin": origin}
        ) as socket:
            assert socket.protocol == "v5.channel.k8s.io"
    _, _, headers = world.asked[-1]
    assert "c2VjcmV0" not in str(headers)
    assert "Origin" not in headers

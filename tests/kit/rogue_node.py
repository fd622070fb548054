"""Somebody who got hold of a bootstrap token, and all that he can make of it by the ways that a node has."""

import base64
import ipaddress
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from kit.certificates import node_request_spec
from kit.tls_world import World, now
from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.controllers.csr import CsrController
from pykubelet.apiserver.security.bootstrap_tokens import new_token, token_secret
from pykubelet.web.key_pairs import key_pem

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MERGE = "application/merge-patch+json"


class RogueNode:
    """A node with a real certificate, got in the usual way, and with other things in mind."""

    def __init__(self, world: World, folder: Path, name: str) -> None:
        self.world = world
        self.name = name
        self.token = new_token()
        self._identity = folder / f"{name}.pem"
        self._asked = 0

    async def introduce(self) -> bool:
        """From a bootstrap token to a client certificate. -> whether it was given"""
        secret = token_secret(self.token, now() + timedelta(hours=1))
        await self.world.ask("POST", "/api/v1/namespaces/kube-system/secrets", body=secret)
        key = ec.generate_private_key(ec.SECP256R1())
        made = await self.request(key, "kube-apiserver-client-kubelet", (), token=self.token)
        certificate = await self.answer(made)
        if certificate is not None:
            self._identity.write_bytes(certificate + key_pem(key))
        return certificate is not None

    async def register(self, **more: Any) -> tuple[int, Any]:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name}, **more}
        return await self.ask("POST", "/api/v1/nodes", node)

    async def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", token: str = ""
    ) -> tuple[int, Any]:
        context = ssl.create_default_context(cafile=str(self.world.pki.authority_file))
        headers = {"Content-Type": kind}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        else:
            context.load_cert_chain(self._identity)
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        url = f"https://127.0.0.1:{self.world.port}{path}"
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, url, headers=headers, json=body) as answer,
        ):
            return answer.status, await answer.json(content_type=None)

    # --- certificates

    async def request(
        self,
        key: ec.EllipticCurvePrivateKey,
        signer: str,
        hosts: Sequence[str],
        *,
        node: str = "",
        organization: str = "system:nodes",
        token: str = "",
    ) -> str:
        """Ask for a certificate. -> the name of the request; empty when it was not even taken"""
        self._asked += 1
        name = f"{self.name}-{self._asked}"
        spec = node_request_spec(key, signer, node or self.name, organization, [*map(_host, hosts)])
        body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "spec": spec}
        code, _ = await self.ask("POST", REQUESTS, {**body, "metadata": {"name": name}}, token=token)
        return name if code == 201 else ""

    async def answer(self, name: str) -> bytes | None:
        """The certificate that was given; None when the controller has looked, and gave none."""
        if not name:
            return None
        client = ControllerClient(self.world.server.backend)
        await CsrController(client, self.world.pki.authority, self.world.addresses).sync()
        _, found = await self.world.ask("GET", f"{REQUESTS}/{name}")
        pem = found.get("status", {}).get("certificate")
        return base64.b64decode(pem) if pem else None


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


@asynccontextmanager
async def rogue_node(world: World, folder: Path, name: str = "n9") -> AsyncGenerator[RogueNode, None]:
    """One that has been let in as a node, and is registered."""
    rogue = RogueNode(world, folder, name)
    assert await rogue.introduce()
    code, _ = await rogue.register()
    assert code == 201
    yield rogue

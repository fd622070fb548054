"""The agent's HTTP API behind TLS files that change: real TLS, real requests, the real authentication."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from cryptography import x509

from kit.certificates import Authority, Issued
from pykubelet.pod.ports.server import Access, Decision, Identity
from pykubelet.server.application import Route, application
from pykubelet.server.auth.kubelet_auth import KubeletAuth
from pykubelet.server.serving_certificate import kubelet_tls
from pykubelet.server.settings import AuthSettings, TlsSettings
from pykubelet.web.serving import serving
from pykubelet.web.tls import ServingTls


class OnlyAdmin:
    async def who(self, token: str) -> Identity | None:
        return {"admin-token": Identity(name="admin"), "other-token": Identity(name="other")}.get(token)

    async def may(self, identity: Identity, access: Access) -> Decision:
        return Decision(allowed=identity.name == "admin")


class Files:
    """A folder with a serving certificate and the authority of clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers = Authority("servers")
        self.clients = Authority("clients")
        self.settings = TlsSettings(
            cert_dir=folder,
            node_name="n1",
            cert_file=str(folder / "tls.crt"),
            key_file=str(folder / "tls.key"),
            client_ca_file=str(folder / "ca.crt"),
        )
        self.write(self.servers.issue("first", hosts=["127.0.0.1"]))
        self.trust(self.clients)

    def write(self, issued: Issued) -> None:
        (self.folder / "tls.crt").write_bytes(issued.certificate)
        (self.folder / "tls.key").write_bytes(issued.key)

    def trust(self, *authorities: Authority) -> None:
        (self.folder / "ca.crt").write_bytes(b"".join(each.pem for each in authorities))


@dataclass
class Api:
    tls: ServingTls
    url: str
    now: datetime | None = None

    def clock(self) -> datetime:
        return self.now or datetime.now(UTC)


@asynccontextmanager
async def served(settings: TlsSettings, **auth: Any) -> AsyncIterator[Api]:
    async def pods(request: web.Request) -> web.Response:
        tls: ssl.SSLObject = request.get_extra_info("ssl_object")
        return web.Response(text=tls.version())

    tls = kubelet_tls(settings, look_again=0.01)
    api = Api(tls, "")
    guard = KubeletAuth(AuthSettings(**auth), OnlyAdmin(), "n1", certificate=tls.client_certificate, now=api.clock)
    app = application([Route("GET", "/pods", pods)], guard)
    async with serving(app, "127.0.0.1", 0, tls=tls.context()) as port:
        api.url = f"https://127.0.0.1:{port}/pods"
        yield api


def client_context(
    trusted: bytes, own: Issued | None = None, *, version: ssl.TLSVersion | None = None
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=trusted.decode())
    if version is not None:
        context.maximum_version = version
    if own is not None:
        descriptor = os.memfd_create("client")
        os.write(descriptor, own.certificate + own.key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        os.close(descriptor)
    return context


async def asked(
    api: Api, files: Files, own: Issued | None = None, token: str = "", version: ssl.TLSVersion | None = None
) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        context = client_context(files.servers.pem, own, version=version)
        async with session.get(api.url, ssl=context, headers=headers) as response:
            return response.status, await response.text()


async def peer_name(api: Api, files: Files) -> str:
    """Of a new connection."""
    port = int(api.url.split(":")[2].split("/")[0])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context(files.servers.pem))
    try:
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()
        await writer.wait_closed()
    return x509.load_der_x509_certificate(der).subject.rfc4514_string()

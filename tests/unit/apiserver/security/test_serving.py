import asyncio
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from pykubelet.apiserver.security.pki import Pki
from pykubelet.apiserver.security.serving import apiserver_tls, kubelet_context, serving_hosts

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_the_server_answers_to_this_machine_and_to_the_service() -> None:
    hosts = serving_hosts(["extra.example"])

    wanted = {"localhost", "127.0.0.1", "::1", "kubernetes.default.svc.cluster.local", "extra.example"}
    assert wanted <= set(hosts)


def test_contexts_can_be_made_of_the_files(tmp_path: Path) -> None:
    pki = Pki.open(tmp_path, lambda: datetime.now(UTC))

    assert apiserver_tls(pki, lambda: ["localhost"]).context().verify_mode == ssl.CERT_OPTIONAL
    assert kubelet_context(pki).verify_mode == ssl.CERT_REQUIRED
    assert kubelet_context(pki, insecure=True).verify_mode == ssl.CERT_NONE


def _shown(port: int, authority: Path) -> x509.Certificate:
    context = ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        der = tls.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der)


async def test_a_server_that_runs_shows_a_new_certificate_when_it_gets_a_new_name(tmp_path: Path) -> None:
    pki = Pki.open(tmp_path, lambda: datetime.now(UTC))
    hosts = ["localhost"]
    serving = apiserver_tls(pki, lambda: hosts, look_again=0.02)
    renewing = asyncio.create_task(serving.run())
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=serving.context())
    try:
        port = server.sockets[0].getsockname()[1]
        before = await asyncio.to_thread(_shown, port, pki.authority_file)
        hosts.append("10.0.0.1")
        async with asyncio.timeout(30):
            while await asyncio.to_thread(_shown, port, pki.authority_file) == before:  # noqa: ASYNC110 - a real server
                await asyncio.sleep(0.02)
    finally:
        renewing.cancel()
        server.close()
        await asyncio.gather(renewing, return_exceptions=True)

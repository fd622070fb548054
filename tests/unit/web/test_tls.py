"""TLS of a server whose files change, as its clients see it."""

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kit.certificates import Authority, Issued
from kit.tls_files import Api, Files, asked, client_context, peer_name, served
from pykubelet.base.errors import Invalid
from pykubelet.base.tasks import every
from pykubelet.server.serving_certificate import kubelet_tls
from pykubelet.server.settings import TlsSettings

DAY = timedelta(days=1)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


# --- who gets in


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_certificates_of_another_authority_expired_ones_and_those_of_servers_do_not_get_in(
    files: Files, version: ssl.TLSVersion
) -> None:
    bad = [
        Authority("clients").issue("admin"),
        files.clients.issue("admin", expires=datetime.now(UTC) - DAY),
        files.clients.issue("admin", hosts=["admin"]),
    ]
    async with served(files.settings, anonymous=True) as api:
        for each in bad:
            with pytest.raises(aiohttp.ClientError):
                await asked(api, files, each, version=version)
        assert (await asked(api, files, files.clients.issue("admin")))[0] == 200


def signed(
    name: str, issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None, *, ca: bool
) -> tuple[Any, bytes, Any]:
    """Name, PEM and key of a new certificate."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    by, by_key = issuer or (subject, key)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(by).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + DAY)
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    return subject, builder.sign(by_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), key


@pytest.mark.parametrize("trusted", ["root", "middle"])
async def test_an_authority_may_stand_below_another_one(files: Files, trusted: str) -> None:
    root, root_pem, root_key = signed("root", None, ca=True)
    middle, middle_pem, middle_key = signed("middle", (root, root_key), ca=True)
    _, leaf_pem, leaf_key = signed("admin", (middle, middle_key), ca=False)
    key_pem = leaf_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (files.folder / "ca.crt").write_bytes({"root": root_pem, "middle": middle_pem}[trusted])
    chain = leaf_pem + (middle_pem if trusted == "root" else b"")
    async with served(files.settings) as api:
        assert (await asked(api, files, Issued(chain, key_pem)))[0] == 200


async def test_without_an_authority_of_clients_certificates_are_not_asked_for(files: Files) -> None:
    settings = TlsSettings(
        cert_dir=files.folder, node_name="n1", cert_file=files.settings.cert_file, key_file=files.settings.key_file
    )
    async with served(settings) as api:
        assert (await asked(api, files, files.clients.issue("admin")))[0] == 401


async def test_a_certificate_that_expires_while_its_connection_is_open_does_not_hold_any_more(files: Files) -> None:
    admin = files.clients.issue("admin")
    async with served(files.settings) as api, aiohttp.ClientSession() as session:
        context = client_context(files.servers.pem, admin)
        async with session.get(api.url, ssl=context) as response:
            assert response.status == 200
        api.now = x509.load_pem_x509_certificate(admin.certificate).not_valid_after_utc + DAY
        async with session.get(api.url, ssl=context) as response:
            assert response.status == 401


async def test_a_tls_1_2_session_is_not_resumed_past_the_end_of_its_authority(files: Files) -> None:
    admin = files.clients.issue("admin")
    async with served(files.settings) as api:
        context = client_context(files.servers.pem, admin, version=ssl.TLSVersion.TLSv1_2)
        port = int(api.url.split(":")[2].split("/")[0])

        def ask(session: ssl.SSLSession | None) -> tuple[bytes, ssl.SSLSession | None, bool | None]:
            with (
                socket.create_connection(("127.0.0.1", port)) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secure,
            ):
                secure.sendall(b"GET /pods HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                return secure.recv(12), secure.session, secure.session_reused

        first, session, _ = await asyncio.to_thread(ask, None)
        assert first == b"HTTP/1.1 200"
        again, _, reused = await asyncio.to_thread(ask, session)
        assert (again, reused) == (b"HTTP/1.1 200", True)
        files.trust(Authority("others"))
        await api.tls.refresh()
        try:
            last, _, reused = await asyncio.to_thread(ask, session)
        except OSError:
            pass  # not resumed, and not accepted
        else:
            assert (last, reused) in ((b"HTTP/1.1 401", True), (b"", False))


# --- files that change


async def test_new_connections_see_a_new_certificate_and_old_ones_stay(files: Files) -> None:
    async with served(files.settings) as api, aiohttp.ClientSession() as session:
        headers = {"Authorization": "Bearer admin-token"}
        context = client_context(files.servers.pem)
        async with session.get(api.url, ssl=context, headers=headers) as response:
            assert response.status == 200
            connection = response.connection
        assert await peer_name(api, files) == "CN=first"
        files.write(files.servers.issue("second", hosts=["127.0.0.1"]))
        await api.tls.refresh()
        assert await peer_name(api, files) == "CN=second"
        async with session.get(api.url, ssl=context, headers=headers) as response:
            assert response.status == 200
        assert connection is None or not connection.closed


async def test_certificates_change_under_load_and_nobody_is_turned_away(files: Files) -> None:
    admin = files.clients.issue("admin")
    stop = asyncio.Event()
    statuses: list[int] = []

    async def ask_again_and_again(api: Api, *, keep: bool) -> None:
        connector = aiohttp.TCPConnector(force_close=not keep)
        async with aiohttp.ClientSession(connector=connector) as session:
            context = client_context(files.servers.pem, admin)
            while not stop.is_set():
                async with session.get(api.url, ssl=context) as response:
                    statuses.append(response.status)

    async with served(files.settings) as api, asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(api.tls.run())
        for keep in (True, False, True, False):
            tasks.create_task(ask_again_and_again(api, keep=keep))
        for number in range(5):
            files.write(files.servers.issue(f"number-{number}", hosts=["127.0.0.1"]))
            files.trust(files.clients, Authority(f"more-{number}"))
            async with asyncio.timeout(20):
                async for _ in every(0.01):
                    if await peer_name(api, files) == f"CN=number-{number}":
                        break
        stop.set()
        watching.cancel()
    assert len(statuses) > 20
    assert set(statuses) == {200}


async def test_an_authority_that_is_taken_away_is_not_believed_any_more_not_even_on_open_connections(
    files: Files,
) -> None:
    former, new = files.clients, Authority("new")
    async with served(files.settings) as api, aiohttp.ClientSession() as session:
        context = client_context(files.servers.pem, former.issue("admin"))

        async def status() -> int:
            async with session.get(api.url, ssl=context) as response:
                return response.status

        assert await status() == 200
        files.trust(former, new)
        await api.tls.refresh()
        assert await status() == 200
        files.trust(new)
        await api.tls.refresh()
        assert await status() == 401
        with pytest.raises(aiohttp.ClientError):  # the connection was closed, and a new one is not made
            await status()
        assert (await asked(api, files, new.issue("admin")))[0] == 200


@pytest.mark.parametrize("which", ["tls.crt", "tls.key", "ca.crt"])
@pytest.mark.parametrize("content", [b"", b"rubbish", None])
async def test_a_broken_file_leaves_the_former_in_force_and_is_complained_about_once(
    files: Files, which: str, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(files.settings) as api:
        if content is None:
            (files.folder / which).unlink()
        else:
            (files.folder / which).write_bytes(content)
        await api.tls.refresh()
        await api.tls.refresh()
        assert (await asked(api, files, files.clients.issue("admin")))[0] == 200
        assert caplog.text.count("stay in force") == 1
        assert which in caplog.text

        files.write(files.servers.issue("mended", hosts=["127.0.0.1"]))
        files.trust(files.clients)
        await api.tls.refresh()
        assert await peer_name(api, files) == "CN=mended"


async def test_a_key_that_arrives_after_its_certificate_is_waited_for(files: Files) -> None:
    async with served(files.settings) as api:
        issued = files.servers.issue("second", hosts=["127.0.0.1"])
        (files.folder / "tls.crt").write_bytes(issued.certificate)
        await api.tls.refresh()
        assert await peer_name(api, files) == "CN=first"
        (files.folder / "tls.key").write_bytes(issued.key)
        await api.tls.refresh()
        assert await peer_name(api, files) == "CN=second"


# --- what cannot start


def test_a_missing_file_is_named(files: Files) -> None:
    (files.folder / "tls.key").unlink()
    with pytest.raises(Invalid, match=r"tls\.key cannot be read: No such file"):
        kubelet_tls(files.settings).context()


def test_a_pair_that_does_not_belong_together_is_named(files: Files) -> None:
    (files.folder / "tls.key").write_bytes(files.servers.issue("x", hosts=["y"]).key)
    with pytest.raises(Invalid, match=r"tls\.key do not belong together"):
        kubelet_tls(files.settings).context()


def test_an_authority_that_is_none_is_named(files: Files) -> None:
    (files.folder / "ca.crt").write_text("hello")
    with pytest.raises(Invalid, match=r"the client CA file .*ca\.crt holds no certificate"):
        kubelet_tls(files.settings).context()


def test_the_certificate_that_is_shown_can_be_asked_for(files: Files) -> None:
    tls = kubelet_tls(files.settings)
    pem = Path(files.settings.cert_file).read_bytes()
    assert tls.certificate() == x509.load_pem_x509_certificate(pem)
    Path(files.settings.cert_file).write_bytes(b"no certificate")
    assert tls.certificate() is None

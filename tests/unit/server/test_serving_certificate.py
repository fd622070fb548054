"""Which certificate the kubelet shows."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509

from kit.certificates import Authority
from kit.tls_files import Files, asked, client_context, peer_name, served
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.server.serving_certificate import kubelet_tls, self_signed, signed_by_itself
from pykubelet.server.settings import TlsSettings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def leaf(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_it_is_made_once_and_its_key_is_private(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path / "pki", "n1", ["10.0.0.1", "fd00::1", "n1.example"], NOW)

    assert (certificate.name, key.name) == ("kubelet.crt", "kubelet.key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert leaf(certificate).not_valid_after_utc - leaf(certificate).not_valid_before_utc == 365 * DAY
    names = leaf(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1", "n1.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "fd00::1"]
    before = certificate.read_bytes()
    self_signed(tmp_path / "pki", "n1", [], NOW + 300 * DAY)
    assert certificate.read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "pki").iterdir()) == ["kubelet.crt", "kubelet.key"]


def test_its_authority_is_in_the_same_file() -> None:
    pem = signed_by_itself("n1", (), NOW).certificate
    certificate, authority = x509.load_pem_x509_certificates(pem)
    certificate.verify_directly_issued_by(authority)


def test_our_own_is_renewed_a_month_before_its_end(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path, "n1", (), NOW)
    old_key = key.read_bytes()
    self_signed(tmp_path, "n1", (), NOW + 340 * DAY)
    assert leaf(certificate).not_valid_after_utc > NOW + 600 * DAY
    assert key.read_bytes() != old_key


def test_what_somebody_else_put_there_is_never_touched(tmp_path: Path) -> None:
    issued = Authority().issue("n1", hosts=["n1"], expires=NOW)
    (tmp_path / "kubelet.crt").write_bytes(issued.certificate)
    (tmp_path / "kubelet.key").write_bytes(issued.key)
    certificate, _ = self_signed(tmp_path, "n1", (), NOW + DAY)
    assert certificate.read_bytes() == issued.certificate


def test_one_file_without_the_other_is_refused(tmp_path: Path) -> None:
    _, key = self_signed(tmp_path, "n1", (), NOW)
    key.unlink()
    with pytest.raises(Invalid, match=r"kubelet\.key is not"):
        self_signed(tmp_path, "n1", (), NOW)


def test_a_long_name_fits(tmp_path: Path) -> None:
    name = "n" * 60 + "." + "x" * 60
    certificate, _ = self_signed(tmp_path, name, (), NOW)
    names = leaf(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [name]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match=r"file/pki/kubelet\.key cannot be written"):
        self_signed(tmp_path / "file" / "pki", "n1", (), NOW)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


# --- where it comes from


async def test_without_files_it_signs_its_own(tmp_path: Path) -> None:
    settings = TlsSettings(cert_dir=tmp_path / "pki", node_name="n1", addresses=("127.0.0.1",))
    async with served(settings) as api, aiohttp.ClientSession() as session:
        context = client_context((tmp_path / "pki" / "kubelet.crt").read_bytes())
        async with session.get(api.url, ssl=context) as response:
            assert response.status == 401


async def test_a_certificate_that_is_still_to_be_issued_is_waited_for(files: Files) -> None:
    settings = TlsSettings(cert_dir=files.folder, node_name="n1", issued=True)
    async with served(settings) as api:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await peer_name(api, files)
        for name in ("first", "second"):
            issued = files.servers.issue(name, hosts=["127.0.0.1"])
            (files.folder / f"{name}.pem").write_bytes(issued.certificate + issued.key)
            link = files.folder / "kubelet-server-new.pem"
            link.symlink_to(files.folder / f"{name}.pem")
            link.replace(files.folder / "kubelet-server-current.pem")
            await api.tls.refresh()
            assert await peer_name(api, files) == f"CN={name}"


async def test_given_files_serve_until_a_certificate_is_issued(files: Files) -> None:
    async with served(changed(files.settings, issued=True)) as api:
        assert await peer_name(api, files) == "CN=first"
        issued = files.servers.issue("issued", hosts=["127.0.0.1"])
        (files.folder / "kubelet-server-current.pem").write_bytes(issued.certificate + issued.key)
        await api.tls.refresh()
        assert await peer_name(api, files) == "CN=issued"


async def test_tls_1_3_alone_is_insisted_on_in_every_handshake(files: Files) -> None:
    async with served(changed(files.settings, min_version="VersionTLS13")) as api:
        assert (await asked(api, files, token="admin-token"))[1] == "TLSv1.3"
        with pytest.raises(aiohttp.ClientError):
            await asked(api, files, token="admin-token", version=ssl.TLSVersion.TLSv1_2)


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="give both, or neither"):
        kubelet_tls(TlsSettings(cert_dir=tmp_path, node_name="n1", cert_file="a"))

"""Certificates, keys and kubeconfig files: made once, renewed in time, and for nobody else's eyes."""

import asyncio
import socket
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from pykubelet.apiserver.security.authenticate import certificate_user
from pykubelet.apiserver.security.kubeconfig import kubeconfig, merged_kubeconfig, write_kubeconfig
from pykubelet.apiserver.security.pki import Pki
from pykubelet.apiserver.security.serving import apiserver_tls, kubelet_context, serving_hosts
from pykubelet.base.errors import Invalid
from pykubelet.web.authority import Authority

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_keys_are_for_their_owner_alone(tmp_path: Path, clock: Clock) -> None:
    pki = Pki.open(tmp_path / "pki", clock)
    pki.admin(), pki.kubelet_client(), pki.node("n1"), pki.serving(["localhost"]), pki.service_account_key()

    assert mode(tmp_path / "pki") == 0o700
    keys = sorted((tmp_path / "pki").glob("*.key"))
    assert len(keys) == 6
    assert {mode(key) for key in keys} == {0o600}


def test_what_was_made_is_found_again_and_not_made_anew(tmp_path: Path, clock: Clock) -> None:
    first = Pki.open(tmp_path, clock)
    before = [path.read_bytes() for path in first.serving(["localhost"])]
    again = Pki.open(tmp_path, clock)

    assert again.authority.pem == first.authority.pem
    assert [path.read_bytes() for path in again.serving(["localhost"])] == before
    assert again.service_account_key().public_key() == first.service_account_key().public_key()


@pytest.mark.parametrize(("days", "is_renewed"), [(300, False), (340, True), (400, True)])
def test_a_certificate_is_renewed_before_it_ends(tmp_path: Path, clock: Clock, days: int, is_renewed: bool) -> None:
    pki = Pki.open(tmp_path, clock)
    before = pki.admin()[0].read_bytes()
    clock.time = NOW + timedelta(days=days)

    assert (pki.admin()[0].read_bytes() != before) == is_renewed


def test_a_new_name_makes_a_new_serving_certificate(tmp_path: Path, clock: Clock) -> None:
    pki = Pki.open(tmp_path, clock)
    pki.serving(["localhost"])
    hosts = read(pki.serving(["localhost", "10.0.0.1"])[0]).extensions
    found = hosts.get_extension_for_class(x509.SubjectAlternativeName).value

    assert [str(each.value) for each in found] == ["localhost", "10.0.0.1"]


def test_an_authority_without_its_key_is_not_replaced_behind_our_back(tmp_path: Path, clock: Clock) -> None:
    Pki.open(tmp_path, clock)
    (tmp_path / "ca.key").unlink()

    with pytest.raises(Invalid, match=r"ca.crt is there, but .*ca.key is not: put it back"):
        Pki.open(tmp_path, clock)


def test_a_half_made_authority_is_finished(tmp_path: Path, clock: Clock) -> None:
    first = Pki.open(tmp_path, clock)
    (tmp_path / "ca.crt").unlink()

    assert Pki.open(tmp_path, clock).authority.certificate.public_key() == first.authority.certificate.public_key()


def test_a_key_of_another_authority_is_refused(tmp_path: Path, clock: Clock) -> None:
    Pki.open(tmp_path, clock)
    (tmp_path / "ca.key").write_bytes(Authority.make(NOW).pair().key)

    with pytest.raises(Invalid, match="do not belong together"):
        Pki.open(tmp_path, clock)


def test_certificates_name_their_users(tmp_path: Path, clock: Clock) -> None:
    pki = Pki.open(tmp_path, clock)
    users = [certificate_user(read(pair[0]), NOW) for pair in (pki.admin(), pki.node("n1"), pki.kubelet_client())]

    assert [(user.name, user.groups[:1]) for user in users if user is not None] == [
        ("kubernetes-admin", ("system:masters",)),
        ("system:node:n1", ("system:nodes",)),
        ("kube-apiserver-kubelet-client", ("system:masters",)),
    ]


def test_a_certificate_that_has_ended_or_is_for_servers_names_nobody(tmp_path: Path, clock: Clock) -> None:
    pki = Pki.open(tmp_path, clock)

    with pytest.raises(Invalid, match="has expired"):
        certificate_user(read(pki.admin()[0]), NOW + timedelta(days=366))
    with pytest.raises(Invalid, match="clientAuth"):
        certificate_user(read(pki.serving(["localhost"])[0]), NOW)


def test_the_server_answers_to_this_machine_and_to_the_service() -> None:
    hosts = serving_hosts(["extra.example"])

    wanted = {"localhost", "127.0.0.1", "::1", "10.96.0.1", "kubernetes.default.svc.cluster.local", "extra.example"}
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


# --- kubeconfig


def ours(server: str = "https://localhost:6443") -> dict[str, Any]:
    return kubeconfig(server, b"ca", b"certificate", b"key")


def test_a_kubeconfig_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "there" / "config"
    write_kubeconfig(path, ours())

    assert mode(path) == 0o600


def test_what_a_person_has_stays_when_ours_is_added() -> None:
    theirs = {
        "current-context": "work",
        "clusters": [{"name": "work", "cluster": {}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "work", "context": {}}],
        "preferences": {"colors": True},
    }
    merged = merged_kubeconfig(theirs, ours())

    assert merged["current-context"] == "work"
    assert [each["name"] for each in merged["clusters"]] == ["work", "pykubelet"]
    assert merged["preferences"] == {"colors": True}


def test_ours_replaces_what_we_wrote_before() -> None:
    merged = merged_kubeconfig(ours("https://old:1"), ours("https://new:2"))

    assert [each["cluster"]["server"] for each in merged["clusters"]] == ["https://new:2"]
    assert merged["current-context"] == "pykubelet"


def test_a_kubeconfig_that_makes_no_sense_is_not_overwritten() -> None:
    with pytest.raises(Invalid, match="users of the kubeconfig is not a list of objects"):
        merged_kubeconfig({"users": "me"}, ours())

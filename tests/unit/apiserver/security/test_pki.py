"""Certificates and keys: made once, renewed in time, and for nobody else's eyes."""

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from pykubelet.apiserver.security.pki import Pki
from pykubelet.base.errors import Invalid, Retry
from pykubelet.web.authority import Authority
from unit.apiserver.security.pki_files import NOW, Clock, mode, read


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


def test_the_servers_own_certificate_for_kubelets_makes_nobody_a_master(tmp_path: Path, clock: Clock) -> None:
    """A folder of before, whose one does, gets another; and then it stays."""
    pki = Pki.open(tmp_path, clock)
    old = pki.authority.client("kube-apiserver-kubelet-client", ("system:masters",), NOW)
    (tmp_path / "apiserver-kubelet-client.crt").write_bytes(old.certificate)
    (tmp_path / "apiserver-kubelet-client.key").write_bytes(old.key)
    made = pki.kubelet_client()[0].read_bytes()

    assert read(pki.kubelet_client()[0]).subject.rfc4514_string() == "CN=kube-apiserver-kubelet-client"
    assert pki.kubelet_client()[0].read_bytes() == made


def test_an_authority_without_its_key_is_not_replaced_behind_our_back(tmp_path: Path, clock: Clock) -> None:
    Pki.open(tmp_path, clock)
    (tmp_path / "ca.key").unlink()

    with pytest.raises(Invalid, match=r"ca.crt is there, but .*ca.key is not: put it back"):
        Pki.open(tmp_path, clock)


def test_a_clock_that_went_back_is_told_and_may_be_right_later(tmp_path: Path, clock: Clock) -> None:
    made = Pki.open(tmp_path, clock).authority.pem
    clock.time = NOW - timedelta(days=3)
    with pytest.raises(Retry, match=r"ca.crt holds from .* on: set this machine's clock right"):
        Pki.open(tmp_path, clock)
    clock.time = NOW
    assert Pki.open(tmp_path, clock).authority.pem == made


def test_a_half_made_authority_is_finished(tmp_path: Path, clock: Clock) -> None:
    first = Pki.open(tmp_path, clock)
    (tmp_path / "ca.crt").unlink()

    assert Pki.open(tmp_path, clock).authority.certificate.public_key() == first.authority.certificate.public_key()


def test_a_key_of_another_authority_is_refused(tmp_path: Path, clock: Clock) -> None:
    Pki.open(tmp_path, clock)
    (tmp_path / "ca.key").write_bytes(Authority.make(NOW).pair().key)

    with pytest.raises(Invalid, match="do not belong together"):
        Pki.open(tmp_path, clock)

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from pykubelet.apiserver.security.authenticate import certificate_user
from pykubelet.apiserver.security.pki import Pki
from pykubelet.base.errors import Invalid

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

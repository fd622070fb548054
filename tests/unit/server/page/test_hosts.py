"""Names that somebody else may point at this machine are not ours."""

from datetime import UTC, datetime

import pytest
from cryptography import x509

from pykubelet.server.page.hosts import OwnNames
from pykubelet.server.serving_certificate import signed_by_itself

CERTIFICATE = x509.load_pem_x509_certificate(
    signed_by_itself("n1", ("box.example.com", "10.0.0.1"), datetime.now(UTC)).certificate
)
NAMES = OwnNames(lambda: ("Worker-1", "10.0.0.1"), lambda: CERTIFICATE)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:10250",
        "10.0.0.1",
        "203.0.113.9:10250",
        "[::1]:10250",
        "[fe80::1%eth0]",
        "localhost:10250",
        "worker-1:10250",
        "WORKER-1",
        "worker-1.:10250",
        "box.example.com",
    ],
)
def test_addresses_and_own_names_are_ours(host: str) -> None:
    assert NAMES.is_ours(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        ":10250",
        "evil.example.com",
        "evil.example.com:10250",
        "worker-1.evil.com",
        "localhost.evil.com",
        "1.2.3.4.evil.com",
        "[::1].evil.com",
    ],
)
def test_others_are_not(host: str) -> None:
    assert not NAMES.is_ours(host)


def test_without_a_certificate_the_nodes_names_are_left() -> None:
    names = OwnNames(lambda: ("worker-1",), lambda: None)
    assert names.is_ours("worker-1")
    assert not names.is_ours("box.example.com")

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kit.certificates import Authority
from pykubelet.base.errors import Invalid
from pykubelet.web.certificates import client_subject, hosts, is_due, is_issued_by, is_of_key

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def loaded(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def test_a_certificate_names_user_and_groups() -> None:
    certificate = loaded(Authority().issue("system:node:n1", organizations=["system:nodes", "b"]).certificate)

    subject = client_subject(certificate, datetime.now(UTC))

    assert subject is not None
    assert (subject.name, subject.uid, subject.groups) == ("system:node:n1", "", ("system:nodes", "b"))
    assert subject.credential == f"X509SHA256={certificate.fingerprint(hashes.SHA256()).hex()}"


def test_a_certificate_holds_in_its_time_only() -> None:
    certificate = loaded(Authority().issue("ann").certificate)
    with pytest.raises(Invalid, match="has expired"):
        client_subject(certificate, certificate.not_valid_after_utc + timedelta(seconds=1))
    with pytest.raises(Invalid, match="not valid before"):
        client_subject(certificate, certificate.not_valid_before_utc - timedelta(seconds=1))


def test_the_certificate_of_a_server_does_not_name_a_client() -> None:
    with pytest.raises(Invalid, match="lacks clientAuth"):
        client_subject(loaded(Authority().issue("web", hosts=["web"]).certificate), datetime.now(UTC))


def signed(*attributes: x509.NameAttribute[str]) -> x509.Certificate:
    """By itself, for a subject of these."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(attributes)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW - DAY).not_valid_after(NOW + 90 * DAY)
    return builder.sign(key, hashes.SHA256())


def test_a_certificate_without_a_common_name_names_nobody() -> None:
    assert client_subject(signed(x509.NameAttribute(NameOID.ORGANIZATION_NAME, "x")), NOW) is None


USER_ID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
ANN = x509.NameAttribute(NameOID.COMMON_NAME, "ann")


def test_a_certificate_may_have_one_user_id() -> None:
    subject = client_subject(signed(ANN, x509.NameAttribute(USER_ID, "7")), NOW)
    assert subject is not None
    assert subject.uid == "7"
    with pytest.raises(Invalid, match="one user id, or none"):
        client_subject(signed(ANN, x509.NameAttribute(USER_ID, "7"), x509.NameAttribute(USER_ID, "8")), NOW)


@pytest.mark.parametrize(("days", "due"), [(-2, True), (0, False), (59, False), (61, True), (100, True)])
def test_a_certificate_is_due_in_its_last_month_and_before_its_time(days: int, due: bool) -> None:
    assert is_due(signed(ANN), NOW + days * DAY) is due


def test_only_the_authority_itself_has_issued_it() -> None:
    authority, namesake = Authority("a"), Authority("a")
    certificate = loaded(authority.issue("ann").certificate)
    assert is_issued_by(certificate, loaded(authority.pem))
    assert not is_issued_by(certificate, loaded(namesake.pem))
    assert not is_issued_by(certificate, loaded(Authority("b").pem))


def test_a_key_is_that_of_one_certificate() -> None:
    first, second = Authority().issue("a"), Authority().issue("a")
    assert is_of_key(loaded(first.certificate), first.key)
    assert not is_of_key(loaded(first.certificate), second.key)
    assert not is_of_key(loaded(first.certificate), b"rubbish")


def test_the_hosts_of_a_server_are_told() -> None:
    found = hosts(loaded(Authority().issue("web", hosts=["web", "10.0.0.1"]).certificate))
    assert found == {x509.DNSName("web"), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))}
    assert hosts(loaded(Authority().issue("ann").certificate)) == frozenset()

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

from pykubelet.base.errors import Invalid
from pykubelet.web.authority import Authority, public_key_of
from pykubelet.web.certificates import client_subject, hosts, is_issued_by, is_of_key
from pykubelet.web.key_pairs import KeyPair, key_pem

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def loaded(pair: KeyPair) -> x509.Certificate:
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    assert is_of_key(certificate, pair.key)
    return certificate


def test_it_certifies_users_and_servers() -> None:
    authority = Authority.make(NOW)
    client, server = loaded(authority.client("ann", ("a", "b"), NOW)), loaded(authority.server("s", ("s", "::1"), NOW))

    subject = client_subject(client, NOW)
    assert subject is not None
    assert (subject.name, subject.groups) == ("ann", ("a", "b"))
    assert {str(each.value) for each in hosts(server)} == {"s", "::1"}
    assert all(is_issued_by(each, authority.certificate) for each in (client, server))
    with pytest.raises(Invalid, match="lacks clientAuth"):
        client_subject(server, NOW)


def test_what_it_signs_does_not_outlive_it_and_holds_for_clocks_that_are_behind() -> None:
    authority = Authority.make(NOW, lifetime=100 * DAY)
    certificate = loaded(authority.client("ann", (), NOW + 50 * DAY))

    assert certificate.not_valid_after_utc == authority.certificate.not_valid_after_utc == NOW + 100 * DAY
    assert certificate.not_valid_before_utc == NOW + 50 * DAY - timedelta(minutes=5)


def test_it_comes_back_from_its_files() -> None:
    authority = Authority.make(NOW)
    again = Authority.load(authority.pair())
    assert is_issued_by(loaded(again.client("ann", (), NOW)), authority.certificate)

    with pytest.raises(Invalid, match="do not belong together"):
        Authority.load(KeyPair(authority.pem, Authority.make(NOW).pair().key))
    with pytest.raises(Invalid, match="both have to be PEM"):
        Authority.load(KeyPair(b"rubbish", authority.pair().key))


def test_one_of_other_tools_may_be_of_rsa_and_without_an_identifier() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "others")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + DAY)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    authority = Authority.load(KeyPair(Authority(certificate, key).pem, key_pem(key)))
    assert is_issued_by(loaded(authority.client("ann", (), NOW)), certificate)


@pytest.mark.parametrize("name", ["", "n" * 65])
def test_a_name_that_no_certificate_can_have_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="it needs 1 to 64 characters"):
        Authority.make(NOW).client(name, (), NOW)


def test_weak_keys_are_not_signed_for() -> None:
    def request(key: CertificateIssuerPrivateKeyTypes) -> x509.CertificateSigningRequest:
        return x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, hashes.SHA256())

    good = ec.generate_private_key(ec.SECP256R1())
    assert public_key_of(request(good)) == good.public_key()
    with pytest.raises(Invalid, match="RSA of 2048 bits or more"):
        public_key_of(request(rsa.generate_private_key(65537, 1024)))

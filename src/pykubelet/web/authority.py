"""A certificate authority: what it signs, for how long, and what such a certificate is good for. All in memory."""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pykubelet.base.errors import Invalid
from pykubelet.web.key_pairs import KeyPair, key_pem

AuthorityKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
"""Ours are of the first kind; those of other tools are often of the second."""
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey

YEAR: Final = timedelta(days=365)
_AUTHORITY_LIFETIME: Final = 10 * YEAR
SKEW: Final = timedelta(minutes=5)
"""How far the clock of another machine may be behind."""
_LONGEST_COMMON_NAME: Final = 64
_SMALLEST_RSA: Final = 2048


class Authority:
    def __init__(self, certificate: x509.Certificate, key: AuthorityKey) -> None:
        self.certificate = certificate
        self._key = key

    @classmethod
    def make(
        cls,
        now: datetime,
        key: AuthorityKey | None = None,
        *,
        name: str = "kubernetes",
        lifetime: timedelta = _AUTHORITY_LIFETIME,
    ) -> "Authority":
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        builder = (
            _builder(subject, subject, key.public_key(), now, now + lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, pair: KeyPair) -> "Authority":
        """Raises Invalid when the two cannot be read, or do not belong together."""
        try:
            certificate = x509.load_pem_x509_certificate(pair.certificate)
            key = serialization.load_pem_private_key(pair.key, password=None)
        except (ValueError, TypeError):
            raise Invalid("the certificate or the key of the authority cannot be read: both have to be PEM") from None
        if not isinstance(key, AuthorityKey):
            raise Invalid("the authority's key has to be an elliptic curve key or one of RSA")
        if certificate.public_key() != key.public_key():
            raise Invalid("the authority's certificate and key do not belong together")
        return cls(certificate, key)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def pair(self) -> KeyPair:
        return KeyPair(self.pem, key_pem(self._key))

    def client(self, user: str, groups: Sequence[str], now: datetime, lifetime: timedelta = YEAR) -> KeyPair:
        """For whoever has to prove to be this user."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = self.sign(key.public_key(), _name(user, groups), now, lifetime, client=True)
        return KeyPair(signed, key_pem(key))

    def server(self, name: str, hosts: Sequence[str], now: datetime, lifetime: timedelta = YEAR) -> KeyPair:
        """For a server that answers to these names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts_ = tuple(general_name(host) for host in dict.fromkeys(hosts))
        signed = self.sign(key.public_key(), _name(name), now, lifetime, hosts=hosts_, server=True)
        return KeyPair(signed, key_pem(key))

    def sign(
        self,
        key: PublicKey,
        subject: x509.Name,
        now: datetime,
        lifetime: timedelta,
        *,
        hosts: Sequence[x509.GeneralName] = (),
        client: bool = False,
        server: bool = False,
        enciphers: bool = False,
    ) -> bytes:
        """A certificate, PEM; it never outlives the authority."""
        until = min(now + lifetime, self.certificate.not_valid_after_utc)
        identifier = _identifier(self.certificate)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH] * client + [ExtendedKeyUsageOID.SERVER_AUTH] * server
        builder = (
            _builder(subject, self.certificate.subject, key, now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(enciphers=enciphers), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
                critical=False,
            )
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _identifier(certificate: x509.Certificate) -> x509.SubjectKeyIdentifier:
    """Some tools leave it out."""
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        key = certificate.public_key()
        assert isinstance(key, PublicKey)
        return x509.SubjectKeyIdentifier.from_public_key(key)


def public_key_of(request: x509.CertificateSigningRequest) -> PublicKey:
    """The key of a request, if it is one that we sign for. Raises Invalid."""
    try:
        key = request.public_key()
    except ValueError:
        raise Invalid("the key of the certificate request cannot be read") from None
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _SMALLEST_RSA:
        return key
    if isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        return key
    raise Invalid(f"the key of the certificate request has to be RSA of {_SMALLEST_RSA} bits or more, ECDSA or Ed25519")


def general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    if not 0 < len(common_name) <= _LONGEST_COMMON_NAME:
        raise Invalid(f"{common_name!r} cannot be the name in a certificate: it needs 1 to 64 characters")
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(until)
    )


def _usage(*, signs: bool = False, enciphers: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=enciphers,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

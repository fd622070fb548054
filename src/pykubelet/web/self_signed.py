"""A serving certificate of the agent's own, for nodes that were given none: better than no TLS, though nobody vouches.

Its authority signs this one certificate, and its key is thrown away; both certificates are in the one file, so that
who has the file can verify the agent.
"""

import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pykubelet.base.errors import Invalid

_LIFETIME: Final = timedelta(days=365)
_RENEWED_BEFORE: Final = timedelta(days=30)
_SKEW: Final = timedelta(hours=1)
_LONGEST_NAME: Final = 64
_OURS: Final = re.compile(r".*-ca@\d+")


def ensure(directory: Path, name: str, addresses: Sequence[str], now: datetime) -> tuple[Path, Path]:
    """The paths of certificate and key: those that are there, or new ones.

    Files that somebody else put there are never touched; our own are renewed in time.
    """
    certificate, key = directory / "kubelet.crt", directory / "kubelet.key"
    there = [path for path in (certificate, key) if path.exists()]
    if len(there) == 1:
        missing = key if there[0] == certificate else certificate
        raise Invalid(f"{there[0]} is there, but {missing} is not: put the other one back, or remove this one")
    if there and not _is_ours_and_old(certificate, now):
        return certificate, key
    certificate_pem, key_pem = make(name, addresses, now)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _write(key, key_pem, 0o600)
        _write(certificate, certificate_pem, 0o644)
    except OSError as error:
        raise Invalid(f"{directory}: the serving certificate cannot be written there: {error.strerror}") from None
    return certificate, key


def make(name: str, addresses: Sequence[str], now: datetime) -> tuple[bytes, bytes]:
    """Certificate with its authority, and key; PEM."""
    stamp = int(now.timestamp())
    short = name[: _LONGEST_NAME - len(f"-ca@{stamp}")]
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{short}-ca@{stamp}")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{short}@{stamp}")])
    issuer_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(issuer_key.public_key())
    authority = (
        _builder(issuer, issuer, issuer_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    certificate = (
        _builder(subject, issuer, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .add_extension(
            x509.SubjectAlternativeName([_general_name(each) for each in dict.fromkeys((name, *addresses))]),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in (certificate, authority)), (
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )


def _is_ours_and_old(path: Path, now: datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        issuers = certificate.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (OSError, ValueError):
        return False
    ours = bool(issuers) and isinstance(issuers[0].value, str) and bool(_OURS.fullmatch(issuers[0].value))
    return ours and certificate.not_valid_after_utc - now < _RENEWED_BEFORE


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    begin = now - _SKEW
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + _LIFETIME)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(path: Path, data: bytes, mode: int) -> None:
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)

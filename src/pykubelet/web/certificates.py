"""Reading certificates: when they hold, who issued them, for which hosts, and whom one names that a client shows."""

import ssl
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier
from msgspec import Struct

from pykubelet.base.errors import Invalid

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
"""The key under which users carry the fingerprint of the certificate that they showed."""
_USER_ID: Final = ObjectIdentifier("1.3.6.1.4.1.57683.2")
_MAY_BE_CLIENT: Final = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
_RENEWED_BEFORE: Final = timedelta(days=30)

ClientCertificate = Callable[[ssl.SSLObject], x509.Certificate | None]
"""The proven certificate of the other side; None when it showed none. Raises Invalid when it does not hold any more."""


class Subject(Struct, frozen=True):
    """Whom a client certificate names."""

    name: str
    """Its common name."""
    groups: tuple[str, ...]
    """Its organizations."""
    uid: str
    credential: str
    """The certificate's fingerprint, as users carry it under CREDENTIAL_ID."""


def client_certificate(tls: ssl.SSLObject) -> x509.Certificate | None:
    """What the other side of a connection has proven to be; None when it showed nothing. Raises Invalid."""
    der = tls.getpeercert(binary_form=True)
    return _parsed(der) if der else None


def client_subject(certificate: x509.Certificate, now: datetime) -> Subject | None:
    """None when it has no common name. Raises Invalid when it does not hold now, or not for a client.

    Connections outlive their handshake, so this is to be asked for every request.
    """
    if now < certificate.not_valid_before_utc:
        raise Invalid(f"the client certificate is not valid before {certificate.not_valid_before_utc}")
    if now > certificate.not_valid_after_utc:
        raise Invalid(f"the client certificate has expired at {certificate.not_valid_after_utc}")
    return _subject(certificate)


def holds(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def is_due(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it should be made anew: it does not hold yet, or ends soon."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now < begin or end - now < min(_RENEWED_BEFORE, (end - begin) / 3)


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """By this authority itself."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def is_of_key(certificate: x509.Certificate, key: bytes) -> bool:
    """Whether the key, PEM, is the certificate's own."""
    try:
        return certificate.public_key() == serialization.load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError):
        return False


def hosts(certificate: x509.Certificate) -> frozenset[x509.GeneralName]:
    """The names and addresses of the server that it is for."""
    try:
        return frozenset(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (ValueError, x509.ExtensionNotFound):
        return frozenset()


@lru_cache(maxsize=128)
def _parsed(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise Invalid("the client certificate cannot be read") from None


@lru_cache(maxsize=128)
def _subject(certificate: x509.Certificate) -> Subject | None:
    _check_usage(certificate)
    names = _values(certificate, NameOID.COMMON_NAME)
    if not names or not names[-1]:
        return None
    uids = _values(certificate, _USER_ID)
    if len(uids) > 1 or uids == [""]:
        raise Invalid("the client certificate has to have one user id, or none")
    return Subject(
        name=names[-1],
        groups=tuple(_values(certificate, NameOID.ORGANIZATION_NAME)),
        uid=uids[0] if uids else "",
        credential=f"X509SHA256={certificate.fingerprint(hashes.SHA256()).hex()}",
    )


def _check_usage(certificate: x509.Certificate) -> None:
    """Raises Invalid for one that is not for clients."""
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return  # good for everything
    except (ValueError, x509.DuplicateExtension):
        raise Invalid("the client certificate has extensions that cannot be read") from None
    if not any(usage in _MAY_BE_CLIENT for usage in usages):
        raise Invalid("the client certificate is not for clients: its extended key usage lacks clientAuth")


def _values(certificate: x509.Certificate, oid: ObjectIdentifier) -> list[str]:
    """Of one attribute of its subject, in their order. Raises Invalid."""
    try:
        attributes = certificate.subject.get_attributes_for_oid(oid)
    except ValueError:
        raise Invalid("the subject of the client certificate cannot be read") from None
    return [each.value if isinstance(each.value, str) else each.value.decode("latin-1") for each in attributes]

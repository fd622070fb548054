"""Whom a client certificate names, and whether it holds: the common name is the user, organizations are groups."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from pykubelet.base.errors import Invalid
from pykubelet.pod.server_ports import Identity

_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_UID: Final = ObjectIdentifier("1.3.6.1.4.1.57683.2")
_MAY_BE_CLIENT: Final = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)


def identity_of(certificate: x509.Certificate, now: datetime) -> Identity | None:
    """None when it has no common name. Raises Invalid when it does not hold now, or not for a client."""
    _check_time(certificate, now)
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        pass  # good for everything
    except (ValueError, x509.DuplicateExtension):
        raise Invalid("the client certificate has extensions that cannot be read") from None
    else:
        if not any(usage in _MAY_BE_CLIENT for usage in usages):
            raise Invalid("the client certificate is not for clients: its extended key usage lacks clientAuth")
    names = _values(certificate, NameOID.COMMON_NAME)
    if not names or not names[-1]:
        return None
    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    return Identity(
        name=names[-1],
        uid=_uid(certificate),
        groups=tuple(_values(certificate, NameOID.ORGANIZATION_NAME)),
        extra={_CREDENTIAL: (f"X509SHA256={fingerprint}",)},
    )


def is_issued_by(certificate: x509.Certificate, authorities: Sequence[x509.Certificate], now: datetime) -> bool:
    """By one of the authorities itself, which has to be valid at this time."""
    for authority in authorities:
        with suppress(ValueError, TypeError, InvalidSignature, Invalid):
            _check_time(authority, now)
            certificate.verify_directly_issued_by(authority)
            return True
    return False


def _check_time(certificate: x509.Certificate, now: datetime) -> None:
    if now < certificate.not_valid_before_utc:
        raise Invalid(f"the client certificate is not valid before {certificate.not_valid_before_utc}")
    if now > certificate.not_valid_after_utc:
        raise Invalid(f"the client certificate has expired at {certificate.not_valid_after_utc}")


def _uid(certificate: x509.Certificate) -> str:
    uids = _values(certificate, _UID)
    if len(uids) > 1 or uids == [""]:
        raise Invalid("the client certificate has to have one user id, or none")
    return uids[0] if uids else ""


def _values(certificate: x509.Certificate, oid: ObjectIdentifier) -> list[str]:
    try:
        attributes = certificate.subject.get_attributes_for_oid(oid)
    except ValueError:
        raise Invalid("the subject of the client certificate cannot be read") from None
    return [each.value if isinstance(each.value, str) else each.value.decode("latin-1") for each in attributes]

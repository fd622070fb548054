"""Whom a client certificate names, and whether it holds: the common name is the user, organizations are groups."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID

from pykubelet.base.errors import Invalid
from pykubelet.pod.ports.server import Identity
from pykubelet.web.client_certificates import USER_ID, check_usage, subject_values

_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"


def identity_of(certificate: x509.Certificate, now: datetime) -> Identity | None:
    """None when it has no common name. Raises Invalid when it does not hold now, or not for a client."""
    _check_time(certificate, now)
    check_usage(certificate)
    names = subject_values(certificate, NameOID.COMMON_NAME)
    if not names or not names[-1]:
        return None
    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    return Identity(
        name=names[-1],
        uid=_uid(certificate),
        groups=tuple(subject_values(certificate, NameOID.ORGANIZATION_NAME)),
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
    uids = subject_values(certificate, USER_ID)
    if len(uids) > 1 or uids == [""]:
        raise Invalid("the client certificate has to have one user id, or none")
    return uids[0] if uids else ""

"""Reading client certificates, as all do who are shown one: the kubelet's HTTP API and the embedded API server."""

from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from pykubelet.base.errors import Invalid

USER_ID: Final = ObjectIdentifier("1.3.6.1.4.1.57683.2")
_MAY_BE_CLIENT: Final = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)


def check_usage(certificate: x509.Certificate) -> None:
    """Raises Invalid for one that is not for clients."""
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return  # good for everything
    except (ValueError, x509.DuplicateExtension):
        raise Invalid("the client certificate has extensions that cannot be read") from None
    if not any(usage in _MAY_BE_CLIENT for usage in usages):
        raise Invalid("the client certificate is not for clients: its extended key usage lacks clientAuth")


def subject_values(certificate: x509.Certificate, oid: ObjectIdentifier) -> list[str]:
    """Of one attribute of its subject, in their order. Raises Invalid."""
    try:
        attributes = certificate.subject.get_attributes_for_oid(oid)
    except ValueError:
        raise Invalid("the subject of the client certificate cannot be read") from None
    return [each.value if isinstance(each.value, str) else each.value.decode("latin-1") for each in attributes]

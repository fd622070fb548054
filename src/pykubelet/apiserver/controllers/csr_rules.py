"""Which certificate requests are granted without asking a person, and what may be signed at all. Pure.

A node may renew its own certificate; who brings a bootstrap token may ask for one for a node; and a node that is known
here may have a serving certificate for the addresses that it has, and for no others.
"""

import base64
import binascii
import ipaddress
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from pykubelet.api.rules.well_known import CLIENT_SIGNER, SERVING_SIGNER
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.users import BOOTSTRAPPERS, NODE_PREFIX, NODES
from pykubelet.base.errors import Invalid

_USAGES: Final = {
    CLIENT_SIGNER: (
        frozenset(("digital signature", "client auth")),
        frozenset(("digital signature", "key encipherment", "client auth")),
    ),
    SERVING_SIGNER: (
        frozenset(("digital signature", "server auth")),
        frozenset(("digital signature", "key encipherment", "server auth")),
    ),
}
SIGNERS: Final = tuple(_USAGES)
_ADDRESSES: Final = ("InternalIP", "ExternalIP")


def parsed(request: Object) -> x509.CertificateSigningRequest:
    """What is asked for. Raises Invalid."""
    try:
        pem = base64.b64decode(at(request, "spec.request", ""), validate=True)
        found = x509.load_pem_x509_csr(pem)
        if not found.is_signature_valid:
            raise Invalid("the certificate request is not signed with its own key")
        _ = found.extensions, found.subject
    except (ValueError, binascii.Error, x509.DuplicateExtension):
        raise Invalid("unable to parse csr: spec.request has to be a PEM encoded certificate request") from None
    return found


def fault(request: Object, asked: x509.CertificateSigningRequest) -> str:
    """Why the signer that the request names cannot sign it; empty when it can."""
    signer = at(request, "spec.signerName", "")
    if signer not in _USAGES:
        return f"nobody here signs for {signer!r}"
    if _values(asked, x509.NameOID.ORGANIZATION_NAME) != [NODES]:
        return "subject organization is not system:nodes"
    names = _values(asked, NameOID.COMMON_NAME)
    if len(names) != 1 or not names[0].startswith(NODE_PREFIX) or names[0] == NODE_PREFIX:
        return "subject common name does not begin with system:node:"
    if frozenset(at(request, "spec.usages", [])) not in _USAGES[signer]:
        return f"usages did not match {sorted(_USAGES[signer][1])}"
    hosts = subject_names(asked)
    if signer == CLIENT_SIGNER:
        return "DNS, IP, email and URI subjectAltNames are not allowed" if hosts else ""
    if not any(isinstance(each, x509.DNSName | x509.IPAddress) for each in hosts):
        return "DNS or IP subjectAltName is required"
    if not all(isinstance(each, x509.DNSName | x509.IPAddress) for each in hosts):
        return "only DNS and IP subjectAltNames are allowed"
    return ""


def approval(request: Object, asked: x509.CertificateSigningRequest, node: Object | None) -> str:
    """The sentence with which it is approved; empty: not by us. `node` is the one that it is for, if it is known."""
    if fault(request, asked):
        return ""
    user, groups = at(request, "spec.username", ""), at(request, "spec.groups", [])
    is_own = user == common_name(asked) and NODES in groups
    if at(request, "spec.signerName") == CLIENT_SIGNER:
        if is_own:
            return "Auto approving self kubelet client certificate after SubjectAccessReview."
        if BOOTSTRAPPERS in groups:
            return "Auto approving kubelet client certificate after SubjectAccessReview."
        return ""
    if not is_own or node is None or not _answers_to(node, subject_names(asked)):
        return ""
    return "Auto approving kubelet serving certificate for the addresses of its node."


def common_name(asked: x509.CertificateSigningRequest) -> str:
    names = _values(asked, NameOID.COMMON_NAME)
    return names[0] if names else ""


def subject_names(asked: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    try:
        return list(asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _answers_to(node: Object, hosts: list[x509.GeneralName]) -> bool:
    """Whether all these names and addresses are the node's own, by its status."""
    addresses, names = set(), {node["metadata"]["name"]}
    for each in at(node, "status.addresses", []):
        if each.get("type") in _ADDRESSES:
            try:
                addresses.add(ipaddress.ip_address(each.get("address", "")))
            except ValueError:
                continue
        else:
            names.add(each.get("address", ""))
    for host in hosts:
        if isinstance(host, x509.IPAddress):
            if host.value not in addresses:
                return False
        elif host.value not in names:
            return False
    return True


def _values(asked: x509.CertificateSigningRequest, oid: x509.ObjectIdentifier) -> list[str]:
    attributes = asked.subject.get_attributes_for_oid(oid)
    return [each.value if isinstance(each.value, str) else each.value.decode("latin-1") for each in attributes]

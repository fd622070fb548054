"""Which certificate requests are granted without asking a person, and what may be signed at all. Pure.

A node may renew its own certificate; who brings a bootstrap token may ask for one for a node that is not there yet; and
a node may have a serving certificate for what it could not choose: its name, the address that it speaks from, and what
an administrator put down. Never for what the API server, a service or another node is called by.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from cryptography import x509
from cryptography.x509.oid import NameOID

from pykubelet.api.rules.well_known import CLIENT_SIGNER, SERVING_SIGNER
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.users import BOOTSTRAPPERS, NODE_PREFIX, NODES
from pykubelet.apiserver.security.addresses import Address, address_of
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
API_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
"""For anybody else who is to be known by a certificate: a person says yes or no, whatever it is for."""
_OF_CLIENTS: Final = frozenset(("digital signature", "key encipherment", "client auth"))
SIGNERS: Final = (*_USAGES, API_CLIENT_SIGNER)


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
    if signer == API_CLIENT_SIGNER:
        return _client_fault(at(request, "spec.usages", []))
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


def _client_fault(usages: list[str]) -> str:
    for usage in usages:
        if usage not in _OF_CLIENTS:
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else 'missing required usage for client certificate: "client auth"'


def approval(request: Object, asked: x509.CertificateSigningRequest, node: Object | None) -> str:
    """The sentence with which one for a client is approved; empty: not by us. `node` is the one that it is for."""
    if fault(request, asked) or at(request, "spec.signerName") != CLIENT_SIGNER:
        return ""
    if is_own(request, asked):
        return "Auto approving self kubelet client certificate after SubjectAccessReview."
    if BOOTSTRAPPERS in at(request, "spec.groups", []) and node is None:
        return "Auto approving kubelet client certificate after SubjectAccessReview."
    return ""


def denial(request: Object, asked: x509.CertificateSigningRequest, node: Object | None) -> str:
    """Why it is denied at once: with a bootstrap token nobody becomes a node that is there already, with all that its
    pods may read; empty: it is not."""
    is_first = BOOTSTRAPPERS in at(request, "spec.groups", []) and at(request, "spec.signerName") == CLIENT_SIGNER
    if node is None or not is_first or fault(request, asked) or is_own(request, asked):
        return ""
    name = node["metadata"]["name"]
    ready = ", and ready" if condition(node, "Ready").get("status") == "True" else ""
    return (
        f"a node {name} is there already{ready}: choose another name with --node-name, or remove that one first with "
        f"`kubectl delete node {name}`"
    )


def is_own(request: Object, asked: x509.CertificateSigningRequest) -> bool:
    """Whether a node asks for itself."""
    return at(request, "spec.username", "") == common_name(asked) and NODES in at(request, "spec.groups", [])


class Reserved(msgspec.Struct, frozen=True):
    """What is somebody's already, each with whose it is."""

    names: Mapping[str, str]
    addresses: Mapping[Address, str]
    fault: Callable[[Address], str]
    """Why an address is nobody's at all; empty: it may be somebody's."""


def granted(
    asked: x509.CertificateSigningRequest, own: frozenset[Address], reserved: Reserved
) -> tuple[list[x509.GeneralName], list[str]]:
    """-> which of the names and addresses a node may have in its serving certificate, and why not the others

    `own`: those that it has, by what others than itself say.
    """
    name, given, refused = common_name(asked).removeprefix(NODE_PREFIX), [], []
    for host in subject_names(asked):
        if isinstance(host, x509.DNSName):
            why = _name_fault(host.value, name, reserved)
        else:
            why = _address_fault(str(host.value), own, reserved)
        if why:
            refused.append(f"{host.value}, {why}")
        else:
            given.append(host)
    return given, refused


def _name_fault(host: str, node: str, reserved: Reserved) -> str:
    if host != node:
        return "not the name of the node"
    if address_of(host) is not None:
        return "an address as a name"
    if host.split(".")[-1] == "localhost" or host.endswith(".cluster.local") or host.split(".")[2:3] == ["svc"]:
        return "a name that is not for nodes"
    return reserved.names.get(host, "")


def _address_fault(host: str, own: frozenset[Address], reserved: Reserved) -> str:
    address = address_of(host)
    if address is None or str(address) != host:
        return "no plain address"
    if why := reserved.fault(address) or reserved.addresses.get(address, ""):
        return why
    return "" if address in own else "not the address that the node speaks from"


def common_name(asked: x509.CertificateSigningRequest) -> str:
    names = _values(asked, NameOID.COMMON_NAME)
    return names[0] if names else ""


def subject_names(asked: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    try:
        return list(asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _values(asked: x509.CertificateSigningRequest, oid: x509.ObjectIdentifier) -> list[str]:
    attributes = asked.subject.get_attributes_for_oid(oid)
    return [each.value if isinstance(each.value, str) else each.value.decode("latin-1") for each in attributes]

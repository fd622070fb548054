"""Certificate signing requests: what a node asks to be certified as, and the asking itself.

A request names what it is for; somebody approves it, and a signer puts the certificate into its status.
"""

import asyncio
import base64
import binascii
import hashlib
import ipaddress
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.node import NodeAddress
from pykubelet.api.rules.well_known import CLIENT_SIGNER, SERVING_SIGNER
from pykubelet.api.struct import Struct
from pykubelet.base.errors import Conflict, Invalid, NotFound, Retry
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.errors import AlreadyExists, BadAnswer
from pykubelet.web.authority import general_name
from pykubelet.web.certificates import hosts

log = logging.getLogger(__name__)

_PURPOSES: Final = {CLIENT_SIGNER: "client auth", SERVING_SIGNER: "server auth"}

_GROUP: Final = "certificates.k8s.io/v1"
_KIND: Final = "CertificateSigningRequest"
_SOONEST: Final = 1.0
_LATEST: Final = 10.0


class Template(Struct, frozen=True):
    """What a certificate is to say."""

    common_name: str
    organizations: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()


class SigningRequestSpec(Struct, frozen=True):
    request: str = ""
    """PEM, in base64."""
    signer_name: str = ""
    usages: tuple[str, ...] = ()


class SigningRequestCondition(Struct, frozen=True):
    type: str = ""
    reason: str = ""
    message: str = ""


class SigningRequestStatus(Struct, frozen=True):
    conditions: tuple[SigningRequestCondition, ...] = ()
    certificate: str = ""
    """PEM, in base64."""


class SigningRequest(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: SigningRequestSpec = SigningRequestSpec()
    status: SigningRequestStatus = SigningRequestStatus()


class Denied(Invalid):
    """Somebody decided that there shall be no certificate, or the signer could not make one."""


class Outdated(Conflict):
    """While the certificate was waited for, another one became wanted."""


# --- what is asked for


def node_template(node_name: str) -> Template:
    """The node as a client of the API server."""
    return Template(common_name=f"system:node:{node_name}", organizations=("system:nodes",))


def serving_template(node_name: str, addresses: Sequence[NodeAddress]) -> Template | None:
    """The node as a server, at its addresses. None while it has no IP address: no signer would take it."""
    names: set[str] = set()
    ips: set[str] = set()
    for each in addresses:
        ip = _ip(each.address)
        if ip:
            if each.type in ("Hostname", "InternalIP", "ExternalIP"):
                ips.add(ip)
        elif each.address and each.type in ("Hostname", "InternalDNS", "ExternalDNS"):
            names.add(each.address)
    if not ips:
        return None
    node = node_template(node_name)
    return Template(
        common_name=node.common_name,
        organizations=node.organizations,
        dns_names=tuple(sorted(names)),
        ips=tuple(sorted(ips)),
    )


def satisfies(certificate: x509.Certificate, template: Template) -> bool:
    """Whether it says all that the template wants. It may say more."""
    names = [each.value for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = {each.value for each in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
    return (
        names[-1:] == [template.common_name]
        and groups.issuperset(template.organizations)
        and hosts(certificate).issuperset(_general_names(template))
    )


def usages(signer: str) -> tuple[str, ...]:
    """Of an elliptic-curve key, which is all that we make: it encrypts no other keys."""
    return ("digital signature", _PURPOSES[signer])


def signing_request(key: ec.EllipticCurvePrivateKey, template: Template) -> bytes:
    """PEM."""
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in template.organizations]
    with warnings.catch_warnings(action="ignore"):  # a node's name may be longer than the standard's 64 characters
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, template.common_name, _validate=False))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if others := _general_names(template):
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def digested_name(key: ec.EllipticCurvePrivateKey, template: Template, signer: str) -> str:
    """The same for the same key and wish, so that an agent that was started again finds its request."""
    public = key.public_key()
    parts = [public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)]
    parts += [text.encode() for text in (template.common_name, *template.organizations, *usages(signer))]
    digest = hashlib.new("sha512_256", b"".join(_url64(part) + b"|" for part in parts)).digest()
    return f"node-csr-{_url64(digest).decode()}"


# --- asking


async def request_certificate(
    server: ApiClient, key: ec.EllipticCurvePrivateKey, template: Template, signer: str, *, name: str = ""
) -> SigningRequest:
    """Ask; with a name, an earlier request by that name and with this key will do. The server chooses a name else."""
    meta = ObjectMeta(name=name) if name else ObjectMeta(generate_name="csr-")
    request = SigningRequest(
        kind=_KIND,
        api_version=_GROUP,
        metadata=meta,
        spec=SigningRequestSpec(
            request=base64.b64encode(signing_request(key, template)).decode(),
            signer_name=signer,
            usages=usages(signer),
        ),
    )
    try:
        return await server.create(_path(), request, SigningRequest)
    except AlreadyExists:
        if not name:
            raise
        earlier = await server.get(_path(name), SigningRequest)
        _check_is_ours(earlier, request, key)
        log.info("the certificate signing request %s is there already, and is used", name)
        return earlier


async def wait_for_certificate(
    server: ApiClient, request: SigningRequest, *, is_wanted: Callable[[], bool] = lambda: True
) -> bytes:
    """Wait for the certificate; PEM. Raises Denied, NotFound when the request is gone, Outdated when not wanted."""
    name, pause = request.metadata.name, _SOONEST
    while True:
        try:
            seen = await server.get(_path(name), SigningRequest)
        except NotFound:
            raise NotFound(f"the certificate signing request {name} was deleted before it was answered") from None
        except Retry as error:
            log.info("the certificate signing request %s cannot be looked at: %s", name, error)
        else:
            if seen.metadata.uid != request.metadata.uid:
                raise NotFound(f"the certificate signing request {name} was replaced by another one")
            if certificate := _answer(seen):
                return certificate
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LATEST)
        if not is_wanted():
            raise Outdated(f"what the certificate signing request {name} asks for is not wanted any more")


def _answer(request: SigningRequest) -> bytes:
    name, is_approved = request.metadata.name, False
    for each in request.status.conditions:
        why = ": ".join(part for part in (each.reason, each.message) if part) or "no reason is given"
        if each.type == "Denied":
            raise Denied(
                f"the certificate signing request {name} was denied ({why}); "
                f"to ask again, remove it: kubectl delete csr {name}"
            )
        if each.type == "Failed":
            raise Denied(f"the signer failed on the certificate signing request {name} ({why})")
        is_approved = is_approved or each.type == "Approved"
    return _decoded(request.status.certificate, name) if is_approved and request.status.certificate else b""


def _check_is_ours(earlier: SigningRequest, request: SigningRequest, key: ec.EllipticCurvePrivateKey) -> None:
    name = request.metadata.name
    problem = f"the certificate signing request {name} exists and is not ours; remove it: kubectl delete csr {name}"
    try:
        theirs = x509.load_pem_x509_csr(_decoded(earlier.spec.request, name))
        ours = x509.load_pem_x509_csr(_decoded(request.spec.request, name))
        is_same_key = theirs.is_signature_valid and theirs.public_key() == key.public_key()
    except ValueError:
        raise Invalid(problem) from None
    if not is_same_key or theirs.subject != ours.subject or earlier.spec.signer_name != request.spec.signer_name:
        raise Invalid(problem)


def _general_names(template: Template) -> list[x509.GeneralName]:
    return [general_name(each) for each in (*template.dns_names, *template.ips)]


def _path(name: str = "") -> str:
    return object_path("certificatesigningrequests", name=name, group=_GROUP)


def _decoded(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadAnswer(f"the certificate signing request {name} holds something that is not base64") from None


def _url64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""

"""A certificate authority for tests, and the TLS contexts of servers that use it."""

import base64
import datetime
import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates for servers and clients."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = _builder(self._name, self._name, self._key.public_key(), _now() + 10 * _DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        self.pem = _pem(builder.sign(self._key, hashes.SHA256()))

    def issue(
        self,
        name: str,
        *,
        organizations: Sequence[str] = (),
        hosts: Sequence[str] = (),
        raw_names: bytes = b"",
        expires: datetime.datetime | None = None,
    ) -> Issued:
        """A certificate for a server that answers to `hosts`, or without any for a client, with names that need not
        even be such."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self._name, key.public_key(), expires or _now() + 5 * _DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        if raw_names:
            odd = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, raw_names)
            builder = builder.add_extension(odd, critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Issued(_pem(builder.sign(self._key, hashes.SHA256())), private)


def server_context(issued: Issued, *, clients: Authority | None = None, required: bool = False) -> ssl.SSLContext:
    """TLS of a server; with `clients`, one that looks at client certificates and, if `required`, insists on them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    descriptor = os.memfd_create("server")
    try:
        os.write(descriptor, issued.certificate + issued.key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    if clients is not None:
        context.load_verify_locations(cadata=clients.pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, expires: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(expires - 20 * _DAY)
        .not_valid_after(expires)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def node_request_spec(
    key: ec.EllipticCurvePrivateKey, signer: str, node: str, organization: str, hosts: Sequence[x509.GeneralName]
) -> dict[str, Any]:
    """Of the CertificateSigningRequest by which a kubelet asks `kubernetes.io/<signer>` for a certificate."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)]
    names.append(x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return {
        "request": base64.b64encode(pem).decode(),
        "signerName": f"kubernetes.io/{signer}",
        "usages": ["digital signature", "client auth" if "client" in signer else "server auth"],
    }

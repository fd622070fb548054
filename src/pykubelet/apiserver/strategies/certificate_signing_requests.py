"""Certificate signing requests: who asks is written down, and from where, and each part of the answer has its own way
in."""

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from pykubelet.api.field_errors import FieldError, invalid, required
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.users import MASTERS, User
from pykubelet.apiserver.strategies.base import Lookup, Strategy, keep, keep_all_but

SOURCE_ANNOTATION: Final = "pykubelet.dev/source-address"
"""The address that the request came from, in the words of this server: whatever a client writes there is replaced."""
_API_CLIENTS: Final = "kubernetes.io/kube-apiserver-client"
_REQUEST: Final = b"-----BEGIN CERTIFICATE REQUEST-----"
_SHORTEST: Final = 600


class CertificateSigningRequestStrategy(Strategy):
    selectable = {"spec.signerName": "spec.signerName"}

    def name_faults(self, name: str) -> Iterable[str]:
        """Whatever can stand in a path: kubelets name a request by the digest of its key, in base64."""
        if name in (".", ".."):
            yield f"may not be '{name}'"
        for letter in "/%\0":
            if letter in name:
                yield f"may not contain {letter!r}"

    def attribute(self, obj: Object, user: User) -> None:
        spec = {
            key: value
            for key, value in obj.get("spec", {}).items()
            if key not in ("username", "uid", "groups", "extra")
        }
        obj["spec"] = {**spec, **user.info()}
        annotations = {**at(obj, "metadata.annotations", {}), SOURCE_ANNOTATION: user.address}
        obj["metadata"]["annotations"] = annotations

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        if (
            old is None
            and at(obj, "spec.signerName") == _API_CLIENTS
            and MASTERS in _groups(at(obj, "spec.request", ""))
        ):
            why = f"use of {_API_CLIENTS} signer with {MASTERS} group is not allowed"
            raise status.forbidden(self.resource.plural, at(obj, "metadata.name", ""), why, self.resource.group)
        for condition in at(obj, "status.conditions", ()) if subresource else ():
            for name in ("lastUpdateTime", "lastTransitionTime"):
                condition[name] = condition.get(name) or rfc3339(lookup.now())

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        if subresource == "approval":
            conditions = at(obj, "status.conditions", [])
            keep_all_but(obj, old, ())
            obj["status"] = {**old.get("status", {}), "conditions": conditions}
            return
        if subresource == "status":
            super().prepare_update(obj, old, subresource)
            return
        keep(obj, old, "spec")
        keep(obj, old, "status")
        annotations = {**at(obj, "metadata.annotations", {})}
        annotations.pop(SOURCE_ANNOTATION, None)
        if source := at(old, "metadata.annotations", {}).get(SOURCE_ANNOTATION):
            annotations[SOURCE_ANNOTATION] = source
        if annotations or "annotations" in obj["metadata"]:
            obj["metadata"]["annotations"] = annotations

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        if _REQUEST not in _decoded(at(obj, "spec.request", "")):
            yield invalid("spec.request", at(obj, "spec.request", ""), "PEM block type must be CERTIFICATE REQUEST")
        if not at(obj, "spec.usages"):
            yield required("spec.usages", "usages must be provided")
        signer = at(obj, "spec.signerName", "")
        if not signer:
            yield required("spec.signerName", "")
        elif "/" not in signer.strip("/"):
            detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
            yield invalid("spec.signerName", signer, detail)
        seconds = at(obj, "spec.expirationSeconds")
        if seconds is not None and seconds < _SHORTEST:
            yield invalid(
                "spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)"
            )


def _groups(text: str) -> list[str | bytes]:
    """Of whom the certificate would be for."""
    try:
        subject = x509.load_pem_x509_csr(_decoded(text)).subject
    except ValueError:
        return []  # nobody can sign it
    return [each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""

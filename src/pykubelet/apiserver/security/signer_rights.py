"""Who may approve and sign certificate requests: beside the right to write there, one for the signer that is meant."""

from collections.abc import Iterator
from typing import Final

from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.request_info import RequestInfo

_GROUP: Final = "certificates.k8s.io"
_VERBS: Final = {"approval": "approve", "status": "sign"}


def right_to(info: RequestInfo, body: Object, live: Object) -> str:
    """The right that a change of a certificate request takes; empty: none."""
    if (info.group, info.resource) != (_GROUP, "certificatesigningrequests"):
        return ""
    answers = ("status.certificate", "status.conditions")
    if info.subresource == "status" and all(at(body, path) == at(live, path) for path in answers):
        return ""
    return _VERBS.get(info.subresource, "")


def signer_rights(verb: str, signer: str) -> Iterator[RequestInfo]:
    """Any one of them will do: for this signer, or for all of its domain."""
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        yield RequestInfo(
            verb, "", is_resource=True, group=_GROUP, version="*", resource="signers", namespace="", name=name
        )

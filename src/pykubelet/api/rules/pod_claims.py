"""Which claims on devices a pod means: the one that it names, or the one that was made for it from a template."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec


class PodClaim(msgspec.Struct, frozen=True):
    name: str
    """What the containers of the pod call it."""
    claim: str = ""
    """The object; empty: there is none, because it is still to be made, or because none is needed."""
    template: str = ""
    """What it is made from; empty: it is there without the pod, and may be others' as well."""
    is_awaited: bool = False
    """Whether it is still to be made."""


def pod_claims(pod: Mapping[str, Any]) -> Iterator[PodClaim]:
    """`pod` is plain JSON."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    made = {each.get("name"): each.get("resourceClaimName") or "" for each in status.get("resourceClaimStatuses") or ()}
    for each in spec.get("resourceClaims") or ():
        name, template = each.get("name", ""), each.get("resourceClaimTemplateName") or ""
        if each.get("resourceClaimName"):
            yield PodClaim(name, each["resourceClaimName"])
        elif template:
            yield PodClaim(name, made.get(name, ""), template, name not in made)

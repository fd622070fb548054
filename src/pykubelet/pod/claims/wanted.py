"""Which claims a pod uses and which of their devices each container gets; and whether a claim may be used at all."""

from collections.abc import Iterator

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod, PodResourceClaim
from pykubelet.api.resource_claims import DeviceClaim
from pykubelet.api.validation.resources import is_extended
from pykubelet.pod.claims.failures import ClaimFailed


class PodClaim(Struct, frozen=True):
    """One that a pod uses."""

    name: str
    """Of the object."""
    called: str = ""
    """By the pod's containers; empty: it stands for extended resources, and they need no name for it."""
    is_own: bool = False
    """It was made for this pod."""


class ClaimUse(Struct, frozen=True):
    """What one container has of a claim."""

    name: str
    request: str = ""
    """Empty: the devices of all requests."""
    called: str = ""


def pod_claims(pod: Pod, *, extended: bool = False) -> Iterator[PodClaim]:
    """Claims that were left out because nobody needs them are left out here, too. `extended`: whether claims may stand
    for extended resources. Raises ClaimFailed for one that is still to be made."""
    for claim in pod.spec.resource_claims:
        found = _named(pod, claim)
        if found is not None:
            yield found
    status = pod.status.extended_resource_claim_status
    if extended and status is not None:
        yield PodClaim(status.resource_claim_name)


def _named(pod: Pod, claim: PodResourceClaim) -> PodClaim | None:
    if claim.resource_claim_name is not None:
        return PodClaim(claim.resource_claim_name, claim.name)
    who = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if claim.resource_claim_template_name is None:
        told = f'{who}, spec.resourceClaim "{claim.name}": none of the supported fields are set'
        raise ClaimFailed(told, claim=claim.name)
    for status in pod.status.resource_claim_statuses:
        if status.name == claim.name:
            name = status.resource_claim_name
            return PodClaim(name, claim.name, is_own=True) if name is not None else None
    raise ClaimFailed(f"{who}: ResourceClaim not created yet", claim=claim.name)


def check_claim(pod: Pod, used: PodClaim, claim: DeviceClaim) -> None:
    """Whether the pod may use it now. Raises ClaimFailed."""
    meta, mine = claim.metadata, pod.metadata
    if used.is_own and not _is_controlled_by(claim, mine.uid):
        told = f"ResourceClaim {meta.namespace}/{meta.name} was not created for pod {mine.namespace}/{mine.name}"
        raise ClaimFailed(f"{told} (pod is not owner)", claim=meta.name)
    if all(each.uid != mine.uid for each in claim.status.reserved_for):
        told = f"pod {mine.name} ({mine.uid}) is not allowed to use ResourceClaim {meta.name} ({meta.uid})"
        raise ClaimFailed(told, claim=meta.name)
    if claim.status.allocation is None:
        raise ClaimFailed(f"ResourceClaim {meta.name}: not allocated", claim=meta.name)


def _is_controlled_by(claim: DeviceClaim, uid: str) -> bool:
    return any(each.controller and each.uid == uid for each in claim.metadata.owner_references)


def container_claims(pod: Pod, container: Container, *, extended: bool = False) -> Iterator[ClaimUse]:
    """In the order of the pod's claims. Raises ClaimFailed."""
    for claim in pod_claims(pod):
        for use in container.resources.claims:
            if use.name == claim.called:
                yield ClaimUse(claim.name, use.request, claim.called)
    status = pod.status.extended_resource_claim_status
    if not extended or status is None:
        return
    for mapping in status.request_mappings:
        asked = container.resources.requests.get(mapping.resource_name)
        if mapping.container_name == container.name and asked and is_extended(mapping.resource_name):
            yield ClaimUse(status.resource_claim_name, mapping.request_name)

"""Which claims a pod uses, who of its containers gets what, and which claims it may not use."""

from typing import Any

import pytest

from kit.dra_driver import claim
from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.claims.wanted import ClaimUse, PodClaim, check_claim, container_claims, pod_claims

EXTENDED = {
    "resourceClaimName": "extended-x",
    "requestMappings": [
        {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"},
        {"containerName": "c", "resourceName": "example.com/none", "requestName": "container-0-request-1"},
    ],
}


def pod(wanted: list[dict[str, Any]], status: dict[str, Any] | None = None, **resources: Any) -> Pod:
    made = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": "c", "resources": resources}], "resourceClaims": wanted},
        "status": status or {},
    }
    return codec.convert(Pod, made)


DIRECT = {"name": "gpu", "resourceClaimName": "one"}
TEMPLATE = {"name": "own", "resourceClaimTemplateName": "t"}
MADE = {"resourceClaimStatuses": [{"name": "own", "resourceClaimName": "p-own-x1"}]}


def test_claims_are_named_by_the_pod_or_by_its_status() -> None:
    wanted = pod([DIRECT, TEMPLATE], MADE)
    assert list(pod_claims(wanted)) == [PodClaim("one", "gpu"), PodClaim("p-own-x1", "own", is_own=True)]
    assert list(pod_claims(pod([TEMPLATE], {"resourceClaimStatuses": [{"name": "own"}]}))) == []  # nobody needs it
    extended = pod([], {"extendedResourceClaimStatus": EXTENDED})
    assert list(pod_claims(extended)) == []
    assert list(pod_claims(extended, extended=True)) == [PodClaim("extended-x")]


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ([TEMPLATE], 'pod "default/p": ResourceClaim not created yet'),
        ([{"name": "x"}], 'pod "default/p", spec.resourceClaim "x": none of the supported fields are set'),
    ],
)
def test_a_claim_that_is_not_there_yet(claims: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(ClaimFailed) as failed:
        list(pod_claims(pod(claims)))
    assert (str(failed.value), failed.value.claim) == (told, claims[0]["name"])


def test_which_containers_get_what() -> None:
    uses = [{"name": "own", "request": "r"}, {"name": "gpu"}, {"name": "nobody's"}]
    wanted = pod([DIRECT, TEMPLATE], MADE, claims=uses)
    found = list(container_claims(wanted, wanted.spec.containers[0]))
    assert found == [ClaimUse("one", "", "gpu"), ClaimUse("p-own-x1", "r", "own")]
    extended = pod([], {"extendedResourceClaimStatus": EXTENDED}, requests={"example.com/gpu": "2", "cpu": "1"})
    (container,) = extended.spec.containers
    assert list(container_claims(extended, container)) == []
    (use,) = container_claims(extended, container, extended=True)
    assert use == ClaimUse("extended-x", "container-0-request-0")
    other = changed(container, name="d")
    assert list(container_claims(extended, other, extended=True)) == []


def test_whether_a_claim_may_be_used() -> None:
    wanted, shared, own = pod([]), PodClaim("one", "gpu"), PodClaim("one", "own", is_own=True)
    check_claim(wanted, shared, claim("one", "other", "u"))
    check_claim(wanted, own, claim("one", "u", owner="u"))
    unallocated = claim("one", "u")
    unallocated = changed(unallocated, status=changed(unallocated.status, allocation=None))
    for used, found, told in (
        (own, claim("one", "u", owner="v"), "default/one was not created for pod default/p (pod is not owner)"),
        (own, claim("one", "u"), "default/one was not created for pod default/p (pod is not owner)"),
        (shared, claim("one", "other"), "pod p (u) is not allowed to use ResourceClaim one (uid-one)"),
        (shared, unallocated, "ResourceClaim one: not allocated"),
    ):
        with pytest.raises(ClaimFailed) as failed:
            check_claim(wanted, used, found)
        assert str(failed.value).endswith(told)
        assert failed.value.claim == "one"

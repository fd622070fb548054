"""Which volume is behind a claim, and why it cannot be told."""

from typing import Any

import pytest

from pykubelet.base.errors import NotFound, Retry
from pykubelet.kube.claims import KubeClaims
from unit.kube.test_runtime_classes import Server

CLAIM = "/api/v1/namespaces/default/persistentvolumeclaims/c"
VOLUME = "/api/v1/persistentvolumes/v"


def claim(**more: Any) -> dict[str, Any]:
    found = {"metadata": {"name": "c", "uid": "u"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}
    return {**found, **more}


def volume(uid: str = "u") -> dict[str, Any]:
    ref = {"namespace": "default", "name": "c", "uid": uid}
    return {"metadata": {"name": "v"}, "spec": {"claimRef": ref, "hostPath": {"path": "/srv"}}}


async def test_a_claim_leads_to_its_volume() -> None:
    server = Server()
    server.objects = {CLAIM: claim(), VOLUME: volume()}
    async with server.client() as client:
        found = await KubeClaims(client).claimed("default", "c")
    assert found.volume.spec.host_path is not None
    assert found.volume.spec.host_path.path == "/srv"


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        ({CLAIM: claim(status={"phase": "Pending"})}, "error processing PVC default/c: PVC is not bound"),
        ({CLAIM: claim(spec={})}, "PVC is not bound"),
        ({CLAIM: claim(metadata={"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"})}, "PVC is being deleted"),
        ({CLAIM: claim(), VOLUME: volume("other")}, "PV v is bound to a different PVC"),
    ],
)
async def test_one_that_cannot_be_used_says_why_and_is_asked_again(objects: dict[str, Any], told: str) -> None:
    server = Server()
    server.objects = objects
    async with server.client() as client:
        with pytest.raises(Retry, match=told) as raised:
            await KubeClaims(client).claimed("default", "c")
    assert raised.value.after


async def test_one_that_is_not_there_is_told() -> None:
    server = Server()
    async with server.client() as client:
        with pytest.raises(NotFound, match="error processing PVC default/c: failed to fetch PVC from API server"):
            await KubeClaims(client).claimed("default", "c")


@pytest.mark.parametrize("name", ["../../kube-system/persistentvolumeclaims/c", "..", "a%2fb"])
async def test_a_name_that_would_lead_to_another_namespace_is_refused(name: str) -> None:
    server = Server()
    server.objects = {CLAIM.replace("default", "kube-system"): claim(), VOLUME: volume()}
    async with server.client() as client:
        with pytest.raises(Retry, match="cannot be the name of an object"):
            await KubeClaims(client).claimed("default", name)

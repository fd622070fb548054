"""What is in use stays until it is not."""

import asyncio
from typing import Any

import pytest

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.client import CLAIMS, PODS, VOLUMES, Kind
from pykubelet.apiserver.controllers.protection import CLAIM, CLASSES, Protection, is_used

CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def pod(namespace: str = "default", phase: str = "Running", node: str = "n1", **volume: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": namespace, "uid": "u", **volume.pop("metadata", {})}
    spec = {"volumes": [{"name": "v", **volume}], "nodeName": node}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def owned(uid: str) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    return {"metadata": {"name": "p-v", "namespace": "default", "ownerReferences": [owner]}}


SHUT_DOWN = {"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 0}
MOUNTED: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "c"}}


@pytest.mark.parametrize(
    ("kind", "obj", "users", "expected"),
    [
        (CLAIMS, {"metadata": {"name": "c", "namespace": "default"}}, {PODS: [pod(**MOUNTED)]}, True),
        (CLAIMS, {"metadata": {"name": "c", "namespace": "default"}}, {PODS: [pod("other", **MOUNTED)]}, False),
        (CLAIMS, {"metadata": {"name": "c", "namespace": "default"}}, {PODS: [pod(phase="Failed", **MOUNTED)]}, True),
        (CLAIMS, {"metadata": {"name": "c", "namespace": "default"}}, {PODS: [pod(node="", **MOUNTED)]}, False),
        (CLAIMS, owned("u"), {PODS: [pod(ephemeral={})]}, True),
        (CLAIMS, owned("another"), {PODS: [pod(ephemeral={})]}, False),
        (CLAIMS, owned("u"), {PODS: [pod(ephemeral={}, metadata=SHUT_DOWN)]}, False),
        (VOLUMES, {"metadata": {"name": "v"}, "status": {"phase": "Bound"}}, {}, True),
        (VOLUMES, {"metadata": {"name": "v"}, "status": {"phase": "Released"}}, {}, False),
        (CLASSES, {"metadata": {"name": "k"}}, {CLAIMS: [{"spec": {"volumeAttributesClassName": "k"}}]}, True),
        (CLASSES, {"metadata": {"name": "k"}}, {CLAIMS: [{"spec": {}}], VOLUMES: []}, False),
    ],
)
def test_who_uses_what(kind: Kind, obj: dict[str, Any], users: dict[Kind, list[Any]], expected: bool) -> None:
    assert is_used(kind, obj, users) == expected


@virtual_time
async def test_a_claim_goes_after_the_last_pod_that_mounts_it() -> None:
    async with cluster() as c, running(Protection(c, CLAIM)):
        await c.create(CLAIMS, {"metadata": {"name": "c", "namespace": "default"}, "spec": CLAIM_SPEC})
        mounting = await c.pod("p", spec={"nodeName": "n1", "volumes": [{"name": "v", **MOUNTED}]})
        await c.remove(CLAIMS, await c.get("persistentvolumeclaims", "c"))
        await asyncio.sleep(2)
        assert "deletionTimestamp" in (await c.get("persistentvolumeclaims", "c"))["metadata"]
        await c.remove(PODS, mounting, grace=0)
        await asyncio.sleep(2)
        assert await c.all(CLAIMS) == []

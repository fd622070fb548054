"""Claims that ask for more get it from us at once, and of others' volumes people are told who sees to it."""

import asyncio
from typing import Any

from kit.cluster import TestCluster, cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.client import CLAIMS, Kind
from pykubelet.apiserver.controllers.volumes.expansion import Expander

CLASSES: Kind = ("storage.k8s.io", "storageclasses")
OURS = "pykubelet.io/host-path"


async def bound(c: TestCluster, name: str, source: dict[str, Any], maker: str = "", *, grows: bool = True) -> None:
    """A claim of 1Gi with its volume."""
    await c.make(CLASSES, {"metadata": {"name": name}, "provisioner": "x.io/y", "allowVolumeExpansion": grows})
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": name}
    spec = {**modes, "volumeName": f"pv-{name}", "resources": {"requests": {"storage": "1Gi"}}}
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    claim = {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}
    uid = (await c.add("", "persistentvolumeclaims", claim))["metadata"]["uid"]
    whole = {**modes, "capacity": {"storage": "1Gi"}, **source}
    whole["claimRef"] = {"namespace": "default", "name": name, "uid": uid}
    notes = {"annotations": {"pv.kubernetes.io/provisioned-by": maker}} if maker else {}
    await c.add("", "persistentvolumes", {"metadata": {"name": f"pv-{name}", **notes}, "spec": whole})


async def ask(c: TestCluster, name: str, size: str) -> bool:
    """Whether it may."""
    found = await c.get("persistentvolumeclaims", name)
    more = {**found["spec"], "resources": {"requests": {"storage": size}}}
    changed = await c.change(CLAIMS, found, lambda live: {**live, "spec": more})
    await asyncio.sleep(1)
    return changed is not None


async def sizes(c: TestCluster, name: str) -> tuple[str, str]:
    """Of the claim as it says, and of its volume."""
    claim, volume = await c.get("persistentvolumeclaims", name), await c.get("persistentvolumes", f"pv-{name}", "")
    return claim["status"]["capacity"]["storage"], volume["spec"]["capacity"]["storage"]


@virtual_time
async def test_a_folder_grows_at_once() -> None:
    async with cluster() as c, running(Expander(c, OURS)):
        await bound(c, "ours", {"hostPath": {"path": "/x"}}, OURS)
        assert await ask(c, "ours", "5Gi")
        assert await sizes(c, "ours") == ("5Gi", "5Gi")
        assert await c.events() == [("VolumeResizeSuccessful", "ExpandVolume succeeded for volume default/ours")]
        assert not await ask(c, "ours", "4Gi")


@virtual_time
async def test_others_volumes_are_for_others_and_that_is_said_once() -> None:
    async with cluster() as c, running(Expander(c, OURS)):
        await bound(c, "csi", {"csi": {"driver": "disk.example.com", "volumeHandle": "h"}}, "disk.example.com")
        await bound(c, "by-hand", {"nfs": {"server": "s", "path": "/"}})
        for name in ("csi", "by-hand"):
            assert await ask(c, name, "2Gi")
            await c.label(CLAIMS, await c.get("persistentvolumeclaims", name), a="b")
            await asyncio.sleep(1)
            assert await sizes(c, name) == ("1Gi", "1Gi")
        waiting = ("ExternalExpanding", "waiting for an external controller to expand this PVC")
        assert await c.events() == [waiting, waiting]
        assert await ask(c, "csi", "3Gi")
        assert sum(each["count"] for each in await c.all(("", "events"))) == 3
        assert await ask(c, "csi", "2Gi"), "what failed is asked for anew, with less"
        assert not await ask(c, "csi", "1Gi")


@virtual_time
async def test_a_class_that_does_not_let_claims_grow_is_heeded() -> None:
    async with cluster() as c, running(Expander(c, OURS)):
        await bound(c, "fixed", {"hostPath": {"path": "/x"}}, OURS, grows=False)
        assert not await ask(c, "fixed", "5Gi")
        assert await sizes(c, "fixed") == ("1Gi", "1Gi")


@virtual_time
async def test_a_volume_that_is_kept_for_another_claim_does_not_grow() -> None:
    async with cluster() as c, running(Expander(c, OURS)):
        await bound(c, "ours", {"hostPath": {"path": "/x"}}, OURS)
        found = await c.get("persistentvolumes", "pv-ours", "")
        other = {**found["spec"], "claimRef": {**found["spec"]["claimRef"], "uid": "another"}}
        await c.change(("", "persistentvolumes"), found, lambda live: {**live, "spec": other})
        assert await ask(c, "ours", "5Gi")
        assert await sizes(c, "ours") == ("1Gi", "1Gi")

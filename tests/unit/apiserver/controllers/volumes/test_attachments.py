"""Volumes are attached where pods need them, by their driver's attacher, and detached once nobody has them mounted."""

import asyncio
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.client import CLAIMS, NODES, PODS, VOLUMES
from pykubelet.apiserver.controllers.volumes import attach_rules as rules
from pykubelet.apiserver.controllers.volumes.attach_rules import Host
from pykubelet.apiserver.controllers.volumes.attachments import ATTACHMENTS, AttachDetach

DRIVER = "disk.example.com"
NAME = f"kubernetes.io/csi/{DRIVER}^vol-1"
MANAGED = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}


async def node(c: TestCluster, name: str, annotations: dict[str, str] = MANAGED, **status: Any) -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    await c.add(
        "",
        "nodes",
        {"metadata": {"name": name, "annotations": annotations}, "status": {"conditions": conditions, **status}},
    )


async def volume(c: TestCluster, mode: str = "ReadWriteOnce", *, own: str = "") -> None:
    """One that is bound to the claim `c`."""
    owner = [{"apiVersion": "v1", "kind": "Pod", "name": own, "uid": f"uid-of-{own}", "controller": True}]
    metadata = {
        "name": f"{own}-v" if own else "c",
        "namespace": "default",
        **({"ownerReferences": owner} if own else {}),
    }
    spec = {"accessModes": [mode], "volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}}
    await c.add("", "persistentvolumeclaims", {"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}})
    ref = {"namespace": "default", "name": metadata["name"], "uid": f"uid-of-{metadata['name']}"}
    source = {"driver": DRIVER, "volumeHandle": "vol-1"}
    whole = {"capacity": {"storage": "1Gi"}, "accessModes": [mode], "claimRef": ref, "csi": source}
    await c.add("", "persistentvolumes", {"metadata": {"name": "pv"}, "spec": whole})


async def pod(c: TestCluster, name: str, where: str, **more: Any) -> None:
    claimed = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    await c.pod(name, {"nodeName": where, "volumes": more.pop("volumes", [claimed])}, **more)


async def attachments(c: TestCluster) -> dict[str, dict[str, Any]]:
    return {each["spec"]["nodeName"]: each for each in await c.all(ATTACHMENTS)}


async def attach(c: TestCluster, where: str, **status: Any) -> None:
    """What the external attacher does."""
    found = (await attachments(c))[where]
    status = status or {"attached": True}
    await c.change(ATTACHMENTS, found, lambda live: {**live, "status": status}, part="status")
    await asyncio.sleep(1)


async def says(c: TestCluster, where: str, **status: Any) -> None:
    """What a node does with its status."""

    def told(live: dict[str, Any]) -> dict[str, Any]:
        return {**live, "status": {**live["status"], **status}}

    await c.change(NODES, await c.get("nodes", where, ""), told, part="status")
    await asyncio.sleep(1)


async def attached(c: TestCluster, where: str) -> list[str]:
    return [each["name"] for each in (await c.get("nodes", where, ""))["status"].get("volumesAttached", ())]


@virtual_time
async def test_a_volume_is_attached_reported_and_detached_when_its_node_has_unmounted_it() -> None:
    async with cluster() as c, running(AttachDetach(c)):
        await node(c, "n1")
        await volume(c)
        await asyncio.sleep(1)
        assert not await attachments(c)
        await pod(c, "p", "n1")
        await asyncio.sleep(1)
        made = (await attachments(c))["n1"]
        assert made["metadata"]["name"] == "csi-67beaef07640111ae4680dbb1618fdc2d7e8b400988a31892dc9e25a33572edd"
        assert made["spec"] == {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "pv"}}
        assert await attached(c, "n1") == []
        await attach(c, "n1")
        assert await attached(c, "n1") == [NAME]
        assert ("SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "pv" ') in await c.events()
        await says(c, "n1", volumesInUse=[NAME])
        await c.remove(PODS, await c.get("pods", "p"), grace=0)
        await asyncio.sleep(700)
        assert await attachments(c), "it is mounted, and its node is well"
        await says(c, "n1", volumesInUse=[])
        assert (await attachments(c), await attached(c, "n1")) == ({}, [])
        assert [reason for reason, _ in await c.events()] == ["SuccessfulAttachVolume"]


@virtual_time
async def test_what_only_one_node_may_have_waits_for_the_other_and_says_so_once() -> None:
    async with cluster() as c, running(AttachDetach(c)):
        for name in ("n1", "n2"):
            await node(c, name)
        await volume(c)
        await pod(c, "first", "n1")
        await asyncio.sleep(1)
        await attach(c, "n1")
        await says(c, "n1", volumesInUse=[NAME])
        await pod(c, "second", "n2")
        await asyncio.sleep(200)
        assert list(await attachments(c)) == ["n1"]
        told = [text for reason, text in await c.events() if reason == "FailedAttachVolume"]
        assert told == ['Multi-Attach error for volume "pv" Volume is already used by pod(s) first']
        await c.remove(PODS, await c.get("pods", "first"), grace=0)
        await asyncio.sleep(5)
        assert [text for reason, text in await c.events() if reason == "FailedAttachVolume"] == told
        await says(c, "n1", volumesInUse=[])
        await asyncio.sleep(1)
        assert list(await attachments(c)) == ["n2"]


@pytest.mark.parametrize("mode", ["ReadWriteMany", "ReadOnlyMany"])
@virtual_time
async def test_what_is_shared_is_attached_to_all(mode: str) -> None:
    async with cluster() as c, running(AttachDetach(c)):
        await volume(c, mode)
        for name in ("n1", "n2"):
            await node(c, name)
            await pod(c, f"on-{name}", name)
        await asyncio.sleep(1)
        assert sorted(await attachments(c)) == ["n1", "n2"]


@virtual_time
async def test_what_nobody_has_to_attach_is_left_alone() -> None:
    async with cluster() as c, running(AttachDetach(c)):
        await c.add("storage.k8s.io", "csidrivers", {"metadata": {"name": DRIVER}, "spec": {"attachRequired": False}})
        await volume(c)
        await node(c, "n1")
        await node(c, "by-itself", {})
        await pod(c, "p", "n1")
        source = {"persistentVolumeName": "another"}
        spec = {"attacher": "other.example.com", "nodeName": "n1", "source": source}
        await c.add("storage.k8s.io", "volumeattachments", {"metadata": {"name": "theirs"}, "spec": spec})
        await asyncio.sleep(400)
        assert [each["metadata"]["name"] for each in await c.all(ATTACHMENTS)] == ["theirs"]
        await c.remove(("storage.k8s.io", "csidrivers"), (await c.all(("storage.k8s.io", "csidrivers")))[0])
        await pod(c, "elsewhere", "by-itself")
        await asyncio.sleep(1)
        assert sorted(each["spec"]["nodeName"] for each in await c.all(ATTACHMENTS)) == ["n1", "n1"]


@virtual_time
async def test_a_volume_of_its_own_is_attached_for_its_pod_and_nobody_else() -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    async with cluster() as c, running(AttachDetach(c)):
        await node(c, "n1")
        await volume(c, own="other")
        await pod(c, "p", "n1", volumes=volumes)
        await asyncio.sleep(1)
        assert not await attachments(c)
        await pod(c, "other", "n1", volumes=volumes)
        await asyncio.sleep(1)
        assert list(await attachments(c)) == ["n1"]


@virtual_time
async def test_a_pod_is_told_why_its_volume_is_not_attached() -> None:
    async with cluster() as c, running(AttachDetach(c)):
        await node(c, "n1")
        await volume(c)
        await pod(c, "p", "n1")
        await asyncio.sleep(100)
        assert not await c.events()
        await asyncio.sleep(60)
        head = 'AttachVolume.Attach failed for volume "pv" : '
        nobody = f"{head}timed out waiting for external-attacher of {DRIVER} CSI driver to attach volume vol-1"
        assert await c.events() == [("FailedAttachVolume", nobody)]
        await attach(c, "n1", attached=False, attachError={"message": "no room", "time": "2026-01-02T03:04:05Z"})
        await asyncio.sleep(100)
        assert await c.events() == [("FailedAttachVolume", nobody), ("FailedAttachVolume", f"{head}no room")]


@virtual_time
async def test_a_volume_that_is_being_detached_is_attached_again_once_it_is() -> None:
    async with cluster() as c, running(AttachDetach(c)):
        await node(c, "n1")
        await volume(c)
        await pod(c, "p", "n1")
        await asyncio.sleep(1)
        (found,) = await c.all(ATTACHMENTS)
        held = {"finalizers": [f"external-attacher/{DRIVER}"]}
        await c.change(ATTACHMENTS, found, lambda live: {**live, "metadata": {**live["metadata"], **held}})
        await attach(c, "n1")
        await c.remove(PODS, await c.get("pods", "p"), grace=0)
        await asyncio.sleep(1)
        (found,) = await c.all(ATTACHMENTS)
        assert found["metadata"]["deletionTimestamp"]
        assert await attached(c, "n1") == []
        await pod(c, "q", "n1")
        await asyncio.sleep(5)
        assert len(await c.all(ATTACHMENTS)) == 1
        await c.change(ATTACHMENTS, found, lambda live: {**live, "metadata": {**live["metadata"], "finalizers": []}})
        await asyncio.sleep(1)
        (found,) = await c.all(ATTACHMENTS)
        assert "deletionTimestamp" not in found["metadata"]


@virtual_time
async def test_nothing_is_detached_while_something_cannot_be_read() -> None:
    """A claim that nobody understands may be that of the pod which needs the volume."""
    async with cluster() as c, running(AttachDetach(c)):
        await node(c, "n1")
        await volume(c)
        await pod(c, "p", "n1")
        await asyncio.sleep(1)
        key = c.resource(CLAIMS).key("default", "broken")
        revision = await c.store.create(key, b'{"kind": "PersistentVolumeClaim"')
        await c.remove(PODS, await c.get("pods", "p"), grace=0)
        await asyncio.sleep(100)
        assert await attachments(c)
        await c.store.delete(key, revision=revision)
        await asyncio.sleep(1)
        assert not await attachments(c)


@virtual_time
async def test_a_volume_that_has_gone_is_detached_by_what_its_node_says() -> None:
    async with cluster() as c, running(AttachDetach(c)):
        await node(c, "n1")
        await volume(c)
        await pod(c, "p", "n1")
        await asyncio.sleep(1)
        await attach(c, "n1")
        await says(c, "n1", volumesInUse=[NAME])
        found = await c.get("persistentvolumes", "pv", "")
        await c.remove(VOLUMES, found)
        await asyncio.sleep(5)
        assert await attached(c, "n1") == [NAME]
        await says(c, "n1", volumesInUse=[])
        assert not await attachments(c)


HOST = Host("n1", True, True, False, frozenset([NAME]), ())
UNWELL = Host("n1", True, False, False, frozenset([NAME]), ())


@pytest.mark.parametrize(
    ("node", "waited", "expected"),
    [
        (Host("n1", True, True, False, frozenset(), ()), 0, True),
        (HOST, 10_000, False),
        (UNWELL, 360, False),
        (UNWELL, 361, True),
        (Host("n1", True, False, True, frozenset([NAME]), ()), 0, True),
        (Host("n1", True, False, False, frozenset(), ()), 0, True),
        (None, 10, False),
        (None, 361, True),
    ],
)
def test_what_is_mounted_is_taken_only_from_a_node_that_is_long_unwell(
    node: Host | None, waited: float, expected: bool
) -> None:
    assert rules.may_detach(NAME, node, waited) == expected


def test_nobody_learns_the_names_of_pods_in_other_namespaces() -> None:
    def at(namespace: str, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": namespace}}

    mine = at("a", "me")
    head = 'Multi-Attach error for volume "pv" Volume is already '
    cases = {
        "used by pod(s) x, y": [at("a", "x"), at("a", "y")],
        "used by pod(s) x and 2 pod(s) in different namespaces": [at("a", "x"), at("b", "y"), at("c", "z")],
        "used by 1 pod(s) in different namespaces": [at("b", "y")],
        "exclusively attached to one node and can't be attached to another": [],
    }
    assert {rules.exclusive("pv", mine, users) for users in cases.values()} == {head + text for text in cases}


@pytest.mark.parametrize(
    ("status", "leaving", "needs"),
    [
        ({"phase": "Running"}, False, True),
        ({"phase": "Succeeded"}, False, False),
        ({"phase": "Running", "containerStatuses": [{"state": {"running": {"startedAt": None}}}]}, True, True),
        ({"phase": "Running", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}, True, False),
        ({"phase": "Running", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}, False, True),
    ],
)
def test_a_pod_needs_its_volumes_until_nothing_of_it_runs(status: dict[str, Any], leaving: bool, needs: bool) -> None:
    metadata = {
        "name": "p",
        "namespace": "default",
        **({"deletionTimestamp": "2026-01-02T03:04:05Z"} if leaving else {}),
    }
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    found = rules.holder({"metadata": metadata, "spec": {"nodeName": "n1", "volumes": volumes}, "status": status})
    assert (found is not None) == needs

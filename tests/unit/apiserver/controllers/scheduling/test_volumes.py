"""Where a pod's claims let it run: how many volumes a node can have, where they are, how much room there is, and whose
they are."""

import asyncio
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.client import CLAIMS
from pykubelet.apiserver.controllers.scheduling.fit import Place
from pykubelet.apiserver.controllers.scheduling.scheduler import Scheduler
from pykubelet.apiserver.controllers.scheduling.volume_limits import NodeVolumes
from pykubelet.apiserver.controllers.scheduling.volumes import PodVolumes, Storage
from pykubelet.apiserver.controllers.volumes import binding_rules

DRIVER = "disk.example.com"
STORAGE = "storage.k8s.io"


async def bound(c: TestCluster, name: str, mode: str = "ReadWriteOnce", **labels: str) -> None:
    """A claim with a volume of the driver."""
    spec = {"accessModes": [mode], "volumeName": f"pv-{name}", "resources": {"requests": {"storage": "1Gi"}}}
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    metadata = {"name": name, "namespace": "default", "annotations": done}
    await c.add("", "persistentvolumeclaims", {"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}})
    source = {"driver": DRIVER, "volumeHandle": f"h-{name}"}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": [mode], "csi": source}
    await c.add("", "persistentvolumes", {"metadata": {"name": f"pv-{name}", "labels": labels}, "spec": volume})


def using(*claims: str, **spec: Any) -> dict[str, Any]:
    return {"volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims], **spec}


async def limit(c: TestCluster, node: str, count: int) -> None:
    drivers = [{"name": DRIVER, "nodeID": node, "topologyKeys": None, "allocatable": {"count": count}}]
    await c.add(STORAGE, "csinodes", {"metadata": {"name": node}, "spec": {"drivers": drivers}})


async def told(c: TestCluster, name: str) -> tuple[str, str]:
    """The node of a pod, and why it has none."""
    pod = await c.get("pods", name)
    (why, *_) = pod["status"].get("conditions") or [{}]
    return pod["spec"].get("nodeName", ""), str(why.get("message", "")).partition(" preemption")[0]


@virtual_time
async def test_a_node_gets_no_more_volumes_of_a_driver_than_it_can_have() -> None:
    async with cluster() as c, running(Scheduler(c)):
        await c.node("n1")
        await limit(c, "n1", 2)
        for name in ("a", "b", "d", "e"):
            await bound(c, name)
        await c.pod("one", using("a", "b"))
        await asyncio.sleep(2)
        await c.pod("same", using("a"))
        await c.pod("more", using("d"))
        await c.pod("none")
        await asyncio.sleep(2)
        for name in ("one", "same", "none"):
            assert (await told(c, name))[0] == "n1", name
        assert await told(c, "more") == ("", "0/1 nodes are available: 1 node(s) exceed max volume count.")
        await c.node("n2")
        await asyncio.sleep(2)
        assert (await told(c, "more"))[0] == "n2"


@virtual_time
async def test_an_important_pod_drives_out_whoever_has_the_volumes() -> None:
    async with cluster() as c, running(Scheduler(c)):
        await c.node("n1")
        await limit(c, "n1", 1)
        await bound(c, "a")
        await bound(c, "b")
        await c.pod("low", using("a"))
        await asyncio.sleep(2)
        await c.pod("high", using("b", priority=100))
        await asyncio.sleep(2)
        assert (await c.get("pods", "low"))["metadata"]["deletionTimestamp"]
        assert (await c.get("pods", "high"))["status"]["nominatedNodeName"] == "n1"
        await c.remove(("", "pods"), await c.get("pods", "low"), grace=0)
        await asyncio.sleep(2)
        assert (await told(c, "high"))[0] == "n1"


@virtual_time
async def test_an_important_pod_takes_a_volume_for_one_pod_from_another() -> None:
    async with cluster() as c, running(Scheduler(c)):
        for name in ("n1", "n2"):
            await c.node(name)
        await bound(c, "a", "ReadWriteOncePod")
        await c.pod("low", using("a"))
        await asyncio.sleep(2)
        where, _ = await told(c, "low")
        await c.pod("equal", using("a"))
        await asyncio.sleep(2)
        why = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use"
        assert await told(c, "equal") == ("", f"0/2 nodes are available: 2 {why} by another pod.")
        assert "deletionTimestamp" not in (await c.get("pods", "low"))["metadata"]
        await c.pod("high", using("a", priority=100))
        await asyncio.sleep(2)
        assert (await c.get("pods", "low"))["metadata"]["deletionTimestamp"]
        assert (await c.get("pods", "high"))["status"]["nominatedNodeName"] == where
        await c.remove(("", "pods"), await c.get("pods", "low"), grace=0)
        await asyncio.sleep(2)
        assert (await told(c, "high"))[0] == where
        assert (await told(c, "equal"))[0] == ""


@virtual_time
async def test_a_volume_is_made_where_there_is_room_for_it() -> None:
    async with cluster() as c, running(Scheduler(c)):
        for name, rack in (("n1", "r1"), ("n2", "r2")):
            node = await c.node(name)
            await c.label(("", "nodes"), node, rack=rack)
        await c.add(STORAGE, "csidrivers", {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}})
        made = {"metadata": {"name": "std"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
        await c.add(STORAGE, "storageclasses", made)
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "std"}
        for name, size in (("a", "5Gi"), ("b", "50Gi")):
            whole = {**spec, "resources": {"requests": {"storage": size}}}
            await c.make(CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": whole})
            await c.pod(f"p-{name}", using(name))
        await asyncio.sleep(2)
        refused = ("", "0/2 nodes are available: 2 node(s) did not have enough free storage.")
        assert await told(c, "p-a") == await told(c, "p-b") == refused
        room = {"storageClassName": "std", "nodeTopology": {"matchLabels": {"rack": "r2"}}, "capacity": "100Gi"}
        limited = {"metadata": {"name": "r2", "namespace": "default"}, **room, "maximumVolumeSize": "10Gi"}
        await c.add(STORAGE, "csistoragecapacities", limited)
        await asyncio.sleep(2)
        claim = await c.get("persistentvolumeclaims", "a")
        assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "n2"
        assert await told(c, "p-b") == refused


@pytest.mark.parametrize(
    ("labels", "where", "expected"),
    [
        ({}, {"topology.kubernetes.io/zone": "a"}, []),
        ({"topology.kubernetes.io/zone": "a"}, {}, []),
        ({"topology.kubernetes.io/zone": "a"}, {"topology.kubernetes.io/zone": "a"}, []),
        ({"topology.kubernetes.io/zone": "a__b"}, {"topology.kubernetes.io/zone": "b"}, []),
        ({"topology.kubernetes.io/zone": "a"}, {"topology.kubernetes.io/zone": "b"}, ["zone"]),
        ({"topology.kubernetes.io/zone": "a"}, {"topology.kubernetes.io/region": "r"}, ["zone"]),
        ({"failure-domain.beta.kubernetes.io/zone": "a"}, {"topology.kubernetes.io/zone": "a"}, []),
        ({"failure-domain.beta.kubernetes.io/zone": "a"}, {"topology.kubernetes.io/zone": "b"}, ["zone"]),
        ({"color": "red"}, {"topology.kubernetes.io/zone": "b", "color": "blue"}, []),
    ],
)
def test_a_volume_with_a_zone_is_used_in_it(labels: dict[str, str], where: dict[str, str], expected: list[str]) -> None:
    metadata = {"name": "c", "namespace": "x", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {"metadata": metadata, "spec": {"volumeName": "pv"}}
    volume = {"metadata": {"name": "pv", "labels": labels}, "spec": {}}
    pod = {"metadata": {"name": "p", "namespace": "x"}, "spec": using("c")}
    found = PodVolumes(pod, Storage({("x", "c"): claim}, {"pv": volume}))
    why = {"zone": "node(s) had no available volume zone"}
    assert found.reasons(Place("n1", where, (), {}, False)) == [why[each] for each in expected]


def test_a_claim_of_a_pods_own_is_the_pods() -> None:
    def why(*owner: str) -> str:
        owners = [{"controller": True, "uid": each} for each in owner]
        metadata = {"name": "p-v", "namespace": "x", "ownerReferences": owners}
        pod = {"metadata": {"name": "p", "namespace": "x", "uid": "u"}, "spec": {"volumes": [own]}}
        claims = {("x", "p-v"): {"metadata": metadata, "spec": {}}} if owner else {}
        return PodVolumes(pod, Storage(claims)).trouble

    own = {"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}
    assert why() == 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"'
    assert why("another") == "PVC x/p-v was not created for pod x/p (pod is not owner)"
    assert why("u") == "pod has unbound immediate PersistentVolumeClaims"


A, B, C, OTHER = (("d", "a"), ("d", "b"), ("d", "c"), ("e", "a"))
ME, HER = ("x", "me"), ("x", "her")


@pytest.mark.parametrize(
    ("most", "held", "attached", "wanted", "leaving", "fits"),
    [
        ({"d": 2}, {}, (), [A, B], (), True),
        ({"d": 2}, {}, (), [A, B, C], (), False),
        ({"d": 2}, {A: {ME}}, (), [A, B], (), True),
        ({"d": 1}, {A: {ME}}, (), [B], (), False),
        ({"d": 1}, {A: {ME}}, (), [B], [ME], True),
        ({"d": 1}, {A: {ME, HER}}, (), [B], [ME], False),
        ({"d": 1}, {}, [A], [B], (), False),
        ({"d": 1}, {A: {ME}}, [A], [B], [ME], False),
        ({"d": 2}, {A: {ME}}, [A], [B], (), True),
        ({"d": 0}, {}, (), [OTHER], (), True),
        ({"d": 0}, {}, (), [A], (), False),
    ],
)
def test_volumes_are_counted_once_each(
    most: Any, held: Any, attached: Any, wanted: Any, leaving: Any, fits: bool
) -> None:
    users = {volume: frozenset(pods) for volume, pods in held.items()}
    assert NodeVolumes(most, users, frozenset(attached)).has_room(wanted, leaving) == fits


def test_many_claims_and_volumes_are_held_against_each_other_once_and_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"c{number}" for number in range(20)]
    spec = {"storageClassName": "later", "resources": {"requests": {"storage": "1Gi"}}}
    claims = {("default", each): {"metadata": {"name": each, "namespace": "default"}, "spec": spec} for each in names}
    others = {"namespace": "default", "name": "others"}
    volumes = {each: {"metadata": {"name": each}, "spec": {"claimRef": others}} for each in names}
    classes = {"later": {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}}
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": using(*names)}
    found, sized = PodVolumes(pod, Storage(claims, volumes, classes)), 0
    size_of = binding_rules.size_of

    def counted(obj: Any) -> Any:
        nonlocal sized
        sized += 1
        return size_of(obj)

    monkeypatch.setattr(binding_rules, "size_of", counted)
    node = Place("n1", {}, (), {}, False)
    assert found.takes_long
    assert found.reasons(node) == []
    settled = found.settlement(node)
    assert settled is not None
    assert len(settled.made) == 20
    assert sized == 40  # to sort them, and for each; others' volumes are not measured
    assert not PodVolumes(pod, Storage(claims, {}, classes)).takes_long

"""Pods that claim devices: what they wait for, where they go, and what is written before."""

import asyncio
from functools import partial
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster, running
from kit.devices import (
    DEVICES,
    allocated,
    claimed,
    claims,
    device,
    device_claim,
    device_class,
    device_slice,
    request,
    supplied,
)
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.resource_claim_rules import FINALIZER
from pykubelet.apiserver.controllers.scheduling import device_claims, device_pools, devices, scheduler
from pykubelet.apiserver.controllers.scheduling.scheduler import Scheduler

NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


async def node_of(c: TestCluster, name: str) -> str:
    return str((await c.get("pods", name))["spec"].get("nodeName", ""))


async def said(c: TestCluster, name: str) -> tuple[str, str]:
    found = condition(await c.get("pods", name), "PodScheduled")
    return found.get("reason", ""), found.get("message", "")


@virtual_time
async def test_a_claim_has_its_devices_is_protected_and_reserved_before_its_pod_is_bound() -> None:
    async with cluster() as c:
        await supplied(c)
        await claimed(c, device_claim("gpus", request(count=2)))
        await c.pod("web", claims("gpus"))
        await Scheduler(c).sync()

        assert await node_of(c, "web") == "n1"
        assert await allocated(c, "gpus") == (["gpu-0", "gpu-1"], ["web"])
        claim = await c.get("resourceclaims", "gpus", group=DEVICES)
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        user = {"resource": "pods", "name": "web", "uid": "uid-of-web"}
        assert claim["status"]["reservedFor"] == [user]
        here = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
        assert claim["status"]["allocation"]["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": [here]}]}


@virtual_time
async def test_pods_of_one_look_get_devices_of_their_own_and_who_shares_a_claim_shares_them() -> None:
    async with cluster() as c:
        await supplied(c)
        await claimed(c, *(device_claim(name) for name in ("a", "b", "c")))
        for number, name in enumerate(("a", "b", "a", "c")):
            await c.pod(f"p{number}", claims(name), metadata={"creationTimestamp": f"2026-01-02T03:04:0{number}Z"})
        await Scheduler(c).sync()

        assert [await node_of(c, f"p{number}") for number in range(4)] == ["n1", "n1", "n1", ""]
        assert await allocated(c, "a") == (["gpu-0"], ["p0", "p2"])
        assert await allocated(c, "b") == (["gpu-1"], ["p1"])
        assert await said(c, "p3") == (
            "Unschedulable",
            f"0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, {NOT_HELPFUL}",
        )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ("Unschedulable", '0/1 nodes are available: resourceclaim "gpus" not found.')),
        (
            [device_claim("gpus", request(deviceClassName="tpu"))],
            ("Unschedulable", "0/1 nodes are available: request r: device class tpu does not exist."),
        ),
        (
            [{**device_claim("gpus"), "metadata": {"name": "gpus", "namespace": "default", "finalizers": ["a/b"],
                                                   "deletionTimestamp": "2026-01-02T03:04:05Z"}}],
            ("Unschedulable", '0/1 nodes are available: resourceclaim "gpus" is being deleted.'),
        ),
        (
            [device_claim("gpus", request("r", 'device.attributes["x"].y == 1'))],
            ("SchedulerError", 'running "DynamicResources" filter plugin: claim default/gpus: selector #0: '
                               "CEL runtime error: no such key: y"),
        ),
    ],
)  # fmt: skip
@virtual_time
async def test_a_pod_says_what_keeps_its_claim_from_having_devices(given: list[Any], expected: tuple[str, str]) -> None:
    async with cluster() as c:
        await supplied(c)
        await claimed(c, *given)
        await c.pod("web", claims("gpus"))
        await Scheduler(c).sync()
        assert await said(c, "web") == expected


@virtual_time
async def test_a_pod_is_woken_by_its_claim_a_class_a_slice_and_devices_that_come_back() -> None:
    async with cluster() as c, running(Scheduler(c)):
        await c.node("n1")
        await c.pod("web", claims("gpus"))
        await asyncio.sleep(1)
        assert "not found" in (await said(c, "web"))[1]
        await claimed(c, device_claim("gpus"))
        await asyncio.sleep(1)
        assert "device class gpu does not exist" in (await said(c, "web"))[1]
        await c.add(DEVICES, "deviceclasses", device_class())
        await asyncio.sleep(1)
        assert "cannot allocate all claims" in (await said(c, "web"))[1]
        await c.add(DEVICES, "resourceslices", device_slice("pool", device("gpu-0")))
        await asyncio.sleep(1)
        assert await node_of(c, "web") == "n1"

        await claimed(c, device_claim("more"))
        await c.pod("next", claims("more"))
        await asyncio.sleep(1)
        assert await node_of(c, "next") == ""
        kind, claim = (DEVICES, "resourceclaims"), await c.get("resourceclaims", "gpus", group=DEVICES)
        await c.change(kind, claim, lambda live: {**live, "status": {}}, part="status")
        await asyncio.sleep(1)
        assert await node_of(c, "next") == "n1"


@virtual_time
async def test_a_claim_that_is_still_to_be_made_is_waited_for_without_a_word() -> None:
    async with cluster() as c, running(Scheduler(c)):
        await supplied(c)
        await c.pod("web", {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]})
        await asyncio.sleep(1)
        assert await said(c, "web") == ("", "")
        c.clock.pass_(20)
        await asyncio.sleep(61)
        assert 'pod "default/web": ResourceClaim not created yet' in (await said(c, "web"))[1]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-of-web", "controller": True}
        claim = device_claim("web-gpu-abcde")
        await claimed(c, {**claim, "metadata": {**claim["metadata"], "ownerReferences": [owner]}})
        made = {"phase": "Pending", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-gpu-abcde"}]}
        await c.change(("", "pods"), await c.get("pods", "web"), lambda live: {**live, "status": made}, part="status")
        await asyncio.sleep(1)
        assert await node_of(c, "web") == "n1"
        assert await allocated(c, "web-gpu-abcde") == (["gpu-0"], ["web"])


@virtual_time
async def test_a_claim_that_was_made_for_another_pod_is_not_used() -> None:
    async with cluster() as c:
        await supplied(c)
        await claimed(c, device_claim("theirs"))
        made = {"phase": "Pending", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "theirs"}]}
        await c.pod("web", {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}, status=made)
        await Scheduler(c).sync()
        assert (
            "ResourceClaim default/theirs was not created for pod default/web (pod is not owner)"
            in (await said(c, "web"))[1]
        )
        assert await allocated(c, "theirs") == ([], [])


@virtual_time
async def test_devices_hold_a_pod_to_their_node_and_an_idle_claim_gives_them_back() -> None:
    async with cluster() as c:
        await supplied(c, device_slice("one", device("gpu-0")), device_slice("two", device("gpu-0"), nodeName="n2"))
        await c.node("n2")
        await claimed(c, device_claim("gpus"))
        await c.pod("first", {**claims("gpus"), "nodeSelector": {}})
        await Scheduler(c).sync()
        home = await node_of(c, "first")
        await c.pod("second", claims("gpus"))
        away = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "NotIn", "values": [home]}]}]}}  # fmt: skip
        await c.pod("other", {**claims("gpus"), "affinity": {"nodeAffinity": away}})
        await Scheduler(c).sync()
        assert await node_of(c, "second") == home
        assert await node_of(c, "other") == ""
        assert "1 resourceclaim not available on the node. still not schedulable" in (await said(c, "other"))[1]

        claim = await c.get("resourceclaims", "gpus", group=DEVICES)
        idle = {"allocation": claim["status"]["allocation"]}
        await c.change((DEVICES, "resourceclaims"), claim, lambda live: {**live, "status": idle}, part="status")
        await Scheduler(c).sync()
        assert "deallocation of ResourceClaim completed, preemption:" in (await said(c, "other"))[1]
        await Scheduler(c).sync()
        assert await node_of(c, "other") not in ("", home)


@virtual_time
async def test_a_pod_that_is_not_bound_leaves_its_claims_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failed(*_: Any) -> bool:
        return False

    async with cluster() as c:
        await supplied(c)
        await claimed(c, device_claim("gpus"))
        await c.pod("web", claims("gpus"))
        monkeypatch.setattr(scheduler.Scheduler, "_bind", failed)
        await Scheduler(c).sync()
        assert await allocated(c, "gpus") == (["gpu-0"], [])
        monkeypatch.undo()
        await Scheduler(c).sync()
        assert await allocated(c, "gpus") == (["gpu-0"], ["web"])


@virtual_time
async def test_a_claim_that_somebody_deletes_meanwhile_is_not_given_devices() -> None:
    async with cluster() as c:
        await supplied(c)
        await claimed(c, device_claim("a"), device_claim("b"))
        await c.pod("web", claims("a", "b"))
        kind, claim = (DEVICES, "resourceclaims"), await c.get("resourceclaims", "b", group=DEVICES)
        held = {"finalizers": ["x/y"]}
        await c.change(kind, claim, lambda live: {**live, "metadata": {**live["metadata"], **held}})
        c.store.before_write("resourceclaims/default/b", partial(c.remove, kind, claim))
        await Scheduler(c).sync()
        assert await node_of(c, "web") == ""
        assert await allocated(c, "a") == (["gpu-0"], [])
        assert await allocated(c, "b") == ([], [])
        assert "claim default/b got deleted in the meantime" in (await said(c, "web"))[1]


@virtual_time
async def test_a_claim_is_shared_by_256_pods_and_no_more() -> None:
    async with cluster() as c:
        await supplied(c)
        users = [{"resource": "pods", "name": f"p{n}", "uid": f"u{n}"} for n in range(256)]
        result = {"request": "r", "driver": "gpu.example.com", "pool": "pool", "device": "gpu-0"}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
        await claimed(c, {**device_claim("gpus"), "status": status})
        await c.pod("web", claims("gpus"))
        await Scheduler(c).sync()
        assert await node_of(c, "web") == ""
        reason, text = await said(c, "web")
        assert reason == "SchedulerError"
        assert "add reservation to claim default/gpus:" in text
        assert "at most 256 items" in text


@virtual_time
async def test_nobody_is_driven_out_where_the_devices_are_missing() -> None:
    async with cluster() as c:
        await supplied(c, device_slice("pool", device("gpu-0")))
        await claimed(c, device_claim("a"), device_claim("b"))
        full = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "2"}}}]}
        await c.pod("low", {**full, **claims("a")})
        await Scheduler(c).sync()
        await c.pod("high", {**full, **claims("b"), "priority": 10})
        await Scheduler(c).sync()
        assert (await c.get("pods", "low"))["metadata"].get("deletionTimestamp") is None
        assert "1 Insufficient cpu. still not schedulable, preemption: 0/1 nodes" in (await said(c, "high"))[1]


@virtual_time
async def test_who_asks_for_too_much_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_MOST", 50)
    async with cluster() as c:
        await supplied(c, device_slice("pool", *(device(f"d{n}", half=n % 2) for n in range(100))))
        alike = [{"matchAttribute": "gpu.example.com/half"}]
        await claimed(c, device_claim("wild", request(count=20), constraints=alike), device_claim("tame"))
        await c.pod("a-wild", claims("wild"))
        await c.pod("tame", claims("tame"))
        one = Scheduler(c)
        await one.sync()
        assert await node_of(c, "tame") == "n1"
        assert "1 timed out trying to allocate devices" in (await said(c, "a-wild"))[1]

        monkeypatch.setattr(devices, "_MOST", 1_000_000)
        await one.sync()
        assert await node_of(c, "a-wild") == "", "it rests for a while"
        await asyncio.sleep(device_claims._REST + 1)
        await one.sync()
        assert await node_of(c, "a-wild") == "n1"


def test_a_pod_with_many_claims_is_sorted_by_their_names_and_none_is_held_against_all_others() -> None:
    class Claim(dict[str, Any]):
        __hash__ = None

        def __eq__(self, other: object) -> bool:
            raise AssertionError("there may be thousands of them")

    names = [f"c{number}" for number in range(50)]
    there = {("default", name): Claim(device_claim(name)) for name in names}
    supply = device_pools.supply([], [device_class()], [])
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": claims(*names, *names)}
    found = devices.PodDevices(pod, devices.Devices({**there}, supply))
    assert found.trouble == ""
    assert len(found._open) == 50

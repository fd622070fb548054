"""Nodes that fall silent, and what becomes of their pods."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kit.cluster import TestCluster, cluster, owners, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.nodes import NodeLifecycle

NODES, PODS = ("", "nodes"), ("", "pods")
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


async def renewed(c: TestCluster, name: str, time: str) -> None:
    found = await c.get("leases", name, "kube-node-lease", "coordination.k8s.io")
    if found is None:
        lease = {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": time}}
        await c.add("coordination.k8s.io", "leases", lease)
        return
    kind = ("coordination.k8s.io", "leases")
    await c.change(kind, found, lambda live: {**live, "spec": {**live["spec"], "renewTime": time}})


@asynccontextmanager
async def alive(c: TestCluster, name: str) -> AsyncGenerator[None, None]:
    """A node that says so all the time."""

    async def speaking() -> None:
        for number in itertools.count():
            await renewed(c, name, f"2026-01-02T03:04:02.{number:06}Z")
            await asyncio.sleep(10)

    await c.node(name)
    task = asyncio.create_task(speaking())
    try:
        yield
    finally:
        task.cancel()


def taints(node: Any) -> list[tuple[str, str]]:
    return [(each["key"].partition("/")[2], each["effect"]) for each in node["spec"].get("taints", [])]


@virtual_time
async def test_a_node_that_falls_silent_is_tainted_and_its_pods_leave_when_their_time_is_up() -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    key = "node.kubernetes.io/unreachable"
    patient = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    async with cluster() as c, running(NodeLifecycle(c)), alive(c, "n2"):
        await c.node("n1")
        await renewed(c, "n1", "2026-01-02T03:04:01.000000Z")
        await c.pod(
            "patient", {"nodeName": "n1", "terminationGracePeriodSeconds": 0, "tolerations": [patient]}, status=ready
        )
        await c.pod("hasty", {"nodeName": "n1", "terminationGracePeriodSeconds": 0}, status=ready)
        await c.pod("loyal", {"nodeName": "n1", "tolerations": [{"operator": "Exists"}]}, status=ready)
        await asyncio.sleep(30)
        assert condition(await c.get("nodes", "n1"), "Ready")["status"] == "True"

        await renewed(c, "n1", "2026-01-02T03:04:02.000000Z")
        await asyncio.sleep(30)
        assert condition(await c.get("nodes", "n1"), "Ready")["status"] == "True"

        await asyncio.sleep(30)
        node = await c.get("nodes", "n1")
        assert condition(node, "Ready")["reason"] == "NodeStatusUnknown"
        assert taints(node) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]
        assert condition(await c.get("pods", "patient"), "Ready")["status"] == "False"
        gone = [
            each["metadata"]["name"] for each in await c.all(("", "pods")) if "deletionTimestamp" in each["metadata"]
        ]
        left = {each["metadata"]["name"] for each in await c.all(("", "pods"))} - set(gone)
        assert left == {"patient", "loyal"}

        c.clock.pass_(301)
        await asyncio.sleep(10)
        assert {each["metadata"]["name"] for each in await c.all(("", "pods"))} == {"loyal"}


@virtual_time
async def test_nobody_is_driven_away_while_no_node_is_well() -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    async with cluster() as c, running(NodeLifecycle(c)):
        await c.node("n1")
        await c.pod("hasty", {"nodeName": "n1", "terminationGracePeriodSeconds": 0}, status=ready)
        await asyncio.sleep(60)
        assert taints(await c.get("nodes", "n1")) == [("unreachable", "NoSchedule")]
        assert condition(await c.get("pods", "hasty"), "Ready")["status"] == "False"
        async with alive(c, "n2"):
            await asyncio.sleep(10)
            assert taints(await c.get("nodes", "n1")) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]
            assert await c.get("pods", "hasty") is None
        await asyncio.sleep(60)
        assert taints(await c.get("nodes", "n1")) == [("unreachable", "NoSchedule")]


@virtual_time
async def test_a_node_that_comes_back_loses_our_taints_and_keeps_the_others() -> None:
    mine = {"key": "mine", "effect": "NoSchedule"}
    old = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    async with cluster() as c:
        await c.node("n1", spec={"taints": [mine, old]})
        await NodeLifecycle(c).sync()

        assert (await c.get("nodes", "n1"))["spec"]["taints"] == [mine]


@virtual_time
async def test_pressure_and_cordon_become_taints() -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]
    async with cluster() as c:
        await c.node("n1", spec={"unschedulable": True}, conditions=conditions)
        await NodeLifecycle(c).sync()

        assert taints(await c.get("nodes", "n1")) == [("disk-pressure", "NoSchedule"), ("unschedulable", "NoSchedule")]


@virtual_time
async def test_what_a_node_says_in_between_is_kept_when_it_is_tainted() -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]
    async with cluster() as c:
        node = await c.node("n1", conditions=conditions)
        c.store.before_write("minions/n1", lambda: c.label(NODES, node, zone="a"))
        await NodeLifecycle(c).sync()

        found = await c.get("nodes", "n1")
        assert taints(found) == [("disk-pressure", "NoSchedule")]
        assert found["metadata"]["labels"] == {"zone": "a"}


@virtual_time
async def test_a_node_that_recovers_in_between_keeps_no_taint_for_what_is_over() -> None:
    pressed = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]
    async with cluster() as c:
        node = await c.node("n1", conditions=pressed)

        async def recovers() -> None:
            status = {"conditions": pressed[:1]}
            await c.change(NODES, node, lambda live: {**live, "status": status}, part="status")

        c.store.before_write("minions/n1", recovers)
        await NodeLifecycle(c).sync()
        assert taints(await c.get("nodes", "n1")) == []


@virtual_time
async def test_a_node_or_a_pod_that_vanishes_in_between_stops_nothing() -> None:
    drive = {"taints": [{"key": "mine", "effect": "NoExecute"}]}
    async with cluster() as c:
        vanishing = await c.node("n1", ready="False")
        await c.node("n2", spec=drive)
        await c.node("n3", ready="False")
        spec = {"nodeName": "n2", "terminationGracePeriodSeconds": 0}
        first = await c.pod("a", spec, status=READY)
        await c.pod("b", spec, status=READY)
        c.store.before_write("minions/n1", lambda: c.remove(NODES, vanishing))
        c.store.before_write("pods/default/a", lambda: c.remove(PODS, first))
        await NodeLifecycle(c).sync()

        assert await c.get("nodes", "n1") is None
        assert taints(await c.get("nodes", "n3")) == [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]
        assert await c.all(PODS) == []


@virtual_time
async def test_a_store_that_was_away_does_not_make_a_node_silent_that_spoke_meanwhile() -> None:
    async with cluster() as c, running(NodeLifecycle(c), supervised=True):
        await c.node("n1")
        await renewed(c, "n1", "2026-01-02T03:04:01.000000Z")
        await asyncio.sleep(20)
        c.store.is_away = True
        await asyncio.sleep(60)
        c.store.is_away = False
        await renewed(c, "n1", "2026-01-02T03:05:21.000000Z")
        await asyncio.sleep(39)

        assert condition(await c.get("nodes", "n1"), "Ready")["status"] == "True"


@virtual_time
async def test_taints_are_written_to_the_node_and_conditions_to_its_status() -> None:
    async with cluster() as c:
        await c.writer.ensure(c.resource(NODES), {"metadata": {"name": "n1", "labels": {"a": "b"}}})
        lifecycle = NodeLifecycle(c, grace=10.0)
        await lifecycle.sync()
        await asyncio.sleep(11)
        await lifecycle.sync()

        node = await c.get("nodes", "n1")
        assert condition(node, "Ready")["reason"] == "NodeStatusNeverUpdated"
        assert set(owners(node)) == {("kube-controller-manager", None), ("kube-controller-manager", "status")}

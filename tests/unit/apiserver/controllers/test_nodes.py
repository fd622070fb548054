"""Nodes that fall silent, and what becomes of their pods."""

import asyncio
from typing import Any

from kit.cluster import TestCluster, cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.nodes import NodeLifecycle


async def renewed(c: TestCluster, name: str, time: str) -> None:
    found = await c.get("leases", name, "kube-node-lease", "coordination.k8s.io")
    if found is None:
        lease = {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": time}}
        await c.add("coordination.k8s.io", "leases", lease)
        return
    kind = ("coordination.k8s.io", "leases")
    await c.change(kind, found, lambda live: {**live, "spec": {**live["spec"], "renewTime": time}})


def taints(node: Any) -> list[tuple[str, str]]:
    return [(each["key"].partition("/")[2], each["effect"]) for each in node["spec"].get("taints", [])]


@virtual_time
async def test_a_node_that_falls_silent_is_tainted_and_its_pods_leave_when_their_time_is_up() -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    key = "node.kubernetes.io/unreachable"
    patient = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    async with cluster() as c, running(NodeLifecycle(c)):
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

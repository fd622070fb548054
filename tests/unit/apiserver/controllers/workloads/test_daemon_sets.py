"""A daemon set has one pod on each node that it may be on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kit.cluster import TestCluster, cluster, running
from kit.virtual_time import virtual_time
from kit.workloads import change_spec, make_ready, template, until, workload
from pykubelet.apiserver.controllers.client import NODES, PODS
from pykubelet.apiserver.controllers.keyed_work import Key, KeyedWork
from pykubelet.apiserver.controllers.workloads.daemon_sets import DAEMON_SETS, DaemonSetController
from pykubelet.apiserver.controllers.workloads.pod_views import pod_view
from pykubelet.apiserver.controllers.workloads.revisions import CONTROLLER_REVISIONS
from pykubelet.apiserver.objects import Object


@asynccontextmanager
async def controlled(nodes: int = 3, *, pods: bool = True) -> AsyncGenerator[TestCluster, None]:
    async with cluster() as c, running(DaemonSetController(c)):
        for number in range(nodes):
            await c.node(f"n{number}")
        keeper = asyncio.create_task(schedule(c)) if pods else None
        yield c
        if keeper is not None:
            keeper.cancel()


async def schedule(c: TestCluster) -> None:
    """Be the scheduler and the nodes."""
    while True:
        for pod in await c.all(PODS):
            if pod["metadata"].get("deletionTimestamp"):
                await c.remove(PODS, pod, grace=0)
            elif pod["status"].get("phase") == "Pending":
                await make_ready(c, pod, pod_view(pod).aimed_at)
        await asyncio.sleep(0.1)


async def nodes_of(c: TestCluster) -> list[str]:
    pods = [pod for pod in await c.all(PODS) if "deletionTimestamp" not in pod["metadata"]]
    return sorted(pod_view(pod).aimed_at for pod in pods)


async def status(c: TestCluster) -> dict[str, Any]:
    return dict((await c.find(DAEMON_SETS, "default", "web") or {})["status"])


async def is_done(c: TestCluster) -> bool:
    obj = await c.find(DAEMON_SETS, "default", "web") or {}
    told = obj["status"]
    wanted = told["desiredNumberScheduled"]
    return bool(
        told.get("observedGeneration") == obj["metadata"]["generation"]
        and told.get("updatedNumberScheduled", 0) == told.get("numberAvailable", 0) == wanted
    )


async def change_node(c: TestCluster, name: str, **spec: Any) -> None:
    node = await c.find(NODES, "", name) or {}
    await c.change(NODES, node, lambda live: {**live, "spec": {**live["spec"], **spec}})
    await asyncio.sleep(2)


@virtual_time
async def test_each_node_gets_a_pod_by_way_of_the_scheduler() -> None:
    async with controlled() as c:
        made = await c.make(DAEMON_SETS, workload())
        assert made["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}
        await until(lambda: is_done(c))
        assert await nodes_of(c) == ["n0", "n1", "n2"]
        assert await status(c) == {
            "currentNumberScheduled": 3,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 3,
            "numberReady": 3,
            "observedGeneration": 1,
            "updatedNumberScheduled": 3,
            "numberAvailable": 3,
        }
        (revision,), pods = await c.all(CONTROLLER_REVISIONS), await c.all(PODS)
        hash_ = revision["metadata"]["labels"]["controller-revision-hash"]
        assert revision["metadata"]["name"] == f"web-{hash_}"
        assert pods[0]["metadata"]["labels"] == {
            "app": "web",
            "controller-revision-hash": hash_,
            "pod-template-generation": "1",
        }
        tolerated = {(each["key"], each["effect"]) for each in pods[0]["spec"]["tolerations"]}
        assert tolerated == {
            ("node.kubernetes.io/not-ready", "NoExecute"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
            ("node.kubernetes.io/disk-pressure", "NoSchedule"),
            ("node.kubernetes.io/memory-pressure", "NoSchedule"),
            ("node.kubernetes.io/pid-pressure", "NoSchedule"),
            ("node.kubernetes.io/unschedulable", "NoSchedule"),
        }


@virtual_time
async def test_nodes_that_come_and_go_and_their_labels_and_taints_matter() -> None:
    async with controlled(2) as c:
        await c.make(DAEMON_SETS, workload(template=template(nodeSelector={"disk": "fast"})))
        await asyncio.sleep(2)
        assert await nodes_of(c) == []
        for name in ("n0", "n1"):
            await c.label(NODES, await c.find(NODES, "", name) or {}, disk="fast")
        await asyncio.sleep(2)
        assert await nodes_of(c) == ["n0", "n1"]
        await change_node(c, "n0", taints=[{"key": "k", "effect": "NoSchedule"}])
        assert await nodes_of(c) == ["n0", "n1"], "who is there stays"
        assert (await status(c))["numberMisscheduled"] == 1
        await change_node(c, "n0", taints=[{"key": "k", "effect": "NoExecute"}])
        assert await nodes_of(c) == ["n1"]
        await change_node(c, "n0", taints=[])
        assert await nodes_of(c) == ["n0", "n1"]
        await c.label(NODES, await c.find(NODES, "", "n1") or {}, disk="slow")
        await asyncio.sleep(2)
        assert await nodes_of(c) == ["n0"]


@virtual_time
async def test_heartbeats_of_nodes_are_nobodys_business() -> None:
    async with controlled() as c:
        await c.make(DAEMON_SETS, workload())
        await until(lambda: is_done(c))
        controller = DaemonSetController(c)
        looks: list[Key] = []

        async def look(key: Key) -> None:
            looks.append(key)

        controller._work = KeyedWork("test", look)
        async with running(controller):
            await asyncio.sleep(1)
            assert len(looks) == 1
            node = await c.find(NODES, "", "n0") or {}
            await c.change(
                NODES, node, lambda live: {**live, "status": {**live["status"], "phase": "x"}}, part="status"
            )
            await asyncio.sleep(1)
            assert len(looks) == 1


@virtual_time
async def test_another_template_is_rolled_out_one_node_after_the_other() -> None:
    async with controlled() as c:
        await c.make(DAEMON_SETS, workload())
        await until(lambda: is_done(c))
        fewest = 3

        async def watched() -> None:
            nonlocal fewest
            while True:
                fewest = min(fewest, len(await nodes_of(c)))
                await asyncio.sleep(0.01)

        watching = asyncio.create_task(watched())
        changed = await change_spec(c, DAEMON_SETS, "web", template=template("web:2"))
        assert changed["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "2"}
        await until(lambda: is_done(c))
        watching.cancel()
        assert fewest == 2
        assert {pod["spec"]["containers"][0]["image"] for pod in await c.all(PODS)} == {"web:2"}
        assert sorted(each["revision"] for each in await c.all(CONTROLLER_REVISIONS)) == [1, 2]


@virtual_time
async def test_with_a_surge_the_new_pod_is_there_before_the_old_one_goes() -> None:
    async with controlled(2, pods=False) as c:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await c.make(DAEMON_SETS, workload(updateStrategy=rolling))
        await asyncio.sleep(2)

        async def settle() -> None:
            for pod in await c.all(PODS):
                if pod["status"]["phase"] == "Pending":
                    await make_ready(c, pod, pod_view(pod).aimed_at)
            await asyncio.sleep(2)
            for pod in await c.all(PODS):
                if pod["metadata"].get("deletionTimestamp"):
                    await c.remove(PODS, pod, grace=0)
            await asyncio.sleep(2)

        await settle()
        await change_spec(c, DAEMON_SETS, "web", template=template("web:2"))
        await asyncio.sleep(2)
        assert len(await nodes_of(c)) == 3, "one more, on the node of an old one"
        for _ in range(4):
            assert set(await nodes_of(c)) == {"n0", "n1"}
            await settle()
        assert {pod["spec"]["containers"][0]["image"] for pod in await c.all(PODS)} == {"web:2"}
        assert await nodes_of(c) == ["n0", "n1"]


@virtual_time
async def test_on_delete_only_who_is_deleted_is_renewed() -> None:
    async with controlled(2) as c:
        await c.make(DAEMON_SETS, workload(updateStrategy={"type": "OnDelete"}))
        await asyncio.sleep(5)
        await change_spec(c, DAEMON_SETS, "web", template=template("web:2"))
        await asyncio.sleep(5)
        images = [pod["spec"]["containers"][0]["image"] for pod in await c.all(PODS)]
        assert images == ["web:1", "web:1"]
        await c.remove(PODS, (await c.all(PODS))[0])
        await asyncio.sleep(5)
        images = sorted(pod["spec"]["containers"][0]["image"] for pod in await c.all(PODS))
        assert images == ["web:1", "web:2"]


@virtual_time
async def test_a_pod_that_always_fails_is_replaced_ever_more_slowly() -> None:
    async with controlled(1, pods=False) as c:
        await c.make(DAEMON_SETS, workload())
        seen: set[str] = set()

        def failed(live: Object) -> Object:
            return {**live, "status": {**live["status"], "phase": "Failed"}}

        for _ in range(600):
            for pod in await c.all(PODS):
                seen.add(pod["metadata"]["uid"])
                await c.change(PODS, pod, failed, part="status")
            await asyncio.sleep(0.1)
        assert 4 <= len(seen) <= 8
        assert "FailedDaemonPod" in {reason for reason, _ in await c.events()}


@virtual_time
async def test_pods_for_a_node_that_is_gone_before_they_came_are_deleted() -> None:
    async with controlled(1, pods=False) as c:
        await c.make(DAEMON_SETS, workload())
        await asyncio.sleep(2)
        assert await nodes_of(c) == ["n0"]
        await c.remove(NODES, await c.find(NODES, "", "n0") or {})
        await asyncio.sleep(2)
        assert await nodes_of(c) == []

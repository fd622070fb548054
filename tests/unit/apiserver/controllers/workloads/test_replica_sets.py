"""A replica set has as many pods as it wants, whoever makes or takes them."""

import asyncio
from typing import Any

from kit.cluster import TestCluster, cluster, running
from kit.virtual_time import virtual_time
from kit.workloads import LABELS, change_spec, make_ready, run_pods, template, until, workload
from pykubelet.apiserver.controllers.client import PODS
from pykubelet.apiserver.controllers.workloads.replica_sets import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    ReplicaSetController,
)
from pykubelet.apiserver.objects import Object, at


async def own_pods(c: TestCluster, uid: str) -> list[Object]:
    pods = await c.all(PODS)
    return [
        pod
        for pod in pods
        if any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences", ()))
        and not pod["metadata"].get("deletionTimestamp")
    ]


async def status(c: TestCluster, name: str = "web") -> dict[str, Any]:
    return dict((await c.find(REPLICA_SETS, "default", name) or {}).get("status", {}))


@virtual_time
async def test_a_replica_set_makes_its_pods_and_says_so() -> None:
    async with cluster() as c:
        made = await c.make(REPLICA_SETS, workload(replicas=3))
        await ReplicaSetController(c).sync(("default", "web"))

        pods = await own_pods(c, made["metadata"]["uid"])
        assert len(pods) == 3
        assert all(pod["metadata"]["name"].startswith("web-") for pod in pods)
        assert pods[0]["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web",
                "uid": made["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert await status(c) == {"replicas": 3, "fullyLabeledReplicas": 3, "observedGeneration": 1}
        told = await c.events()
        assert sorted(told) == sorted(("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}") for pod in pods)


@virtual_time
async def test_ready_pods_count_as_available_after_their_time() -> None:
    async with cluster() as c:
        await c.make(REPLICA_SETS, workload(replicas=1, minReadySeconds=5))
        controller = ReplicaSetController(c)
        await controller.sync(("default", "web"))
        (pod,) = await c.all(PODS)
        await make_ready(c, pod)
        again = await controller.sync(("default", "web"))
        assert again == 5
        assert (await status(c))["readyReplicas"] == 1
        assert "availableReplicas" not in await status(c)

        c.clock.pass_(5)
        assert await controller.sync(("default", "web")) is None
        assert (await status(c))["availableReplicas"] == 1


@virtual_time
async def test_it_is_level_triggered_pods_that_go_are_replaced_and_too_many_are_deleted() -> None:
    async with cluster() as c, running(ReplicaSetController(c)):
        made = await c.make(REPLICA_SETS, workload(replicas=3))
        uid = made["metadata"]["uid"]

        async def has(count: int) -> bool:
            return len(await own_pods(c, uid)) == count

        await until(lambda: has(3))
        first = (await own_pods(c, uid))[0]
        await c.remove(PODS, first, grace=0)
        await until(lambda: has(3))
        assert first["metadata"]["name"] not in {pod["metadata"]["name"] for pod in await own_pods(c, uid)}
        await change_spec(c, REPLICA_SETS, "web", replicas=1)
        await until(lambda: has(1))
        await asyncio.sleep(5)
        assert (await status(c))["replicas"] == 1
        assert (await status(c))["observedGeneration"] == 2


@virtual_time
async def test_orphans_are_adopted_and_what_no_longer_matches_is_let_go() -> None:
    async with cluster() as c, running(ReplicaSetController(c)):
        await c.pod("orphan", metadata={"labels": LABELS})
        made = await c.make(REPLICA_SETS, workload(replicas=2))
        uid = made["metadata"]["uid"]

        async def names() -> set[str]:
            return {pod["metadata"]["name"] for pod in await own_pods(c, uid)}

        async def has_both() -> bool:
            return len(await names()) == 2

        await until(has_both)
        assert "orphan" in await names()

        await c.label(PODS, await c.get("pods", "orphan"), app="other")

        async def has_let_go() -> bool:
            return "orphan" not in await names() and len(await names()) == 2

        await until(has_let_go)
        assert "ownerReferences" not in (await c.get("pods", "orphan"))["metadata"]


@virtual_time
async def test_pods_of_others_are_left_alone() -> None:
    owner = {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "u", "controller": True}
    async with cluster() as c:
        await c.pod("taken", metadata={"labels": LABELS, "ownerReferences": [owner]})
        made = await c.make(REPLICA_SETS, workload(replicas=1))
        await ReplicaSetController(c).sync(("default", "web"))
        assert (await c.get("pods", "taken"))["metadata"]["ownerReferences"] == [owner]
        assert len(await own_pods(c, made["metadata"]["uid"])) == 1


@virtual_time
async def test_what_is_refused_is_told_and_tried_again() -> None:
    async with cluster() as c, running(ReplicaSetController(c)):
        pods = template(priorityClassName="missing")
        await c.make(REPLICA_SETS, workload(replicas=100, template=pods))

        async def has_failed() -> bool:
            return bool((await status(c)).get("conditions"))

        await until(has_failed)
        (condition,) = (await status(c))["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "ReplicaFailure",
            "True",
            "FailedCreate",
        )
        told = [reason for reason, _ in await c.events()]
        assert set(told) == {"FailedCreate"}
        assert len(told) < 5, "of a hundred, one is tried at a time"

        priority = {"metadata": {"name": "missing"}, "value": 1}
        await c.add("scheduling.k8s.io", "priorityclasses", priority)

        async def is_well() -> bool:
            return (await status(c)).get("replicas") == 100 and "conditions" not in await status(c)

        await until(is_well, 300)


@virtual_time
async def test_one_that_goes_makes_nothing_more() -> None:
    async with cluster() as c:
        made = await c.make(REPLICA_SETS, {**workload(replicas=2)})
        await c.change(
            REPLICA_SETS, made, lambda live: {**live, "metadata": {**live["metadata"], "finalizers": ["a.b/c"]}}
        )
        await c.remove(REPLICA_SETS, made)
        await ReplicaSetController(c).sync(("default", "web"))
        assert await c.all(PODS) == []


@virtual_time
async def test_a_replication_controller_is_the_same() -> None:
    async with cluster() as c, running(ReplicaSetController(c, REPLICATION_CONTROLLERS)):
        spec = {"replicas": 2, "template": template()}
        made = await c.make(REPLICATION_CONTROLLERS, {"metadata": {"name": "rc", "namespace": "default"}, "spec": spec})
        assert made["spec"]["selector"] == LABELS
        keeper = asyncio.create_task(run_pods(c))

        async def is_there() -> bool:
            found = await c.find(REPLICATION_CONTROLLERS, "default", "rc")
            return bool(at(found, "status.availableReplicas") == 2)

        await until(is_there)
        keeper.cancel()


@virtual_time
async def test_very_many_are_made_in_portions_so_that_somebody_can_notice() -> None:
    async with cluster() as c, running(ReplicaSetController(c)):
        await c.make(REPLICA_SETS, workload(replicas=2**31 - 1))
        await asyncio.sleep(3)
        assert len(await c.all(PODS)) == 500
        await change_spec(c, REPLICA_SETS, "web", replicas=501)
        await asyncio.sleep(6)
        assert len(await c.all(PODS)) == 501


@virtual_time
async def test_in_a_namespace_that_goes_nothing_is_made_and_nobody_is_told() -> None:
    async with cluster() as c, running(ReplicaSetController(c)):
        spaces = ("", "namespaces")
        namespace = await c.add(*spaces, {"metadata": {"name": "going"}, "spec": {"finalizers": ["kubernetes"]}})
        await c.remove(spaces, namespace)
        made = workload(replicas=2)
        await c.add(*REPLICA_SETS, {**made, "metadata": {"name": "web", "namespace": "going", "generation": 1}})
        await asyncio.sleep(5)
        assert await c.all(PODS) == []
        assert await c.events() == []
        found = await c.find(REPLICA_SETS, "going", "web")
        assert at(found, "status") == {"replicas": 0, "observedGeneration": 1}

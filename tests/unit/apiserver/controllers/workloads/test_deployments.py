"""A deployment rolls out, goes on after anything, and keeps its history."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kit.cluster import TestCluster, cluster, running
from kit.virtual_time import virtual_time
from kit.workloads import change_spec, make_ready, run_pods, template, until, workload
from pykubelet.apiserver.controllers.client import PODS
from pykubelet.apiserver.controllers.garbage_collector import GarbageCollector
from pykubelet.apiserver.controllers.workloads.deployments import DEPLOYMENTS, DeploymentController
from pykubelet.apiserver.controllers.workloads.replica_sets import REPLICA_SETS, ReplicaSetController
from pykubelet.apiserver.objects import Object, at

REVISION = "deployment.kubernetes.io/revision"


@asynccontextmanager
async def controlled(*, pods: bool = True) -> AsyncGenerator[TestCluster, None]:
    async with cluster() as c, running(ReplicaSetController(c)), running(DeploymentController(c)):
        keeper = asyncio.create_task(run_pods(c)) if pods else None
        yield c
        if keeper is not None:
            keeper.cancel()


async def deployment(c: TestCluster, name: str = "web") -> Object:
    found = await c.find(DEPLOYMENTS, "default", name)
    assert found is not None
    return found


async def is_done(c: TestCluster, name: str = "web") -> bool:
    """As `kubectl rollout status` sees it."""
    found = await deployment(c, name)
    status, wanted = found["status"], found["spec"]["replicas"]
    return bool(status.get("observedGeneration", 0) >= found["metadata"]["generation"]) and bool(
        status.get("updatedReplicas", 0) == status.get("replicas", 0) == status.get("availableReplicas", 0) == wanted
    )


def conditions(obj: Object) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in obj["status"].get("conditions", ())}


async def sizes(c: TestCluster) -> dict[str, int]:
    """By revision."""
    sets = await c.all(REPLICA_SETS)
    return {each["metadata"]["annotations"][REVISION]: each["spec"]["replicas"] for each in sets}


@virtual_time
async def test_a_deployment_is_rolled_out() -> None:
    async with controlled() as c:
        made = await c.make(DEPLOYMENTS, workload(replicas=3))
        await until(lambda: is_done(c))

        found, (replica_set,) = await deployment(c), await c.all(REPLICA_SETS)
        assert conditions(found) == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }
        assert found["metadata"]["annotations"] == {REVISION: "1"}
        assert found["metadata"]["generation"] == 1
        hash_ = replica_set["metadata"]["labels"]["pod-template-hash"]
        assert replica_set["metadata"]["name"] == f"web-{hash_}"
        assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": hash_}
        assert replica_set["metadata"]["annotations"] == {
            REVISION: "1",
            "deployment.kubernetes.io/desired-replicas": "3",
            "deployment.kubernetes.io/max-replicas": "4",
        }
        assert replica_set["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert ("ScalingReplicaSet", f"Scaled up replica set web-{hash_} from 0 to 3") in await c.events()
        assert found["status"] == {
            "observedGeneration": 1,
            "replicas": 3,
            "updatedReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "conditions": found["status"]["conditions"],
        }


@virtual_time
async def test_another_template_makes_another_replica_set_and_the_old_one_is_kept() -> None:
    async with controlled() as c:
        await c.make(DEPLOYMENTS, workload(replicas=4))
        await until(lambda: is_done(c))
        fewest, most = 4, 4

        async def watched() -> None:
            nonlocal fewest, most
            while True:
                pods = [pod for pod in await c.all(PODS) if "deletionTimestamp" not in pod["metadata"]]
                ready = [pod for pod in pods if at(pod, "status.conditions")]
                fewest, most = min(fewest, len(ready)), max(most, len(pods))
                await asyncio.sleep(0.01)

        watching = asyncio.create_task(watched())
        await change_spec(c, DEPLOYMENTS, "web", template=template("web:2"))
        await until(lambda: is_done(c))
        watching.cancel()
        assert await sizes(c) == {"1": 0, "2": 4}
        assert (await deployment(c))["metadata"]["annotations"][REVISION] == "2"
        assert (fewest, most) == (3, 5), "a quarter may be missing, and a quarter too many"
        assert {pod["spec"]["containers"][0]["image"] for pod in await c.all(PODS)} == {"web:2"}


@virtual_time
async def test_to_go_back_the_old_replica_set_becomes_the_new_one() -> None:
    async with controlled() as c:
        await c.make(DEPLOYMENTS, workload(replicas=2))
        await until(lambda: is_done(c))
        (first,) = await c.all(REPLICA_SETS)
        for image in ("web:2", "web:1"):
            await change_spec(c, DEPLOYMENTS, "web", template=template(image))
            await until(lambda: is_done(c))
        back = await c.find(REPLICA_SETS, "default", first["metadata"]["name"])
        assert back is not None
        assert back["spec"]["replicas"] == 2
        assert back["metadata"]["annotations"][REVISION] == "3"
        assert back["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
        assert await sizes(c) == {"3": 2, "2": 0}


@virtual_time
async def test_scaling_is_no_rollout() -> None:
    async with controlled() as c:
        await c.make(DEPLOYMENTS, workload(replicas=2))
        await until(lambda: is_done(c))
        for wanted in (5, 0, 3):
            await change_spec(c, DEPLOYMENTS, "web", replicas=wanted)
            await until(lambda: is_done(c))
            assert await sizes(c) == {"1": wanted}
        assert (await deployment(c))["status"]["observedGeneration"] == 4


@virtual_time
async def test_a_paused_one_is_scaled_but_not_rolled_out() -> None:
    async with controlled() as c:
        await c.make(DEPLOYMENTS, workload(replicas=1))
        await until(lambda: is_done(c))
        await change_spec(c, DEPLOYMENTS, "web", paused=True, template=template("web:2"), replicas=2)
        await asyncio.sleep(5)
        assert await sizes(c) == {"1": 2}
        assert conditions(await deployment(c))["Progressing"] == ("Unknown", "DeploymentPaused")
        await change_spec(c, DEPLOYMENTS, "web", paused=False)
        await until(lambda: is_done(c))
        assert await sizes(c) == {"1": 0, "2": 2}


@virtual_time
async def test_without_progress_the_deadline_is_exceeded_and_progress_takes_it_back() -> None:
    async with controlled(pods=False) as c:
        await c.make(DEPLOYMENTS, workload(replicas=1, progressDeadlineSeconds=30))
        await asyncio.sleep(5)
        assert conditions(await deployment(c)) == {
            "Available": ("False", "MinimumReplicasUnavailable"),
            "Progressing": ("True", "ReplicaSetUpdated"),
        }
        c.clock.pass_(31)
        await asyncio.sleep(40)
        assert conditions(await deployment(c))["Progressing"] == ("False", "ProgressDeadlineExceeded")
        (pod,) = await c.all(PODS)
        await make_ready(c, pod)
        await until(lambda: is_done(c))
        assert conditions(await deployment(c))["Progressing"] == ("True", "NewReplicaSetAvailable")


@virtual_time
async def test_recreate_waits_until_the_last_old_pod_is_gone() -> None:
    async with controlled(pods=False) as c:
        await c.make(DEPLOYMENTS, workload(replicas=2, strategy={"type": "Recreate"}))
        await asyncio.sleep(2)
        for pod in await c.all(PODS):
            await make_ready(c, pod)
        await until(lambda: is_done(c))
        await change_spec(c, DEPLOYMENTS, "web", template=template("web:2"))
        await asyncio.sleep(5)
        leaving = await c.all(PODS)
        assert len(leaving) == 2
        assert all(pod["metadata"]["deletionTimestamp"] for pod in leaving)
        assert await sizes(c) == {"1": 0}
        for pod in leaving:
            await c.remove(PODS, pod, grace=0)
        await asyncio.sleep(2)
        assert await sizes(c) == {"1": 0, "2": 2}
        assert {pod["spec"]["containers"][0]["image"] for pod in await c.all(PODS)} == {"web:2"}


@virtual_time
async def test_only_so_many_old_ones_are_kept() -> None:
    async with controlled() as c:
        await c.make(DEPLOYMENTS, workload(replicas=1, revisionHistoryLimit=2))
        for number in range(2, 7):
            await until(lambda: is_done(c))
            await change_spec(c, DEPLOYMENTS, "web", template=template(f"web:{number}"))
        await until(lambda: is_done(c))
        await asyncio.sleep(5)
        assert await sizes(c) == {"4": 0, "5": 0, "6": 1}


@virtual_time
async def test_a_name_that_is_taken_is_a_collision() -> None:
    async with controlled() as c:
        made = await c.make(DEPLOYMENTS, workload(replicas=1, paused=True))
        await asyncio.sleep(1)
        await c.make(DEPLOYMENTS, workload("other", replicas=1))
        await until(lambda: is_done(c, "other"))
        (taken,) = await c.all(REPLICA_SETS)
        hash_ = taken["metadata"]["labels"]["pod-template-hash"]
        stranger: dict[str, Any] = workload(f"web-{hash_}", "stranger:1", replicas=0)
        stranger["spec"]["selector"] = {"matchLabels": {"app": "stranger"}}
        stranger["spec"]["template"]["metadata"] = {"labels": {"app": "stranger"}}
        await c.make(REPLICA_SETS, stranger)

        await change_spec(c, DEPLOYMENTS, "web", paused=False)
        await until(lambda: is_done(c))
        assert (await deployment(c))["status"]["collisionCount"] == 1
        own = [
            each["metadata"]["name"]
            for each in await c.all(REPLICA_SETS)
            if at(each, "metadata.ownerReferences", [{}])[0].get("uid") == made["metadata"]["uid"]
        ]
        assert len(own) == 1
        assert own[0] != f"web-{hash_}"


@virtual_time
async def test_annotations_are_copied_and_min_ready_seconds_follow() -> None:
    async with controlled() as c:
        made = workload(replicas=1)
        made["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first"}
        await c.make(DEPLOYMENTS, made)
        await until(lambda: is_done(c))
        await change_spec(c, DEPLOYMENTS, "web", minReadySeconds=7)
        await asyncio.sleep(2)
        (replica_set,) = await c.all(REPLICA_SETS)
        assert replica_set["metadata"]["annotations"]["kubernetes.io/change-cause"] == "first"
        assert replica_set["spec"]["minReadySeconds"] == 7


@virtual_time
async def test_orphaned_replica_sets_are_adopted_with_their_pods() -> None:
    """After `kubectl delete --cascade=orphan` and another create, nothing is restarted."""
    async with controlled() as c:
        await c.make(DEPLOYMENTS, workload(replicas=2))
        await until(lambda: is_done(c))
        before = {pod["metadata"]["uid"] for pod in await c.all(PODS)}
        (replica_set,) = await c.all(REPLICA_SETS)
        await c.store.delete(
            "/registry/deployments/default/web", revision=int((await deployment(c))["metadata"]["resourceVersion"])
        )
        await c.change(
            REPLICA_SETS,
            replica_set,
            lambda live: {**live, "metadata": {k: v for k, v in live["metadata"].items() if k != "ownerReferences"}},
        )
        await c.make(DEPLOYMENTS, workload(replicas=2))
        await until(lambda: is_done(c))
        assert {pod["metadata"]["uid"] for pod in await c.all(PODS)} == before
        assert len(await c.all(REPLICA_SETS)) == 1


@virtual_time
async def test_a_hundred_replicas_cost_at_most_four_writes_each_from_the_first_to_the_last() -> None:
    """What the controllers write: pods, events and every status; not what a scheduler or a node would."""
    async with controlled(pods=False) as c, running(GarbageCollector(c)):
        before = await c.store.revision()
        others = 0

        async def ready(count: int) -> None:
            """One after the other, as nodes start them."""
            nonlocal others
            done = 0
            async with asyncio.timeout(600):
                while done < count:
                    for pod in await c.all(PODS):
                        if pod["status"]["phase"] == "Pending":
                            await make_ready(c, pod)
                            done, others = done + 1, others + 2
                            await asyncio.sleep(0.1)
                    await asyncio.sleep(0.1)

        await c.make(DEPLOYMENTS, workload(replicas=60))
        await ready(60)
        await until(lambda: is_done(c))
        await change_spec(c, DEPLOYMENTS, "web", replicas=100)
        await ready(40)
        await until(lambda: is_done(c))
        await c.remove(DEPLOYMENTS, await deployment(c))

        async def is_gone() -> bool:
            pods = await c.all(PODS)
            return bool(pods) and all(pod["metadata"].get("deletionTimestamp") for pod in pods)

        await until(is_gone)
        await asyncio.sleep(5)
        assert await c.all(REPLICA_SETS) == []
        writes = await c.store.revision() - before - others - 3
        assert writes <= 400, writes

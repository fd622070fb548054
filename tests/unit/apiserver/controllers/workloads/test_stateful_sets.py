"""The pods of a stateful set come, go and are renewed in order, and keep their volumes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kit.cluster import TestCluster, cluster, running
from kit.virtual_time import virtual_time
from kit.workloads import change_spec, make_ready, run_pods, template, until, workload
from pykubelet.apiserver.controllers.client import CLAIMS, PODS
from pykubelet.apiserver.controllers.garbage_collector import GarbageCollector
from pykubelet.apiserver.controllers.protection import CLAIM as CLAIM_OF_PODS
from pykubelet.apiserver.controllers.protection import Protection
from pykubelet.apiserver.controllers.workloads.revisions import CONTROLLER_REVISIONS
from pykubelet.apiserver.controllers.workloads.stateful_sets import STATEFUL_SETS, StatefulSetController
from pykubelet.apiserver.objects import Object, at

CLAIM = {
    "metadata": {"name": "data", "labels": {"of": "template"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@asynccontextmanager
async def controlled(*, pods: bool = True) -> AsyncGenerator[TestCluster, None]:
    async with cluster() as c, running(StatefulSetController(c)), running(GarbageCollector(c)):
        keeper = asyncio.create_task(run_pods(c)) if pods else None
        yield c
        if keeper is not None:
            keeper.cancel()


def stateful(**spec: Any) -> Object:
    return workload(serviceName="web", **spec)


async def names(c: TestCluster) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in await c.all(PODS) if "deletionTimestamp" not in pod["metadata"])


async def images(c: TestCluster) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in await c.all(PODS)}


async def status(c: TestCluster) -> dict[str, Any]:
    return dict((await c.find(STATEFUL_SETS, "default", "web") or {})["status"])


async def is_done(c: TestCluster) -> bool:
    obj = await c.find(STATEFUL_SETS, "default", "web") or {}
    told, wanted = obj["status"], obj["spec"]["replicas"]
    return bool(
        told.get("observedGeneration") == obj["metadata"]["generation"]
        and told["replicas"] == told["availableReplicas"] == wanted
        and told["currentRevision"] == told["updateRevision"]
    )


async def ready(c: TestCluster, *pods: str) -> None:
    for name in pods:
        await make_ready(c, await c.get("pods", name))
    await asyncio.sleep(2)


@virtual_time
async def test_pods_are_made_one_after_the_other_each_with_its_name() -> None:
    async with controlled(pods=False) as c:
        await c.make(STATEFUL_SETS, stateful(replicas=3))
        await asyncio.sleep(2)
        assert await names(c) == ["web-0"]
        await ready(c, "web-0")
        assert await names(c) == ["web-0", "web-1"]
        await ready(c, "web-1")
        assert await names(c) == ["web-0", "web-1", "web-2"]
        await ready(c, "web-2")

        pod, (revision,) = await c.get("pods", "web-1"), await c.all(CONTROLLER_REVISIONS)
        assert pod["metadata"]["labels"] == {
            "app": "web",
            "statefulset.kubernetes.io/pod-name": "web-1",
            "apps.kubernetes.io/pod-index": "1",
            "controller-revision-hash": revision["metadata"]["name"],
        }
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-1", "web")
        assert revision["revision"] == 1
        assert revision["data"]["spec"]["template"]["$patch"] == "replace"
        assert await status(c) == {
            "observedGeneration": 1,
            "replicas": 3,
            "readyReplicas": 3,
            "currentReplicas": 3,
            "updatedReplicas": 3,
            "availableReplicas": 3,
            "currentRevision": revision["metadata"]["name"],
            "updateRevision": revision["metadata"]["name"],
            "collisionCount": 0,
        }
        assert ("SuccessfulCreate", "create Pod web-0 in StatefulSet web successful") in await c.events()


@virtual_time
async def test_all_at_once_if_it_says_so_and_from_another_number() -> None:
    async with controlled(pods=False) as c:
        await c.make(STATEFUL_SETS, stateful(replicas=3, podManagementPolicy="Parallel", ordinals={"start": 5}))
        await asyncio.sleep(2)
        assert await names(c) == ["web-5", "web-6", "web-7"]
        await change_spec(c, STATEFUL_SETS, "web", replicas=1)
        await asyncio.sleep(2)
        assert await names(c) == ["web-5"]


@virtual_time
async def test_the_last_goes_first_and_waits_for_the_others() -> None:
    async with controlled(pods=False) as c:
        await c.make(STATEFUL_SETS, stateful(replicas=3))
        for name in ("web-0", "web-1", "web-2"):
            await asyncio.sleep(2)
            await ready(c, name)
        await change_spec(c, STATEFUL_SETS, "web", replicas=1)
        await asyncio.sleep(2)
        assert await names(c) == ["web-0", "web-1"]
        await asyncio.sleep(10)
        assert await names(c) == ["web-0", "web-1"], "the next goes when this one is gone"
        await c.remove(PODS, await c.get("pods", "web-2"), grace=0)
        await asyncio.sleep(2)
        assert await names(c) == ["web-0"]


@virtual_time
async def test_another_template_is_rolled_out_from_the_last_to_the_partition() -> None:
    async with controlled() as c:
        await c.make(STATEFUL_SETS, stateful(replicas=3))
        await until(lambda: is_done(c))
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await change_spec(c, STATEFUL_SETS, "web", template=template("web:2"), updateStrategy=rolling)
        await asyncio.sleep(20)
        assert await images(c) == {"web-0": "web:1", "web-1": "web:1", "web-2": "web:2"}
        told = await status(c)
        assert (told["currentReplicas"], told["updatedReplicas"]) == (2, 1)
        assert told["currentRevision"] != told["updateRevision"]

        await c.remove(PODS, await c.get("pods", "web-0"), grace=0)
        await asyncio.sleep(20)
        assert (await images(c))["web-0"] == "web:1", "below the partition it is made as it was"

        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        await change_spec(c, STATEFUL_SETS, "web", updateStrategy=rolling)
        await until(lambda: is_done(c))
        assert set((await images(c)).values()) == {"web:2"}
        assert [each["revision"] for each in await c.all(CONTROLLER_REVISIONS)].count(2) == 1


@virtual_time
async def test_one_at_a_time_is_renewed() -> None:
    async with controlled(pods=False) as c:
        await c.make(STATEFUL_SETS, stateful(replicas=2, podManagementPolicy="Parallel"))
        await asyncio.sleep(2)
        await ready(c, "web-0", "web-1")
        await change_spec(c, STATEFUL_SETS, "web", template=template("web:2"))
        await asyncio.sleep(10)
        assert await names(c) == ["web-0"]
        await c.remove(PODS, await c.get("pods", "web-1"), grace=0)
        await asyncio.sleep(10)
        assert await images(c) == {"web-0": "web:1", "web-1": "web:2"}, "the next one waits until this one is ready"
        await ready(c, "web-1")
        assert await names(c) == ["web-1"]


@virtual_time
async def test_on_delete_pods_are_renewed_when_somebody_deletes_them() -> None:
    async with controlled() as c:
        await c.make(STATEFUL_SETS, stateful(replicas=2, updateStrategy={"type": "OnDelete"}))
        await asyncio.sleep(10)
        await change_spec(c, STATEFUL_SETS, "web", template=template("web:2"))
        await asyncio.sleep(10)
        assert set((await images(c)).values()) == {"web:1"}
        await c.remove(PODS, await c.get("pods", "web-0"))
        await asyncio.sleep(10)
        assert await images(c) == {"web-0": "web:2", "web-1": "web:1"}


@virtual_time
async def test_min_ready_seconds_hold_the_next_back() -> None:
    async with controlled(pods=False) as c:
        await c.make(STATEFUL_SETS, stateful(replicas=2, minReadySeconds=10))
        await asyncio.sleep(2)
        await ready(c, "web-0")
        assert await names(c) == ["web-0"]
        c.clock.pass_(10)
        await asyncio.sleep(11)
        assert await names(c) == ["web-0", "web-1"]


@virtual_time
async def test_a_pod_that_is_over_is_replaced() -> None:
    async with controlled(pods=False) as c:
        await c.make(STATEFUL_SETS, stateful(replicas=1))
        await asyncio.sleep(2)
        pod = await c.get("pods", "web-0")
        await c.change(PODS, pod, lambda live: {**live, "status": {**live["status"], "phase": "Failed"}}, part="status")
        await asyncio.sleep(5)
        again = await c.get("pods", "web-0")
        assert again["metadata"]["uid"] != pod["metadata"]["uid"]


@virtual_time
async def test_each_pod_has_claims_of_its_own_which_outlive_it() -> None:
    async with controlled() as c:
        spec: dict[str, Any] = {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "other", "emptyDir": {}}]}
        made = stateful(replicas=2, volumeClaimTemplates=[CLAIM], template=template(**spec))
        await c.make(STATEFUL_SETS, made)
        await until(lambda: is_done(c))
        claims = {each["metadata"]["name"]: each for each in await c.all(CLAIMS)}
        assert set(claims) == {"data-web-0", "data-web-1"}
        assert claims["data-web-0"]["metadata"]["labels"] == {"app": "web", "of": "template"}
        assert "ownerReferences" not in claims["data-web-0"]["metadata"]
        volumes = {each["name"]: each for each in (await c.get("pods", "web-1"))["spec"]["volumes"]}
        assert volumes["data"] == {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}
        assert "emptyDir" in volumes["other"]
        await change_spec(c, STATEFUL_SETS, "web", replicas=0)
        await asyncio.sleep(20)
        assert await c.all(PODS) == []
        assert len(await c.all(CLAIMS)) == 2


@virtual_time
async def test_claims_go_with_their_pod_when_it_is_no_longer_wanted_and_with_the_set() -> None:
    async with controlled() as c, running(Protection(c, CLAIM_OF_PODS)):
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        made = stateful(replicas=2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
        obj = await c.make(STATEFUL_SETS, made)
        await until(lambda: is_done(c))

        async def owners() -> dict[str, list[str]]:
            found = await c.all(CLAIMS)
            return {
                each["metadata"]["name"]: [owner["kind"] for owner in at(each, "metadata.ownerReferences", [])]
                for each in found
            }

        assert await owners() == {"data-web-0": ["StatefulSet"], "data-web-1": ["StatefulSet"]}
        await change_spec(c, STATEFUL_SETS, "web", replicas=1)
        await asyncio.sleep(20)
        assert await owners() == {"data-web-0": ["StatefulSet"]}
        await c.remove(STATEFUL_SETS, obj)
        await asyncio.sleep(20)
        assert await owners() == {}


@virtual_time
async def test_a_pod_that_waits_has_its_claims_put_right() -> None:
    async with controlled(pods=False) as c:
        await c.make(STATEFUL_SETS, stateful(replicas=1, volumeClaimTemplates=[CLAIM]))
        await asyncio.sleep(2)
        (claim,) = await c.all(CLAIMS)
        key = "/registry/persistentvolumeclaims/default/data-web-0"
        await c.store.delete(key, revision=int(claim["metadata"]["resourceVersion"]))
        policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
        await change_spec(c, STATEFUL_SETS, "web", persistentVolumeClaimRetentionPolicy=policy)
        await asyncio.sleep(2)
        (again,) = await c.all(CLAIMS)
        assert again["metadata"]["uid"] != claim["metadata"]["uid"]
        assert [each["kind"] for each in again["metadata"]["ownerReferences"]] == ["StatefulSet"]


@virtual_time
async def test_only_so_much_history_is_kept_and_what_is_used() -> None:
    async with controlled() as c:
        await c.make(STATEFUL_SETS, stateful(replicas=1, revisionHistoryLimit=1))
        for number in range(2, 6):
            await until(lambda: is_done(c))
            await change_spec(c, STATEFUL_SETS, "web", template=template(f"web:{number}"))
        await until(lambda: is_done(c))
        await asyncio.sleep(5)
        assert sorted(each["revision"] for each in await c.all(CONTROLLER_REVISIONS)) == [4, 5]
        await change_spec(c, STATEFUL_SETS, "web", template=template("web:4"))
        await until(lambda: is_done(c))
        assert sorted(each["revision"] for each in await c.all(CONTROLLER_REVISIONS)) == [5, 6]
        assert (await images(c))["web-0"] == "web:4"


@virtual_time
async def test_orphans_of_its_name_are_adopted_and_strangers_are_not() -> None:
    async with controlled(pods=False) as c:
        for name in ("web-0", "web-x", "stranger-0"):
            await c.pod(name, metadata={"labels": {"app": "web"}})
        made = await c.make(STATEFUL_SETS, stateful(replicas=1))
        await asyncio.sleep(2)
        owned = {
            pod["metadata"]["name"]: at(pod, "metadata.ownerReferences", [{}])[0].get("uid")
            for pod in await c.all(PODS)
        }
        assert owned == {"web-0": made["metadata"]["uid"], "web-x": None, "stranger-0": None}


@virtual_time
async def test_a_number_beyond_all_reason_takes_neither_time_nor_memory() -> None:
    for policy, expected in (("OrderedReady", 1), ("Parallel", 500)):
        async with controlled(pods=False) as c:
            await c.make(STATEFUL_SETS, stateful(replicas=2**31 - 1, podManagementPolicy=policy))
            await asyncio.sleep(3)
            assert len(await c.all(PODS)) == expected

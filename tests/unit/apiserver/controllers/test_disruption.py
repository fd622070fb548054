"""What a disruption budget says of its pods."""

import asyncio
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.client import PODS
from pykubelet.apiserver.controllers.disruption import BUDGETS, DisruptionController

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def owner(kind: str, name: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-of-{name}", "controller": True}]


async def deployment(c: TestCluster, replicas: int, ready: int) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    await c.add("apps", "deployments", {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    metadata = {"name": "web-1", "namespace": "default", "ownerReferences": owner("Deployment", "web")}
    await c.add("apps", "replicasets", {"metadata": metadata, "spec": {**spec, "replicas": 1}})
    for number in range(replicas):
        meta = {"labels": {"app": "x"}, "ownerReferences": owner("ReplicaSet", "web-1")}
        await c.pod(f"p{number}", metadata=meta, status=READY if number < ready else {"phase": "Pending"})


async def budget(c: TestCluster, **spec: Any) -> None:
    whole = {"selector": {"matchLabels": {"app": "x"}}, **spec}
    await c.make(BUDGETS, {"metadata": {"name": "b", "namespace": "default"}, "spec": whole})


async def status(c: TestCluster) -> Any:
    return (await c.get("poddisruptionbudgets", "b", group="policy"))["status"]


@pytest.mark.parametrize(
    ("spec", "ready", "wanted", "allowed"),
    [
        ({"minAvailable": 2}, 4, 2, 2),
        ({"minAvailable": 2}, 1, 2, 0),
        ({"minAvailable": "50%"}, 4, 2, 2),
        ({"minAvailable": "51%"}, 4, 3, 1),
        ({"maxUnavailable": 1}, 4, 3, 1),
        ({"maxUnavailable": "30%"}, 4, 2, 2),
        ({"maxUnavailable": 9}, 3, 0, 3),
    ],
)
@virtual_time
async def test_what_may_go_follows_from_what_there_is_and_is_to_be(
    spec: dict[str, Any], ready: int, wanted: int, allowed: int
) -> None:
    async with cluster() as c:
        await deployment(c, 4, ready)
        await budget(c, **spec)
        async with running(DisruptionController(c)):
            await asyncio.sleep(2)
            found = await status(c)
            counts = (found["currentHealthy"], found["desiredHealthy"], found["disruptionsAllowed"])
            assert counts == (ready, wanted, allowed)
            assert (found["expectedPods"], found["observedGeneration"]) == (4, 1)
            (told,) = found["conditions"]
            assert told["status"] == ("True" if allowed else "False")


@virtual_time
async def test_pods_that_come_and_go_are_followed() -> None:
    async with cluster() as c:
        await deployment(c, 2, 2)
        await budget(c, minAvailable=1)
        async with running(DisruptionController(c)):
            await asyncio.sleep(2)
            assert (await status(c))["disruptionsAllowed"] == 1
            await c.remove(PODS, await c.get("pods", "p0"), grace=0)
            await asyncio.sleep(2)
            assert (await status(c))["disruptionsAllowed"] == 0


@virtual_time
async def test_a_pod_that_was_to_go_and_did_not_counts_again_after_a_while() -> None:
    async with cluster() as c:
        await deployment(c, 2, 2)
        await budget(c, minAvailable=1)
        async with running(DisruptionController(c)):
            await asyncio.sleep(2)
            there = await c.get("poddisruptionbudgets", "b", group="policy")
            going = {**there["status"], "disruptionsAllowed": 0, "disruptedPods": {"p0": "2026-01-02T03:04:05Z"}}
            await c.change(BUDGETS, there, lambda live: {**live, "status": going}, part="status")
            await asyncio.sleep(2)
            assert (await status(c))["currentHealthy"] == 1
            c.clock.pass_(125)
            await asyncio.sleep(125)
            found = await status(c)
            assert (found["currentHealthy"], found["disruptionsAllowed"]) == (2, 1)
            assert "disruptedPods" not in found


@virtual_time
async def test_where_nobody_knows_how_many_there_are_to_be_nothing_may_go() -> None:
    async with cluster() as c:
        meta = {"labels": {"app": "x"}, "ownerReferences": owner("ReplicaSet", "gone")}
        await c.pod("p", metadata=meta, status=READY)
        await budget(c, maxUnavailable=1)
        async with running(DisruptionController(c)):
            await asyncio.sleep(2)
            found = await status(c)
            assert found["disruptionsAllowed"] == 0
            assert found["conditions"][0]["reason"] == "SyncFailed"


@virtual_time
async def test_pods_of_nobody_count_where_a_number_is_given() -> None:
    async with cluster() as c:
        for name in ("a", "b"):
            await c.pod(name, metadata={"labels": {"app": "x"}}, status=READY)
        await budget(c, minAvailable=1)
        async with running(DisruptionController(c)):
            await asyncio.sleep(2)
            assert (await status(c))["disruptionsAllowed"] == 1


@virtual_time
async def test_a_pod_that_was_to_be_disrupted_and_stayed_is_told_so() -> None:
    told = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    async with cluster() as c:
        for name, since in (("old", "2026-01-02T03:00:00Z"), ("new", "2026-01-02T03:04:00Z")):
            await c.pod(name, status={"phase": "Running", "conditions": [{**told, "lastTransitionTime": since}]})
        await DisruptionController(c).forget()
        found = {name: (await c.get("pods", name))["status"]["conditions"][0]["status"] for name in ("old", "new")}
        assert found == {"old": "False", "new": "True"}

"""Pods that nobody will ever end."""

import asyncio

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.pods import PodGarbageCollector

PODS = ("", "pods")


@virtual_time
async def test_pods_of_a_node_that_is_gone_are_cleared_away_after_a_while() -> None:
    async with cluster() as c, running(PodGarbageCollector(c)):
        await c.node("n1")
        await c.pod("stays", {"nodeName": "n1"})
        await c.pod("goes", {"nodeName": "n2", "terminationGracePeriodSeconds": 30})
        await asyncio.sleep(30)
        assert await c.get("pods", "goes") is not None

        await asyncio.sleep(60)
        assert await c.get("pods", "goes") is None
        assert await c.get("pods", "stays") is not None


@virtual_time
async def test_a_node_that_registers_anew_in_time_keeps_its_pods() -> None:
    async with cluster() as c, running(PodGarbageCollector(c)):
        await c.pod("stays", {"nodeName": "n1"})
        await asyncio.sleep(30)
        await c.node("n1")
        await asyncio.sleep(120)

        assert (await c.get("pods", "stays"))["status"]["phase"] == "Pending"


@virtual_time
async def test_a_pod_that_was_deleted_before_it_had_a_node_goes_at_once() -> None:
    async with cluster() as c:
        gone = {"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 30}
        await c.pod("goes", metadata=gone)
        await PodGarbageCollector(c).sync()

        assert await c.get("pods", "goes") is None


@virtual_time
async def test_one_that_vanishes_or_changes_in_between_stops_nothing() -> None:
    async with cluster() as c:
        vanishing, changing = [await c.pod(name, {"nodeName": "n2"}) for name in ("a", "b")]
        collector = PodGarbageCollector(c, quarantine=0.0)
        c.store.before_write("pods/default/a", lambda: c.remove(PODS, vanishing, grace=0))
        c.store.before_write("pods/default/b", lambda: c.label(PODS, changing, app="new"))
        await collector.sync()

        assert await c.all(PODS) == []


@virtual_time
async def test_what_holds_a_pod_is_waited_for_and_the_pod_says_why_it_failed() -> None:
    async with cluster() as c:
        await c.pod("held", {"nodeName": "n2"}, metadata={"finalizers": ["example.com/hold"]})
        await PodGarbageCollector(c, quarantine=0.0).sync()

        held = await c.get("pods", "held")
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0
        assert held["status"]["phase"] == "Failed"
        assert condition(held, "DisruptionTarget")["reason"] == "DeletionByPodGC"


@virtual_time
async def test_they_go_once_the_store_is_back() -> None:
    async with cluster() as c:
        await c.pod("goes", {"nodeName": "n2"})
        async with running(PodGarbageCollector(c), supervised=True):
            await asyncio.sleep(5)
            c.store.is_away = True
            await asyncio.sleep(60)
            c.store.is_away = False
            await asyncio.sleep(150)

            assert await c.get("pods", "goes") is None

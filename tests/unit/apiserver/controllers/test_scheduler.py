"""Which node a pod gets, and when."""

import asyncio

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.scheduler import Scheduler


@virtual_time
async def test_a_pod_is_bound_at_once_and_an_event_tells_of_it() -> None:
    async with cluster() as c, running(Scheduler(c)):
        await c.node("n1")
        await c.pod("web")
        await asyncio.sleep(0.5)

        pod = await c.get("pods", "web")
        assert pod["spec"]["nodeName"] == "n1"
        assert condition(pod, "PodScheduled")["status"] == "True"
        assert await c.events() == [("Scheduled", "Successfully assigned default/web to n1")]


@virtual_time
async def test_a_pod_that_fits_nowhere_says_why_once_and_is_bound_when_a_node_comes() -> None:
    async with cluster() as c, running(Scheduler(c)):
        await c.pod("web", {"containers": [{"name": "m", "resources": {"requests": {"cpu": "1"}}}]})
        await c.node("small", allocatable={"cpu": "500m", "memory": "1Gi", "pods": "10"})
        await asyncio.sleep(5)

        waiting = condition(await c.get("pods", "web"), "PodScheduled")
        assert (waiting["status"], waiting["reason"]) == ("False", "Unschedulable")
        assert waiting["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        assert [text for reason, text in await c.events() if reason == "FailedScheduling"][-1] == waiting["message"]

        await c.node("large")
        await asyncio.sleep(5)
        assert (await c.get("pods", "web"))["spec"]["nodeName"] == "large"


@virtual_time
async def test_pods_that_come_together_do_not_get_the_same_room() -> None:
    one = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "1500m"}}}]}
    async with cluster() as c:
        await c.node("n1")
        await c.pod("a", one)
        await c.pod("b", one)
        await Scheduler(c).sync()

        assert [(await c.get("pods", name))["spec"].get("nodeName") for name in "ab"] == ["n1", None]


@virtual_time
async def test_pods_of_another_scheduler_and_gated_ones_are_left_alone() -> None:
    async with cluster() as c:
        await c.node("n1")
        await c.pod("theirs", {"schedulerName": "other"})
        await c.pod("gated", {"schedulingGates": [{"name": "later"}]})
        await Scheduler(c).sync()

        assert not [each for each in await c.all(("", "pods")) if "nodeName" in each["spec"]]


@virtual_time
async def test_the_room_of_a_pod_that_has_ended_is_free() -> None:
    one = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "2"}}}]}
    async with cluster() as c:
        await c.node("n1")
        await c.pod("old", {**one, "nodeName": "n1"}, status={"phase": "Succeeded"})
        await c.pod("new", one)
        await Scheduler(c).sync()

        assert (await c.get("pods", "new"))["spec"]["nodeName"] == "n1"

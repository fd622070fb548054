"""Which node a pod gets, and when."""

import asyncio
import threading
from typing import Any

import pytest

from kit.cluster import cluster, owners, running
from kit.virtual_time import virtual_time
from pykubelet.api.objects import ObjectReference
from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.scheduling.board import Board, Seen
from pykubelet.apiserver.controllers.scheduling.scheduler import Scheduler, seen
from pykubelet.apiserver.verbs.binding import Binding, bind_pod
from pykubelet.apiserver.writer.author import KUBE_SCHEDULER

PODS = ("", "pods")
ONE_CPU = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "1500m"}}}]}
POD = {"containers": [{"name": "c", "image": "x"}]}


ROOMY: dict[str, Any] = {
    "spec": {},
    "status": {
        "allocatable": {"cpu": "100", "memory": "100Gi", "pods": "100"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


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
        assert waiting["message"] == (
            "0/1 nodes are available: 1 Insufficient cpu. "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
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


@virtual_time
async def test_a_change_in_between_is_kept_when_the_pod_is_bound() -> None:
    async with cluster() as c:
        await c.node("n1")
        pod = await c.pod("web")
        c.store.before_write("pods/default/web", lambda: c.label(PODS, pod, app="new"))
        await Scheduler(c).sync()

        found = await c.get("pods", "web")
        assert (found["spec"]["nodeName"], found["metadata"]["labels"]) == ("n1", {"app": "new"})


@virtual_time
async def test_a_pod_that_somebody_else_binds_first_takes_no_room_of_ours_and_is_not_told_of() -> None:
    async with cluster() as c:
        await c.node("n1")
        await c.node("n2", ready="False", spec={"unschedulable": True})
        await c.pod("a", ONE_CPU)
        await c.pod("b", ONE_CPU)
        other = Binding(target=ObjectReference(name="n2"))
        c.store.before_write("pods/default/a", lambda: bind_pod(c.writer, "default", "a", other))
        await Scheduler(c).sync()

        assert [(await c.get("pods", name))["spec"].get("nodeName") for name in "ab"] == ["n2", "n1"]
        assert await c.events() == [("Scheduled", "Successfully assigned default/b to n1")]


@virtual_time
async def test_a_pod_that_fits_nowhere_and_is_bound_by_somebody_else_is_not_said_to_wait() -> None:
    async with cluster() as c:
        await c.pod("a")
        other = Binding(target=ObjectReference(name="n2"))
        c.store.before_write("pods/default/a", lambda: bind_pod(c.writer, "default", "a", other))
        await Scheduler(c).sync()

        assert condition(await c.get("pods", "a"), "PodScheduled")["status"] == "True"
        assert await c.events() == []


@virtual_time
async def test_a_pod_that_vanishes_before_it_is_bound_leaves_its_room_to_the_next() -> None:
    async with cluster() as c:
        await c.node("n1")
        gone = await c.pod("a", ONE_CPU)
        await c.pod("b", ONE_CPU)
        c.store.before_write("pods/default/a", lambda: c.remove(PODS, gone))
        await Scheduler(c).sync()

        assert await c.get("pods", "a") is None
        assert (await c.get("pods", "b"))["spec"]["nodeName"] == "n1"


@virtual_time
async def test_a_pod_of_the_same_name_but_another_uid_is_not_bound_for_the_one_that_was_looked_at() -> None:
    async with cluster() as c:
        await c.node("n1")
        first = await c.pod("a")

        async def replaced() -> None:
            await c.remove(PODS, first)
            await c.pod("a", {"nodeSelector": {"disk": "fast"}}, metadata={"uid": "another"})

        c.store.before_write("pods/default/a", replaced)
        await Scheduler(c).sync()
        assert "nodeName" not in (await c.get("pods", "a"))["spec"]


@virtual_time
async def test_an_event_that_is_refused_stands_in_nobodys_way() -> None:
    async with cluster() as c:
        await c.node("n1")
        await c.add("", "namespaces", {"metadata": {"name": "doomed", "deletionTimestamp": "2026-01-02T03:04:05Z"}})
        await c.pod("a", metadata={"namespace": "doomed"})
        await c.pod("b")
        await Scheduler(c).sync()

        assert (await c.get("pods", "a", "doomed"))["spec"]["nodeName"] == "n1"
        assert await c.events() == [("Scheduled", "Successfully assigned default/b to n1")]


@virtual_time
async def test_pods_are_bound_once_the_store_is_back() -> None:
    async with cluster() as c, running(Scheduler(c), supervised=True):
        await c.node("n1")
        await asyncio.sleep(1)
        await c.pod("web")
        c.store.is_away = True
        await asyncio.sleep(30)
        c.store.is_away = False
        await asyncio.sleep(90)

        assert (await c.get("pods", "web"))["spec"]["nodeName"] == "n1"


@virtual_time
async def test_what_the_scheduler_says_is_its_own_and_binding_makes_nobody_an_owner() -> None:
    async with cluster() as c:
        await c.writer.ensure(c.resource(PODS), {"metadata": {"name": "a", "namespace": "default"}, "spec": POD})
        scheduler = Scheduler(ControllerClient(c.backend, KUBE_SCHEDULER))
        await scheduler.sync()
        waiting = await c.get("pods", "a")
        assert owners(waiting) == [("kube-controller-manager", None), ("kube-scheduler", "status")]

        await c.node("n1")
        await scheduler.sync()
        bound = await c.get("pods", "a")
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["managedFields"] == waiting["metadata"]["managedFields"]
        (event, *_) = await c.all(("", "events"))
        assert owners(event) == [("kube-scheduler", None)]


def asking(cpu: str, **spec: Any) -> dict[str, Any]:
    return {"containers": [{"name": "m", "resources": {"requests": {"cpu": cpu}}}], **spec}


@virtual_time
async def test_a_more_important_pod_drives_a_lesser_out_and_gets_its_room() -> None:
    async with cluster() as c, running(Scheduler(c)):
        await c.node("n1")
        await c.pod("low", asking("1500m"))
        await asyncio.sleep(1)
        await c.pod("high", asking("1", priority=1000))
        await asyncio.sleep(1)

        high, low = await c.get("pods", "high"), await c.get("pods", "low")
        assert high["status"]["nominatedNodeName"] == "n1"
        assert condition(high, "PodScheduled")["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        assert low["metadata"]["deletionTimestamp"]
        disrupted = condition(low, "DisruptionTarget")
        assert (disrupted["status"], disrupted["reason"]) == ("True", "PreemptionByScheduler")
        assert ("Preempted", f"Preempted by pod {high['metadata']['uid']} on node n1") in await c.events()

        await c.pod("later", asking("1"))
        await c.remove(PODS, await c.get("pods", "low"), grace=0)
        await asyncio.sleep(1)
        high = await c.get("pods", "high")
        assert high["spec"]["nodeName"] == "n1"
        assert "nominatedNodeName" not in high["status"]


@virtual_time
async def test_room_that_is_made_for_one_is_not_given_to_a_lesser() -> None:
    async with cluster() as c:
        await c.node("n1")
        await c.pod("low", asking("2"))
        scheduler = Scheduler(c)
        await scheduler.sync()
        await c.pod("high", asking("2", priority=1000))
        await scheduler.sync()
        await c.remove(PODS, await c.get("pods", "low"), grace=0)
        await c.pod("cheeky", asking("100m"))
        await scheduler.sync()

        assert (await c.get("pods", "high"))["spec"]["nodeName"] == "n1"
        assert "nodeName" not in (await c.get("pods", "cheeky"))["spec"]


@virtual_time
async def test_nobody_is_driven_out_twice_while_the_first_still_leaves() -> None:
    async with cluster() as c:
        await c.node("n1")
        for name in ("a", "b"):
            await c.pod(name, asking("1"))
        scheduler = Scheduler(c)
        await scheduler.sync()
        await c.pod("high", asking("1", priority=1000))
        for _ in range(3):
            await scheduler.sync()
        leaving = [n for n in ("a", "b") if (await c.get("pods", n))["metadata"].get("deletionTimestamp")]
        assert len(leaving) == 1
        assert (await c.get("pods", "high"))["status"]["nominatedNodeName"] == "n1"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (asking("1", priority=1000, preemptionPolicy="Never"), "not eligible due to preemptionPolicy=Never."),
        (asking("1"), "0/1 nodes are available: 1 No preemption victims found for incoming pod."),
        (asking("3", priority=1000), "0/1 nodes are available: 1 Preemption is not helpful for scheduling."),
        (
            asking("1", priority=1000, nodeSelector={"a": "b"}),
            "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        ),
    ],
)
@virtual_time
async def test_one_who_may_not_or_cannot_drive_others_out_says_so(spec: dict[str, Any], why: str) -> None:
    async with cluster() as c:
        await c.node("n1")
        await c.pod("low", asking("1500m"))
        await Scheduler(c).sync()
        await c.pod("late", spec)
        await Scheduler(c).sync()
        assert condition(await c.get("pods", "late"), "PodScheduled")["message"].endswith(f" preemption: {why}")
        assert "deletionTimestamp" not in (await c.get("pods", "low"))["metadata"]


@virtual_time
async def test_a_pod_goes_where_it_likes_the_others_better() -> None:
    def liking(kind: str) -> dict[str, Any]:
        term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
        wish = [{"weight": 100, "podAffinityTerm": term}]
        return {**POD, "affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": wish}}}

    async with cluster() as c:
        for name in ("n1", "n2"):
            await c.node(name, labels={"kubernetes.io/hostname": name})
        await c.pod("db", {**POD, "nodeSelector": {"kubernetes.io/hostname": "n2"}}, labels={"app": "db"})
        await Scheduler(c).sync()
        await c.pod("near", liking("podAffinity"))
        await c.pod("far", liking("podAntiAffinity"))
        await Scheduler(c).sync()
        assert (await c.get("pods", "near"))["spec"]["nodeName"] == "n2"
        assert (await c.get("pods", "far"))["spec"]["nodeName"] == "n1"


async def test_pods_with_very_many_wishes_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant fills a few pods with what they do not want near them: everybody else is still answered meanwhile."""
    selectors = [{"matchExpressions": [{"key": f"k{n}", "operator": "In", "values": ["a", "b"]}]} for n in range(500)]
    terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": each} for each in selectors]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    threads: list[int] = []
    choose = Board.choose

    def noted(board: Board, pod: Seen, *others: Any) -> tuple[str, dict[str, list[str]]]:
        threads.append(threading.get_ident())
        return choose(board, pod, *others)

    monkeypatch.setattr(Board, "choose", noted)
    async with cluster() as c:
        await c.add("", "nodes", {"metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}}, **ROOMY})
        for number in range(40):
            await c.pod(f"there-{number}", {"nodeName": "n", "affinity": affinity})
        for number in range(3):
            await c.pod(f"new-{number}", {"affinity": affinity})
        await Scheduler(c).sync()
        assert (await c.get("pods", "new-2"))["spec"]["nodeName"] == "n"
    assert len(threads) == 3
    assert threading.get_ident() not in threads


def _resizing(asked: str, has: str, reason: str = "") -> Seen:
    """A pod on a node that asks for so much and was seen to have another amount."""
    container = {"name": "m", "resources": {"requests": {"cpu": asked}}}
    shown = {"name": "m", "resources": {"requests": {"cpu": has}}, "allocatedResources": {"cpu": has}}
    waits = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    return seen(
        {
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"nodeName": "n1", "containers": [container]},
            "status": {"phase": "Running", "containerStatuses": [shown], "conditions": waits},
        }
    )


@pytest.mark.parametrize(
    ("asked", "has", "reason", "counts"),
    [
        ("1", "1", "", "1"),
        ("2", "1", "", "2"),
        ("2", "1", "Deferred", "2"),
        ("500", "1", "Infeasible", "1"),  # what never comes keeps nobody out
        ("1", "2", "", "2"),  # it has not given it back yet
    ],
)
def test_while_a_pod_changes_its_size_the_larger_one_counts(asked: str, has: str, reason: str, counts: str) -> None:
    wanted = _resizing(asked, has, reason).wish
    assert wanted is not None
    assert str(wanted.requests["cpu"]) == counts

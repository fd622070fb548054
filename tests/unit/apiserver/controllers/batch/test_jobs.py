"""Jobs, from the first pod to the last."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster, running
from kit.virtual_time import virtual_time
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import ObjectReference
from pykubelet.apiserver.controllers.batch.jobs import JOBS, JobController
from pykubelet.apiserver.controllers.client import EVENTS, PODS
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.options import DeleteOptions
from pykubelet.apiserver.verbs.binding import Binding, bind_pod

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


def job(name: str = "work", **spec: Any) -> Object:
    pod = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": {"spec": pod}, **spec}}


class Jobs:
    """A cluster with jobs in it, and a kubelet that is told how pods end."""

    def __init__(self, c: TestCluster) -> None:
        self.c = c

    async def settle(self, seconds: float = 5.0) -> None:
        """Time passes for everybody."""
        for _ in range(int(seconds)):
            await asyncio.sleep(1)
            self.c.clock.pass_(1)

    async def job(self, name: str = "work") -> Any:
        return await self.c.get("jobs", name, group="batch")

    async def pods(self, phase: str = "") -> list[Any]:
        found = await self.c.all(PODS, "default")
        return [each for each in found if not phase or each.get("status", {}).get("phase") == phase]

    async def end(self, pod: Any, code: int = 0) -> None:
        time = f"{self.c.clock.time:%Y-%m-%dT%H:%M:%SZ}"
        ended = {"name": "main", "state": {"terminated": {"exitCode": code, "finishedAt": time}}}
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [ended]}
        await self.c.change(PODS, pod, lambda live: {**live, "status": {**live["status"], **status}}, part="status")

    async def suspend(self, job: Any, is_suspended: bool) -> None:
        await self.c.change(JOBS, job, lambda live: {**live, "spec": {**live["spec"], "suspend": is_suspended}})

    async def conditions(self, name: str = "work") -> list[tuple[str, str]]:
        found = (await self.job(name)).get("status", {}).get("conditions", ())
        return [(each["type"], each["reason"]) for each in found if each["status"] == "True"]


@asynccontextmanager
async def jobs(*wanted: Object) -> AsyncGenerator[Jobs, None]:
    async with cluster() as c:
        for each in wanted:
            await c.make(JOBS, each)
        async with running(JobController(c)):
            world = Jobs(c)
            await world.settle()
            yield world


@virtual_time
async def test_a_job_runs_its_pods_a_few_at_a_time_until_enough_have_succeeded() -> None:
    async with jobs(job(completions=3, parallelism=2)) as world:
        first = await world.pods()
        assert len(first) == 2
        assert {tuple(each["metadata"]["finalizers"]) for each in first} == {(TRACKING,)}
        assert (await world.job())["status"]["active"] == 2
        for pod in first:
            await world.end(pod)
        await world.settle()
        (last,) = await world.pods("Pending")
        await world.end(last)
        await world.settle()

        status = (await world.job())["status"]
        assert (status["succeeded"], status["uncountedTerminatedPods"], status["ready"]) == (3, {}, 0)
        assert await world.conditions() == [
            ("SuccessCriteriaMet", "CompletionsReached"),
            ("Complete", "CompletionsReached"),
        ]
        assert status["completionTime"]
        assert all("finalizers" not in each["metadata"] for each in await world.pods())
        reasons = [reason for reason, _ in await world.c.events()]
        assert (reasons.count("SuccessfulCreate"), reasons.count("Completed")) == (3, 1)


@virtual_time
async def test_a_pod_that_fails_is_replaced_later_each_time_and_then_the_job_fails() -> None:
    async with jobs(job(backoffLimit=2)) as world:
        waits = []
        for _ in range(3):
            (pod,) = await world.pods("Pending")
            await world.end(pod, 1)
            seconds = 0
            while not await world.pods("Pending") and not await world.conditions():
                await world.settle(1)
                seconds += 1
            waits.append(seconds)
        assert 10 <= waits[0] <= 13
        assert 20 <= waits[1] <= 23
        await world.settle()
        assert await world.conditions() == [
            ("FailureTarget", "BackoffLimitExceeded"),
            ("Failed", "BackoffLimitExceeded"),
        ]
        assert (await world.job())["status"]["failed"] == 3
        assert ("BackoffLimitExceeded", "Job has reached the specified backoff limit") in await world.c.events()


@virtual_time
async def test_each_index_has_a_pod_that_knows_it() -> None:
    async with jobs(job(completions=2, parallelism=2, completionMode="Indexed")) as world:
        pods = sorted(await world.pods(), key=lambda each: str(each["spec"]["hostname"]))
        assert [each["spec"]["hostname"] for each in pods] == ["work-0", "work-1"]
        assert pods[1]["metadata"]["annotations"][INDEX] == "1"
        assert pods[1]["metadata"]["labels"][INDEX] == "1"
        (variable,) = pods[1]["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
        for pod in pods:
            await world.end(pod)
        await world.settle()
        assert (await world.job())["status"]["completedIndexes"] == "0,1"
        assert ("Complete", "CompletionsReached") in await world.conditions()


@virtual_time
async def test_an_index_that_fails_too_often_is_given_up_and_the_others_go_on() -> None:
    wanted = job(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    async with jobs(wanted) as world:
        for _ in range(2):
            bad = [each for each in await world.pods("Pending") if each["spec"]["hostname"] == "work-0"]
            await world.end(bad[0], 1)
            await world.settle(30)
        status = (await world.job())["status"]
        assert status["failedIndexes"] == "0"
        (other,) = await world.pods("Pending")
        await world.end(other)
        await world.settle()
        assert ("Failed", "FailedIndexes") in await world.conditions()
        assert (await world.job())["status"]["completedIndexes"] == "1"


@virtual_time
async def test_a_policy_ignores_a_failure_and_fails_the_job_for_another() -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    async with jobs(job(podFailurePolicy={"rules": rules}, backoffLimit=0)) as world:
        (pod,) = await world.pods()
        disrupted = {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}
        await world.c.change(PODS, pod, lambda live: {**live, "status": disrupted}, part="status")
        await world.settle(12)
        assert "failed" not in (await world.job())["status"]
        (pod,) = await world.pods("Pending")
        await world.end(pod, 42)
        await world.settle()
        assert ("Failed", "PodFailurePolicy") in await world.conditions()


@virtual_time
async def test_a_suspended_job_has_no_pods_and_begins_anew_when_it_may() -> None:
    async with jobs(job(suspend=True, parallelism=2, completions=2)) as world:
        assert await world.pods() == []
        assert await world.conditions() == [("Suspended", "JobSuspended")]
        found = await world.job()
        assert "startTime" not in found["status"]
        for suspend, count in ((False, 2), (True, 0)):
            await world.suspend(found, suspend)
            await world.settle()
            active = [each for each in await world.pods() if "deletionTimestamp" not in each["metadata"]]
            assert len(active) == count
        told = {each["reason"]: each["count"] for each in await world.c.all(EVENTS)}
        assert (told["Resumed"], told["Suspended"]) == (1, 2)


@virtual_time
async def test_a_job_that_takes_too_long_fails_and_its_pods_go() -> None:
    async with jobs(job(activeDeadlineSeconds=60)) as world:
        await world.settle(50)
        assert await world.conditions() == []
        await world.settle(20)
        assert ("FailureTarget", "DeadlineExceeded") in await world.conditions()
        for pod in await world.pods():
            assert "deletionTimestamp" in pod["metadata"]


@virtual_time
async def test_pods_of_a_job_that_is_deleted_are_let_go() -> None:
    async with jobs(job()) as world:
        options = DeleteOptions(propagation_policy="Background")
        await world.c.writer.delete(world.c.resource(JOBS), "default", "work", options)
        await world.settle()
        (pod,) = await world.pods()
        assert "finalizers" not in pod["metadata"]


@virtual_time
async def test_one_who_comes_later_goes_on_where_another_stopped() -> None:
    async with cluster() as c:
        await c.make(JOBS, job(completions=2, parallelism=2))
        world = Jobs(c)
        async with running(JobController(c)):
            await world.settle()
            pods = await world.pods()
        await world.end(pods[0])
        # It died after it had written down the pod and before it had counted it.
        uid = pods[0]["metadata"]["uid"]
        written = {"uncountedTerminatedPods": {"succeeded": [uid]}}
        await c.change(
            JOBS, await world.job(), lambda live: {**live, "status": {**live["status"], **written}}, part="status"
        )
        async with running(JobController(c)):
            await world.settle()
            assert (await world.job())["status"]["succeeded"] == 1
            await world.end(pods[1])
            await world.settle()
            assert (await world.job())["status"]["succeeded"] == 2
            assert len(await world.pods()) == 2


@virtual_time
async def test_a_pod_is_let_go_whose_job_went_while_nobody_was_there() -> None:
    async with cluster() as c:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "gone", "controller": True}
        await c.pod("left", metadata={"finalizers": [TRACKING], "ownerReferences": [owner]})
        async with running(JobController(c)):
            await asyncio.sleep(2)
            assert "finalizers" not in (await c.get("pods", "left"))["metadata"]


@virtual_time
async def test_a_job_of_somebody_else_is_left_alone() -> None:
    async with jobs(job(managedBy="example.com/other")) as world:
        assert await world.pods() == []
        assert (await world.job())["status"] == {}


@virtual_time
async def test_an_orphan_that_the_selector_finds_is_taken_over() -> None:
    wanted = job(manualSelector=True, selector={"matchLabels": {"app": "x"}})
    wanted["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    async with cluster() as c:
        await c.pod("orphan", metadata={"labels": {"app": "x"}}, status={"phase": "Running"})
        await c.make(JOBS, wanted)
        world = Jobs(c)
        async with running(JobController(c)):
            await world.settle()
            (pod,) = await world.pods()
            assert pod["metadata"]["name"] == "orphan"
            assert pod["metadata"]["finalizers"] == [TRACKING]
            assert pod["metadata"]["ownerReferences"][0]["name"] == "work"


@virtual_time
async def test_pods_that_are_refused_are_told_of_and_tried_again() -> None:
    wanted = job()
    wanted["spec"]["template"]["spec"]["serviceAccountName"] = "nobody"
    async with jobs(wanted) as world:
        assert await world.pods() == []
        assert any(reason == "FailedCreate" for reason, _ in await world.c.events())
        await world.c.add("", "serviceaccounts", {"metadata": {"name": "nobody", "namespace": "default"}})
        await world.settle(60)
        assert len(await world.pods()) == 1


@pytest.mark.parametrize("policy", ["TerminatingOrFailed", "Failed"])
@virtual_time
async def test_a_pod_that_is_about_to_go_is_replaced_at_once_or_when_it_has_gone(policy: str) -> None:
    async with jobs(job(podReplacementPolicy=policy)) as world:
        (pod,) = await world.pods()
        name, node = pod["metadata"]["name"], ObjectReference(kind="Node", name="n1")
        await bind_pod(world.c.writer, "default", name, Binding(ObjectMeta(name=name), node))
        await world.c.remove(PODS, pod)
        await world.settle(15)
        assert len(await world.pods()) == (1 if policy == "Failed" else 2)

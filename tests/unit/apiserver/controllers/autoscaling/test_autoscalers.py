"""Autoscalers at work: what they scale, and what they say about it."""

import asyncio
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.autoscaling.autoscalers import AUTOSCALERS, AutoscalerController
from pykubelet.apiserver.controllers.autoscaling.replicas import metered
from pykubelet.apiserver.objects import Object

DEPLOYMENTS = ("apps", "deployments")
READY = {
    "phase": "Running",
    "startTime": "2026-01-02T02:00:00Z",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T02:00:10Z"}],
}


class World:
    """A deployment whose pods use as much as they are told."""

    def __init__(self, c: TestCluster) -> None:
        self.c = c
        self.cpu = "100m"
        self.controller = AutoscalerController(c, self.measure)

    async def measure(self, pods: list[Object]) -> list[Object]:
        if not self.cpu:
            return []
        usage = {"cpu": self.cpu, "memory": "64Mi"}
        time = f"{self.c.clock.time:%Y-%m-%dT%H:%M:%SZ}"
        return [
            {
                "metadata": pod["metadata"],
                "timestamp": time,
                "window": "10s",
                "containers": [{"name": "main", "usage": usage}],
            }
            for pod in pods
        ]

    async def start(self, replicas: int = 2, **spec: Any) -> None:
        labels, resources = {"app": "x"}, {"requests": {"cpu": "200m", "memory": "128Mi"}}
        container = {"name": "main", "image": "x", "resources": resources}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        whole = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self.c.add(*DEPLOYMENTS, {"metadata": {"name": "web", "namespace": "default"}, "spec": whole})
        for number in range(replicas):
            await self.c.pod(f"p{number}", {"containers": [container]}, metadata={"labels": labels}, status=READY)
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        hpa = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, **spec}
        await self.c.make(AUTOSCALERS, {"metadata": {"name": "web", "namespace": "default"}, "spec": hpa})

    async def look(self, seconds: float = 15) -> Any:
        """-> the status of the autoscaler after one look"""
        self.c.clock.pass_(seconds)
        await self.controller.sync()
        await asyncio.sleep(1)
        return (await self.c.get("horizontalpodautoscalers", "web", group="autoscaling"))["status"]

    async def replicas(self) -> int:
        return int((await self.c.get("deployments", "web", group="apps"))["spec"]["replicas"])


def conditions(status: Any) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


@virtual_time
async def test_more_load_makes_more_replicas_and_says_so() -> None:
    async with cluster() as c:
        world = World(c)
        await world.start(metrics=[_cpu(50)])
        status = await world.look()
        assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 2)
        assert status["currentMetrics"] == [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "current": {"averageUtilization": 50, "averageValue": "100m"}},
            }
        ]
        world.cpu = "200m"
        status = await world.look()
        assert await world.replicas() == 4
        assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 4)
        assert status["lastScaleTime"]
        assert conditions(status) == {
            "AbleToScale": ("True", "SucceededRescale"),
            "ScalingActive": ("True", "ValidMetricFound"),
            "ScalingLimited": ("False", "DesiredWithinRange"),
        }
        text = "New size: 4; reason: cpu resource utilization (percentage of request) above target"
        assert ("SuccessfulRescale", text) in await c.events()


@virtual_time
async def test_less_load_makes_fewer_only_after_five_minutes() -> None:
    async with cluster() as c:
        world = World(c)
        await world.start(4, metrics=[_cpu(50)])
        await world.look()
        world.cpu = "25m"
        for _ in range(18):
            await world.look()
        status = await world.look()
        assert await world.replicas() == 4
        assert conditions(status)["AbleToScale"] == ("True", "ScaleDownStabilized")
        for _ in range(3):
            await world.look()
        assert await world.replicas() == 1


@virtual_time
async def test_a_behavior_bounds_the_steps() -> None:
    policies = [{"type": "Pods", "value": 1, "periodSeconds": 60}]
    async with cluster() as c:
        world = World(c)
        await world.start(metrics=[_cpu(10)], behavior={"scaleUp": {"policies": policies}})
        status = await world.look()
        assert await world.replicas() == 3
        assert conditions(status)["ScalingLimited"] == ("True", "ScaleUpLimit")
        await world.look(30)
        assert await world.replicas() == 3
        await world.look(31)
        assert await world.replicas() == 4


@pytest.mark.parametrize(
    ("replicas", "wanted", "reason"), [(12, 10, "above Spec.MaxReplicas"), (1, 3, "below Spec.MinReplicas")]
)
@virtual_time
async def test_bounds_are_kept_whatever_the_load(replicas: int, wanted: int, reason: str) -> None:
    async with cluster() as c:
        world = World(c)
        world.cpu = ""
        await world.start(replicas, minReplicas=3)
        await world.look()
        assert await world.replicas() == wanted
        assert any(reason in message for _, message in await c.events())


@virtual_time
async def test_nothing_is_scaled_where_nothing_is_known_or_it_is_switched_off() -> None:
    async with cluster() as c:
        world = World(c)
        world.cpu = ""
        await world.start(metrics=[_cpu(50)])
        status = await world.look()
        assert await world.replicas() == 2
        assert conditions(status)["ScalingActive"] == ("False", "FailedGetResourceMetric")
        (told,) = [each["message"] for each in status["conditions"] if each["type"] == "ScalingActive"]
        assert told.endswith("unable to get metrics for resource cpu: no metrics returned from resource metrics API")
        assert {"FailedGetResourceMetric", "FailedComputeMetricsReplicas"} <= {reason for reason, _ in await c.events()}
        deployment = await c.get("deployments", "web", group="apps")
        await c.change(DEPLOYMENTS, deployment, lambda live: {**live, "spec": {**live["spec"], "replicas": 0}})
        status = await world.look()
        assert conditions(status)["ScalingActive"] == ("False", "ScalingDisabled")
        assert await world.replicas() == 0


@virtual_time
async def test_what_is_not_there_or_has_no_metrics_here_is_told() -> None:
    async with cluster() as c:
        world = World(c)
        metric = {
            "type": "Pods",
            "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "5"}},
        }
        await world.start(metrics=[metric])
        status = await world.look()
        assert conditions(status)["ScalingActive"] == ("False", "FailedGetPodsMetric")
        await c.remove(DEPLOYMENTS, await c.get("deployments", "web", group="apps"))
        status = await world.look()
        assert conditions(status)["AbleToScale"] == ("False", "FailedGetScale")


@virtual_time
async def test_the_largest_of_several_metrics_counts_and_memory_is_shown_in_its_units() -> None:
    memory = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "16Mi"}},
    }
    async with cluster() as c:
        world = World(c)
        await world.start(metrics=[_cpu(50), memory])
        status = await world.look()
        assert await world.replicas() == 4
        assert status["currentMetrics"][1]["resource"]["current"] == {"averageValue": "64Mi"}
        assert conditions(status)["ScalingLimited"] == ("True", "ScaleUpLimit")


@virtual_time
async def test_two_autoscalers_for_the_same_pods_do_nothing() -> None:
    async with cluster() as c:
        world = World(c)
        world.cpu = "200m"
        await world.start(metrics=[_cpu(50)])
        spec = (await c.get("horizontalpodautoscalers", "web", group="autoscaling"))["spec"]
        await c.make(AUTOSCALERS, {"metadata": {"name": "other", "namespace": "default"}, "spec": spec})
        await world.controller.sync()
        status = await world.look()
        assert conditions(status)["ScalingActive"] == ("False", "AmbiguousSelector")


def test_containers_without_numbers_leave_their_pod_out() -> None:
    time, usage = "2026-01-02T03:04:05Z", {"cpu": "1"}
    whole = {
        "metadata": {"name": "a"},
        "timestamp": time,
        "window": "1.5s",
        "containers": [{"name": "c", "usage": usage}],
    }
    half = {"metadata": {"name": "b"}, "timestamp": time, "containers": [{"name": "c", "usage": {}}]}
    assert {name: (each.value, each.window) for name, each in metered([whole, half], "cpu").items()} == {
        "a": (1000, 1.5)
    }
    with pytest.raises(ValueError, match="container d not present"):
        metered([whole], "cpu", "d")
    with pytest.raises(ValueError, match="no metrics returned"):
        metered([half], "cpu")


def _cpu(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}

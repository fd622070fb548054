"""Deployments and the like in a cluster in memory, with pods that become ready when a test says so."""

import asyncio
from collections.abc import Callable
from typing import Any

from kit.cluster import TestCluster
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import PODS, Kind
from pykubelet.apiserver.objects import Object

LABELS = {"app": "web"}


def template(image: str = "web:1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": image}], **spec}}


def workload(name: str = "web", image: str = "web:1", **spec: Any) -> Object:
    whole = {"selector": {"matchLabels": LABELS}, "template": template(image), **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": whole}


async def make_ready(c: TestCluster, pod: Object, node: str = "node-1") -> None:
    """As if a kubelet had started it."""
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(c.now())}

    def started(live: Object) -> Object:
        return {**live, "status": {**live["status"], "phase": "Running", "conditions": [condition]}}

    await c.change(PODS, pod, lambda live: {**live, "spec": {**live["spec"], "nodeName": node}}, part="binding")
    await c.change(PODS, pod, started, part="status")


async def run_pods(c: TestCluster) -> None:
    """Until cancelled, be the kubelet of all pods: what is new becomes ready, what is to go is gone."""
    while True:
        for pod in await c.all(PODS):
            if pod["metadata"].get("deletionTimestamp"):
                await c.remove(PODS, pod, grace=0)
            elif pod["status"].get("phase") == "Pending":
                await make_ready(c, pod)
        await asyncio.sleep(0.1)


async def change_spec(c: TestCluster, kind: Kind, name: str, **spec: Any) -> Object:
    """As a user does."""
    obj = await c.find(kind, "default", name)
    assert obj is not None
    changed = await c.change(kind, obj, lambda live: {**live, "spec": {**live["spec"], **spec}})
    assert changed is not None
    return changed


async def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait for something that is asked of the cluster, awaited each time."""
    async with asyncio.timeout(seconds):
        pause = 0.05
        while not await condition():
            await asyncio.sleep(pause)
            pause = min(pause * 1.1, 0.5)

"""Pods with one volume of a storage driver each, and the same pods without: what the volume adds to a start, besides
the time that the driver takes itself."""

import asyncio
import time
from contextlib import aclosing
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from kit.csi_driver import StorageDriver
from kit.up_cluster import UpCluster, cluster_up, pod
from kit.waiting import eventually
from pykubelet.api.pod import Pod
from pykubelet.kube import kubeconfig
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.watch import Changed, Reflector

PODS: Final = 50
NAME: Final = "disk.example.com"
_OWN: Final = 0.02
"""Seconds that each of the driver's calls takes."""
Object = dict[str, Any]


class Driver(StorageDriver):
    """Takes a while for each call, and knows how long it took."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, NAME)
        self.most_volumes = PODS
        self.took: dict[str, float] = {}

    async def _stage(self, request: Any) -> Any:
        return await self._timed(super()._stage, request)

    async def _publish(self, request: Any) -> Any:
        return await self._timed(super()._publish, request)

    async def _timed(self, work: Any, request: Any) -> Any:
        began = time.perf_counter()
        await asyncio.sleep(_OWN)
        answer = await work(request)
        self.took[request.volume_id] = self.took.get(request.volume_id, 0.0) + time.perf_counter() - began
        return answer


def run() -> None:
    print(f"csi: {PODS} pods with a volume each, whose driver takes {_OWN * 1000:.0f} ms for a call, embedded runtime")
    with cluster_up() as cluster:
        asyncio.run(_measure(cluster))
    print()


async def _measure(cluster: UpCluster) -> None:
    driver = Driver(cluster.folder)
    registry = cluster.data / "state" / "plugins_registry"
    async with (
        ApiClient(Credentials(kubeconfig.load(str(cluster.kubeconfig))), qps=0) as server,
        driver.at(registry, endpoint=cluster.folder / "csi.sock") as introduction,
    ):
        await eventually(lambda: introduction.told == [""], seconds=60)
        about = {"metadata": {"name": NAME}, "spec": {"attachRequired": False}}
        await server.create(object_path("csidrivers", group="storage.k8s.io/v1"), about, bytes)
        for number in range(PODS):
            await _claim(server, number)
        for how in ("one after the other", "all at once"):
            plain = await _starts(server, how, with_volumes=False)
            driver.took.clear()
            before = await _mounting(server, cluster.node)
            with_volumes = await _starts(server, how, with_volumes=True)
            seconds, count = (
                after - early for after, early in zip(await _mounting(server, cluster.node), before, strict=True)
            )
            whole, own = seconds / count * 1000, fmean(driver.took.values()) * 1000
            starts = [median(each) * 1000 for each in (plain, with_volumes)]
            print(f"  {how}: p50 of a start {starts[0]:.0f} ms without a volume, {starts[1]:.0f} ms with one")
            told = (
                f"set-up of a volume {whole:.0f} ms, of which the driver takes {own:.0f} ms: adds {whole - own:.0f} ms"
            )
            print(f"    {told}", flush=True)


async def _mounting(server: ApiClient, node: str) -> tuple[float, float]:
    """Seconds that setting up claimed volumes took so far, and how many there were."""
    text = (await server.request("GET", f"/api/v1/nodes/{node}/proxy/metrics")).decode()
    found = [0.0, 0.0]
    for line in text.splitlines():
        for number, what in enumerate(("sum", "count")):
            if line.startswith(f"storage_operation_duration_seconds_{what}{{") and "persistent-claim" in line:
                found[number] += float(line.rpartition(" ")[2]) if 'operation_name="volume_mount"' in line else 0.0
    return found[0], found[1]


async def _starts(server: ApiClient, how: str, *, with_volumes: bool) -> list[float]:
    """Seconds from the request to create each pod until it is seen to run."""
    begun: dict[str, float] = {}
    running: dict[str, float] = {}
    pods = object_path("pods", namespace="default")

    async def follow() -> None:
        async with aclosing(Reflector(server, pods, Pod).events()) as events:
            async for event in events:
                if isinstance(event, Changed) and event.item.status.phase == "Running":
                    running.setdefault(event.item.metadata.name, time.perf_counter())

    following = asyncio.create_task(follow())
    await asyncio.sleep(1)
    for number in range(PODS):
        begun[f"p{number}"] = time.perf_counter()
        await server.create(pods, _pod(number, with_volumes=with_volumes), bytes)
        if how == "one after the other":
            await eventually(partial(running.__contains__, f"p{number}"), seconds=60)
    await eventually(lambda: len(running) == PODS, seconds=300)
    following.cancel()
    for name in begun:
        await server.delete(object_path("pods", namespace="default", name=name), grace_period_seconds=0)
    while (await server.get(pods, dict))["items"]:  # noqa: ASYNC110 - it is a server that changes
        await asyncio.sleep(0.2)
    await asyncio.sleep(3)  # the node clears them away
    return [running[name] - began for name, began in begun.items()]


async def _claim(server: ApiClient, number: int) -> None:
    size, name = {"storage": "1Gi"}, f"v{number}"
    volume: Object = {
        "metadata": {"name": name},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "claimRef": {"namespace": "default", "name": name},
            "csi": {"driver": NAME, "volumeHandle": name},
        },
    }
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "volumeName": name}
    claim: Object = {"metadata": {"name": name}, "spec": {**spec, "resources": {"requests": size}}}
    await server.create(object_path("persistentvolumes"), volume, bytes)
    await server.create(object_path("persistentvolumeclaims", namespace="default"), claim, bytes)


def _pod(number: int, *, with_volumes: bool) -> Object:
    made = pod(f"p{number}", "sleep 3600")
    made["spec"]["automountServiceAccountToken"] = False
    if with_volumes:
        made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"v{number}"}}]
        made["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return made

"""A cluster as `up` starts it, with pods in many namespaces: how soon a changed config map is in a running pod's file,
and what watching the objects of all of them takes while nothing changes."""

# ruff: noqa: ASYNC240 - a benchmark may block
import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from kit.apiserver_process import cpu_of, rss_of
from kit.up_cluster import UpCluster, pod
from kit.waiting import eventually
from pykubelet.kube import kubeconfig
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.credentials import Credentials

PODS: Final = 50
NAMESPACES: Final = 10
CHANGES: Final = 100
_PAUSE: Final = 0.1
_IDLE: Final = 30.0


def run() -> None:
    print(f"config-maps: {PODS} pods with a token and kube-root-ca.crt in {NAMESPACES} namespaces, embedded runtime")
    cluster = UpCluster(Path(tempfile.mkdtemp(prefix="pykubelet-bench-")))
    try:
        cluster.up()
        asyncio.run(_measure(cluster))
    finally:
        if cluster.data.exists():
            cluster.reset()
        shutil.rmtree(cluster.folder)
    print()


async def _measure(cluster: UpCluster) -> None:
    async with ApiClient(Credentials(kubeconfig.load(str(cluster.kubeconfig))), qps=0) as server:
        agent, api = cluster.agent_pid(), cluster.apiserver_pid()
        await asyncio.sleep(2)
        print(f"  agent without pods: {rss_of(agent):.0f} MiB, {await _share(agent):.2f} % of a core")
        for number in range(NAMESPACES):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{number}"}}
            await server.create(object_path("namespaces"), namespace, bytes)
        await asyncio.sleep(2)  # each gets its service account and the certificate of the authority
        await server.create(object_path("configmaps", namespace="n0"), _config_map(), bytes)
        for number in range(PODS):
            await server.create(object_path("pods", namespace=f"n{number % NAMESPACES}"), _pod(number), bytes)
        folder = cluster.data / "state" / "pods"
        await eventually(lambda: len(list(folder.glob("*/volumes/*projected"))) == PODS, seconds=120)
        found = list(folder.glob("*/volumes/*configmap/v/..data/k"))
        await _changes(server, found[0])
        await asyncio.sleep(5)
        print(f"  agent with {PODS} pods: {rss_of(agent):.0f} MiB, {await _share(agent):.2f} % of a core when idle")
        print(f"  API server: {rss_of(api):.0f} MiB, {await _share(api):.2f} % of a core when idle")


async def _changes(server: ApiClient, file: Path) -> None:
    path = object_path("configmaps", namespace="n0", name="changing")
    answered, seen = [], []
    for number in range(CHANGES):
        began = time.perf_counter()
        await server.patch(path, {"data": {"k": str(number)}}, bytes)
        answered.append(time.perf_counter() - began)
        while file.read_text() != str(number):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        seen.append(time.perf_counter() - began)
        await asyncio.sleep(_PAUSE)
    print(f"  config map changed -> the server has answered: {_spread(answered)}")
    print(f"  config map changed -> in the pod's file: {_spread(seen)}", flush=True)


def _spread(seconds: list[float]) -> str:
    ordered = [each * 1000 for each in sorted(seconds)]
    return f"p50 {ordered[len(ordered) // 2]:.0f} ms, p99 {ordered[int(len(ordered) * 0.99)]:.0f} ms"


async def _share(pid: int) -> float:
    before = cpu_of(pid)
    await asyncio.sleep(_IDLE)
    return (cpu_of(pid) - before) / _IDLE * 100


def _config_map() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "changing"}, "data": {"k": "0"}}


def _pod(number: int) -> dict[str, Any]:
    made = pod(f"p{number}")
    if number == 0:
        made["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "changing"}}]
        made["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/tmp/v"}]
    return made

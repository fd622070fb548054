"""A running pod gets another size, seen in the kernel: on a private containerd, and on the embedded runtime."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.agent_process import pids_of
from kit.up_cluster import UpCluster, cluster_up, kill, pod
from kit.waiting import wait_for

pytestmark = [pytest.mark.timeout(120), pytest.mark.skipif(os.getuid() != 0, reason="only root has control groups")]

MI = 1 << 20
SMALL = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
LARGE = {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}}


@pytest.fixture(scope="module", params=["containerd", "embedded"])
def cluster(request: pytest.FixtureRequest) -> Iterator[UpCluster]:
    flags: tuple[str, ...] = ()
    if request.param == "containerd":
        flags = ("--container-runtime-endpoint", request.getfixturevalue("containerd").endpoint)
    with cluster_up(*flags) as running:
        yield running


class Group:
    """The control group that a process is in, whichever version this kernel has; and the one above it."""

    def __init__(self, pid: int) -> None:
        lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        self._paths = {name: path for _, names, path in lines for name in names.split(",")}

    def read(self, controller: str, legacy: str, unified: str, *, above: bool = False) -> str:
        folder = Path("/sys/fs/cgroup", controller)
        name = legacy if folder.exists() else unified
        path = folder / self._paths[controller].strip("/") if folder.exists() else self._unified()
        return ((path.parent if above else path) / name).read_text().split()[0]

    def _unified(self) -> Path:
        return Path("/sys/fs/cgroup", self._paths[""].strip("/"))

    def memory(self, *, above: bool = False) -> int:
        return int(self.read("memory", "memory.limit_in_bytes", "memory.max", above=above))

    def quota(self, *, above: bool = False) -> int:
        return int(self.read("cpu", "cpu.cfs_quota_us", "cpu.max", above=above))


def sized(name: str, size: dict[str, Any], policy: list[dict[str, str]] | None = None) -> tuple[dict[str, Any], str]:
    """-> a pod, and the command line of its one process"""
    seconds = str(10_000 + abs(hash((name, time.monotonic()))) % 10**9)
    made = pod(name, f"exec sleep {seconds}", container={"resources": size, "resizePolicy": policy or []})
    return made, f"sleep {seconds}"


def resize(cluster: UpCluster, name: str, size: dict[str, Any]) -> None:
    patch = json.dumps({"spec": {"containers": [{"name": "c", "resources": size}]}})
    cluster.kubectl("patch", "pod", name, "--subresource", "resize", "-p", patch)


def status(cluster: UpCluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.json("get", "pod", name)["status"]
    return found


def has_settled(cluster: UpCluster, name: str, size: dict[str, Any]) -> bool:
    seen = status(cluster, name)
    told = [each["type"] for each in seen["conditions"] if each["type"].startswith("PodResize")]
    return not told and seen["containerStatuses"][0].get("resources") == size


def settled(cluster: UpCluster, name: str, size: dict[str, Any]) -> None:
    wait_for(
        lambda: has_settled(cluster, name, size),
        seconds=60,
        otherwise=lambda: f"{status(cluster, name)}\n{(cluster.data / 'agent.log').read_text()[-3000:]}",
    )


def test_a_running_pod_grows_and_shrinks_in_its_control_groups(
    cluster: UpCluster, request: pytest.FixtureRequest
) -> None:
    made, program = sized("web", SMALL)
    cluster.apply(made)
    cluster.ready("web")
    (pid,) = pids_of(program)
    group = Group(pid)
    assert (group.memory(), group.quota()) == (64 * MI, 20_000)
    for size, memory, quota in ((LARGE, 128 * MI, 50_000), (SMALL, 64 * MI, 20_000)):
        resize(cluster, "web", size)
        wait_for(lambda: (group.memory(), group.quota()) == (memory, quota))  # noqa: B023
        settled(cluster, "web", size)
    seen = status(cluster, "web")["containerStatuses"][0]
    assert (seen["restartCount"], seen["allocatedResources"]) == (0, SMALL["requests"])
    assert pids_of(program) == [pid]
    assert "ResizeCompleted" in cluster.kubectl("describe", "pod", "web")
    if "containerd" in request.node.name:  # which has a group for the whole pod
        wait_for(lambda: (group.memory(above=True), group.quota(above=True)) == (64 * MI, 20_000))


def test_a_container_restarts_where_its_policy_says_so(cluster: UpCluster) -> None:
    made, program = sized("restarts", SMALL, [{"resourceName": "memory", "restartPolicy": "RestartContainer"}])
    cluster.apply(made)
    cluster.ready("restarts")
    before = pids_of(program)
    resize(cluster, "restarts", LARGE)
    settled(cluster, "restarts", LARGE)
    (pid,) = pids_of(program)
    assert [pid] != before
    assert (Group(pid).memory(), Group(pid).quota()) == (128 * MI, 50_000)
    assert status(cluster, "restarts")["containerStatuses"][0]["restartCount"] == 1


def test_an_editor_does_it_too(cluster: UpCluster) -> None:
    made, program = sized("edited", SMALL)
    cluster.apply(made)
    cluster.ready("edited")
    (pid,) = pids_of(program)
    editor = {"KUBE_EDITOR": "sed -i s/cpu:.200m/cpu:\\ 300m/"}
    assert "edited" in cluster.kubectl("edit", "pod", "edited", "--subresource", "resize", env=editor)
    wait_for(lambda: Group(pid).quota() == 30_000, seconds=10)


def test_more_than_the_node_has_is_infeasible_and_changes_nothing(cluster: UpCluster) -> None:
    made, program = sized("greedy", SMALL)
    cluster.apply(made)
    cluster.ready("greedy")
    resize(cluster, "greedy", {"requests": {"cpu": "500"}, "limits": {"cpu": "500"}})
    wait_for(lambda: "PodResizePending" in str(status(cluster, "greedy")["conditions"]), seconds=10)
    (pending,) = [each for each in status(cluster, "greedy")["conditions"] if each["type"] == "PodResizePending"]
    assert (pending["reason"], pending["observedGeneration"]) == ("Infeasible", 2)
    assert pending["message"].startswith("Node didn't have enough capacity: cpu, requested: 500000, capacity: ")
    (pid,) = pids_of(program)
    assert Group(pid).quota() == 20_000


def test_a_killed_agent_is_followed_by_one_that_resizes_and_restarts_nothing(cluster: UpCluster) -> None:
    made, program = sized("steady", SMALL)
    cluster.apply(made)
    cluster.ready("steady")
    (pid,) = pids_of(program)
    agent = cluster.agent_pid()
    resize(cluster, "steady", LARGE)
    kill(agent)
    settled(cluster, "steady", LARGE)
    assert pids_of(program) == [pid]
    assert (Group(pid).memory(), Group(pid).quota()) == (128 * MI, 50_000)
    for name in ("allocated_pods_state", "actuated_pods_state"):
        assert "steady" not in (cluster.data / "state" / name).read_text()  # by uid, as upstream has it
        uid = cluster.json("get", "pod", "steady")["metadata"]["uid"]
        assert uid in (cluster.data / "state" / name).read_text()

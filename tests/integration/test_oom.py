"""Containers of every kind that use more memory than they may, as the kernel ends them: on a real containerd and on
the embedded runtime."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from kit.agent_process import Node
from kit.containerd import Containerd
from kit.inventory import inventory, take_away_pods
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(120)

EATS: Final = "exec dd if=/dev/zero of=/dev/null bs=100M count=1"
LIMIT: Final = {"limits": {"memory": "32Mi"}}


def container(name: str, script: str, **more: Any) -> dict[str, Any]:
    image = {"image": "busybox:1.36", "imagePullPolicy": "IfNotPresent"}
    return {"name": name, **image, "command": ["sh", "-c", script], **more}


def manifest(name: str, **spec: Any) -> str:
    whole = {"terminationGracePeriodSeconds": 1, "containers": [container("c", "sleep 1000")], **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole})


def watch(node: Node) -> None:
    first = container("first", EATS, resources=LIMIT)
    beside = container("beside", EATS, resources=LIMIT, restartPolicy="Always")
    (node.manifests / "first.json").write_text(manifest("first", restartPolicy="Never", initContainers=[first]))
    (node.manifests / "beside.json").write_text(manifest("beside", initContainers=[beside]))

    def of_init(name: str, state: str) -> dict[str, Any]:
        statuses = node.pods().get(name, {}).get("status", {}).get("initContainerStatuses", [{}])
        ended: dict[str, Any] = statuses[0].get(state, {}).get("terminated", {})
        return ended

    with node.agent("--stop-pods-on-exit") as agent:
        wait_for(lambda: of_init("first", "state").get("reason") == "OOMKilled", seconds=40, otherwise=node.told)
        assert node.pods()["first"]["status"]["phase"] == "Failed"
        wait_for(lambda: of_init("beside", "lastState").get("reason") == "OOMKilled", seconds=40, otherwise=node.told)
        assert of_init("first", "state")["exitCode"] == of_init("beside", "lastState")["exitCode"] == 137
        wait_for(lambda: "beside" in node.containers(), seconds=40, otherwise=node.told)
        agent.stop()


def test_init_containers_and_sidecars_end_for_their_own_memory_on_containerd(
    tmp_path: Path, containerd: Containerd
) -> None:
    before = inventory(containerd)
    node = Node(tmp_path, "--container-runtime-endpoint", containerd.endpoint)
    try:
        watch(node)
    finally:
        take_away_pods(containerd, before)


def test_init_containers_and_sidecars_end_for_their_own_memory_on_the_embedded_runtime(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("limits of memory need control groups")
    watch(Node(tmp_path))


def test_the_agent_itself_goes_last_where_it_may_and_says_nothing_where_it_may_not(tmp_path: Path) -> None:
    lower = "open('/proc/self/oom_score_adj', 'w', buffering=1).write('-999\\n')"
    may = subprocess.run([sys.executable, "-c", lower], stderr=subprocess.DEVNULL, check=False).returncode == 0
    before = int(Path("/proc/self/oom_score_adj").read_text())
    node = Node(tmp_path)
    with node.agent() as agent:
        wait_for(agent.answers, seconds=30, otherwise=node.told)
        score = int(Path(f"/proc/{agent.pid}/oom_score_adj").read_text())
        assert score == (-999 if may else before)
        assert "oom" not in node.told()

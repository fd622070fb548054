"""Processors of one's own, with containerd and without: seen from inside, and after the agent was killed."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.agent_process import Node
from kit.waiting import wait_for
from pykubelet.pod.pinning.cpu_set import format_cpu_set, parse_cpu_set
from pykubelet.pod.pinning.state_files import CPU_STATE_FILE, read_cpu_state

ONLINE = parse_cpu_set(Path("/sys/devices/system/cpu/online").read_text().strip())
STATIC = ("--cpu-manager-policy=static", "--kube-reserved=cpu=500m")
WATCH = "while :; do grep Cpus_allowed_list /proc/self/status; sleep 0.2; done"


def write(node: Node, name: str, cpu: str = "") -> None:
    """A pod that says again and again where it may run; with `cpu` it is guaranteed to have that."""
    resources: dict[str, Any] = {"limits": {"cpu": cpu, "memory": "32Mi"}} if cpu else {}
    container = {
        "name": "c",
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", WATCH],
        "resources": resources,
    }
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    draft = node.manifests / f"{name}.new"
    draft.write_text(json.dumps(pod))
    draft.rename(node.manifests / f"{name}.json")


def seen_by(node: Node, name: str) -> str:
    """Where the container says that it may run, in its last words."""
    logs = sorted(node.state.glob(f"logs/default_{name}-n1_*/c/*.log"))
    lines = logs[-1].read_text().splitlines() if logs else []
    return lines[-1].split()[-1] if lines and "Cpus_allowed_list" in lines[-1] else ""


def sees(node: Node, name: str, cpus: frozenset[int]) -> None:
    wait_for(lambda: seen_by(node, name) == format_cpu_set(cpus), seconds=30, otherwise=node.told)


def quotas(node: Node, uid: str) -> set[str]:
    """Of the pod's control group and of those in it, on the first version of control groups."""
    files = Path("/sys/fs/cgroup/cpu").glob(f"{node.cgroup_root}/kubepods/pod{uid}/**/cpu.cfs_quota_us")
    return {file.read_text().strip() for file in files}


@pytest.fixture(params=("containerd", "embedded"))
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    if len(ONLINE) < 2 or os.geteuid() != 0:
        pytest.skip("needs two processors, and root for their control groups")
    flags: tuple[str, ...] = ()
    if request.param == "containerd":
        flags = ("--container-runtime-endpoint", request.getfixturevalue("containerd").endpoint)
    node = Node(tmp_path, *flags, *STATIC)
    yield node
    node.remove_pods()


def test_a_pinned_container_has_its_processors_to_itself_and_keeps_them(node: Node) -> None:
    with node.agent() as agent:
        write(node, "shared")
        sees(node, "shared", ONLINE)
        write(node, "own", "1")
        wait_for(lambda: len(node.containers()) == 2, otherwise=node.told)
        state = read_cpu_state("static", (node.state / CPU_STATE_FILE).read_bytes())
        own = state.exclusive
        assert len(own) == 1
        assert min(ONLINE) not in own  # that one is reserved
        sees(node, "own", own)
        sees(node, "shared", ONLINE - own)
        uid = node.pods()["own"]["metadata"]["uid"]
        assert quotas(node, uid) <= {"-1"}
        if Path(f"/sys/fs/cgroup/cpu/{node.cgroup_root}").exists():
            assert quotas(node, uid)
        before = node.containers()
        agent.kill()
    with node.agent() as agent:
        wait_for(lambda: node.containers() == before, otherwise=node.told)
        write(node, "another", str(len(ONLINE)))
        wait_for(lambda: "another" in node.pods() and node.pods()["another"]["status"].get("phase") == "Failed")
        status = node.pods()["another"]["status"]
        assert status["reason"] == "UnexpectedAdmissionError"
        assert status["message"].startswith("Pod was rejected: Allocate failed due to not enough cpus available")
        (node.manifests / "another.json").unlink()
        sees(node, "own", own)
        sees(node, "shared", ONLINE - own)
        assert node.containers() == before
        (node.manifests / "own.json").unlink()
        sees(node, "shared", ONLINE)
        assert read_cpu_state("static", (node.state / CPU_STATE_FILE).read_bytes()).assigned == {}
        agent.stop()


def test_an_agent_with_a_spoilt_state_says_so_in_one_sentence_and_touches_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, *STATIC)
    node.state.mkdir()
    (node.state / CPU_STATE_FILE).write_bytes(b'{"policyName":"static","defaultCpuSet":"0","checksum":7}')
    before = (node.state / CPU_STATE_FILE).read_bytes()
    with node.agent() as agent:
        wait_for(lambda: not agent.is_alive, otherwise=node.told)
    last = node.told().strip().splitlines()[-1]
    assert "could not restore state from checkpoint: checkpoint is corrupted, please drain this node" in last
    assert str(node.state / CPU_STATE_FILE) in last
    assert "Traceback" not in node.told()
    assert (node.state / CPU_STATE_FILE).read_bytes() == before

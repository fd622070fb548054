"""What is kept for others than pods holds on this machine's own control groups; who asks for what cannot be does not
start."""

import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.agent_process import COMMAND, Node
from kit.api_server import loopback_api
from kit.containerd import OWN_CGROUP, Containerd
from kit.waiting import wait_for
from pykubelet.host.cgroups.files import GroupFiles
from pykubelet.host.cgroups.hierarchy import Hierarchy, find_hierarchy
from pykubelet.host.mount import mount_points

RESERVED = ("--system-reserved=cpu=250m,memory=300Mi,pid=1000", "--kube-reserved=cpu=500m,memory=200Mi")
ENFORCE = "--enforce-node-allocatable=pods,system-reserved,kube-reserved-compressible"


class Groups:
    """Those of the system and of the daemons, which somebody has made."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        top = f"/{OWN_CGROUP}-{secrets.token_hex(4)}"
        self.system, self.kube, self.agent = f"{top}/system", f"{top}/kube", f"{top}/agent"
        self._files = GroupFiles(hierarchy)
        for path in (self.system, self.kube):
            self._files.make(path)
        self.top = top

    def read(self, path: str, controller: str, legacy: str, unified: str) -> str:
        file = unified if self._hierarchy.unified else legacy
        return Path(f"{self._hierarchy.mount_of(controller)}{path}/{file}").read_text().strip()

    def memory(self, path: str) -> str:
        return self.read(path, "memory", "memory.limit_in_bytes", "memory.max")

    def clear(self) -> None:
        self._files.kill(self.top)
        wait_for(lambda: not self._files.remove(self.top))


@pytest.fixture
def groups() -> Iterator[Groups]:
    if os.geteuid() != 0:
        pytest.skip("only root can make control groups")
    made = Groups(find_hierarchy(mount_points()))
    yield made
    made.clear()


def flags(groups: Groups) -> tuple[str, ...]:
    named = (f"--system-reserved-cgroup={groups.system}", f"--kube-reserved-cgroup={groups.kube}")
    return (*RESERVED, ENFORCE, *named, f"--kubelet-cgroups={groups.agent}")


def test_the_system_its_daemons_and_the_pods_get_what_is_theirs(
    groups: Groups, containerd: Containerd, tmp_path: Path
) -> None:
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    with loopback_api(tmp_path / "kubeconfig") as api:
        runtime = ("--container-runtime-endpoint", containerd.endpoint, "--kubeconfig", str(tmp_path / "kubeconfig"))
        node = Node(tmp_path, *runtime, *flags(groups))
        with node.agent() as agent:
            wait_for(lambda: len(told(api.events())) == 3, otherwise=node.told)
            assert told(api.events()) == {
                ("NodeAllocatableEnforced", f"Updated limits on system reserved cgroup {groups.system}"),
                ("NodeAllocatableEnforced", f"Updated limits on kube reserved cgroup {groups.kube}"),
                ("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods"),
            }
            assert groups.memory(groups.system) == str(300 << 20)
            assert groups.read(groups.system, "pids", "pids.max", "pids.max") == "1000"
            assert groups.read(groups.system, "cpu", "cpu.shares", "cpu.weight") in ("256", "10")
            assert groups.memory(groups.kube) in (str((1 << 63) - 4096), "max")
            assert groups.read(groups.kube, "cpu", "cpu.shares", "cpu.weight") in ("512", "20")
            assert groups.memory(f"/{node.cgroup_root}/kubepods") == str((total - (500 << 20)) // 4096 * 4096)
            assert str(agent.pid) in groups.read(groups.agent, "memory", "cgroup.procs", "cgroup.procs").split()
            agent.stop()


def told(events: list[tuple[str, str]]) -> set[tuple[str, str]]:
    return {each for each in events if "NodeAllocatable" in each[0]}


def test_an_agent_that_cannot_enforce_what_it_is_asked_to_does_not_start(groups: Groups, tmp_path: Path) -> None:
    node = Node(tmp_path, *flags(groups), f"--system-reserved-cgroup={groups.system}/nowhere")
    began = time.monotonic()
    with node.agent() as agent:
        wait_for(lambda: not agent.is_alive, otherwise=node.told)
    assert time.monotonic() - began < 20
    last = node.told().strip().splitlines()[-1]
    assert last.startswith(f'pykubelet: Failed to enforce System Reserved Cgroup Limits on "{groups.system}/nowhere": ')
    assert "Traceback" not in node.told()


@pytest.mark.parametrize(
    ("flag", "fault"),
    [
        ("--kube-reserved=memory=-1Mi", "must not be negative"),
        ("--kube-reserved=cpu=100000", "Expected capacity >= reservation"),
        ("--reserved-cpus=0-4095", "is not a subset of online-cpus"),
        ("--enforce-node-allocatable=system-reserved", "needs systemReservedCgroup"),
    ],
)
def test_a_reservation_that_cannot_be_is_refused_with_one_sentence(flag: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    run = ["run", "--root-dir", str(tmp_path / "state"), "--pod-manifest-path", str(tmp_path / "manifests")]
    done = subprocess.run(
        [*COMMAND, *run, "--port=0", "--healthz-port=0", flag], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode != 0
    assert fault in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr

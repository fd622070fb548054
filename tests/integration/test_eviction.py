"""A node that runs short of memory, disk, inodes or processes, on this machine's own kernel: the hungry pods go, with
upstream's words, and the polite one stays. Thresholds lie where the machine is, the disk is a small one of its own."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from kit.agent_process import NODE_NAME, Node
from kit.api_server import LoopbackApi, loopback_api
from kit.containerd import Containerd
from kit.inventory import inventory, take_away_pods
from kit.waiting import wait_for
from pykubelet.host.machine import parse_meminfo
from pykubelet.host.stats.disks import PressureReader
from pykubelet.pod.eviction.thresholds import observations

pytestmark = pytest.mark.timeout(120)

MI: Final = 1 << 20
PROCESSES: Final = 1200
HUNGRY: Final = {
    "eats": "dd if=/dev/zero bs=2100M count=1 | sleep 1000",
    "writes": "dd if=/dev/zero of=/cache/large bs=1M count=40; sleep 1000",
    "litters": "i=0; while [ $i -lt 5000 ]; do : > /cache/$i; i=$((i+1)); done; sleep 1000",
    "forks": f"i=0; while [ $i -lt {PROCESSES} ]; do sleep 1000 & i=$((i+1)); done; wait",
}
SLY: Final = "exec 3> /cache/large; rm /cache/large; dd if=/dev/zero bs=1M count=40 >&3; sleep 1000"
"""Who keeps open what has no name any more: no walk through folders finds it."""
RESOURCES: Final = {"eats": "memory", "writes": "ephemeral-storage", "litters": "inodes", "forks": "pids"}


class World:
    def __init__(self, folder: Path, api: LoopbackApi, *flags: str) -> None:
        self.api = api
        self.node = Node(folder, "--kubeconfig", str(folder / "kubeconfig"), *flags)

    def apply(self, name: str, script: str) -> None:
        container = {
            "name": "c",
            "image": "busybox:1.36",
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        }
        spec = {
            "nodeName": NODE_NAME,
            "containers": [container],
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
        }
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        self.api.apply({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.api.pods().get(name, {}).get("status", {})
        return status

    def is_running(self, name: str) -> bool:
        return any("running" in each["state"] for each in self.status(name).get("containerStatuses", ()))

    def pressures(self) -> set[str]:
        kinds = ("MemoryPressure", "DiskPressure", "PIDPressure")
        return {kind for kind in kinds if self.api.condition(NODE_NAME, kind)[0] == "True"}

    def told(self) -> str:
        return f"{self.api.pods()}\n{self.node.told()}"


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m,nr_inodes=6000,mode=755", "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def processes_left() -> int:
    most = min(int(Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("pid_max", "threads-max"))
    return most - int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])


def thresholds(memory: int) -> str:
    counted = f"nodefs.available<25Mi,nodefs.inodesFree<1500,pid.available<{processes_left() - 600}"
    return f"--eviction-hard=memory.available<{memory},{counted}"


def memory_left() -> int:
    return observations(PressureReader("/", "", "/proc", "/sys").machine(1))["memory.available"].available


@contextmanager
def short_world(folder: Path, *flags: str) -> Iterator[World]:
    """60 MiB and 6,000 inodes of disk."""
    with loopback_api(folder / "kubeconfig") as api, small_disk(folder / "state"):
        yield World(folder, api, "--eviction-pressure-transition-period=1s", *flags)


def test_the_hungry_go_and_the_polite_stay_on_containerd(tmp_path: Path, containerd: Containerd) -> None:
    """All pods together have 3 GiB of memory: what else the machine does is of no account."""
    kept = parse_meminfo(Path("/proc/meminfo").read_text())["MemTotal"] - 3072 * MI
    before, runtime = inventory(containerd), ("--container-runtime-endpoint", containerd.endpoint)
    with short_world(tmp_path, *runtime, f"--system-reserved=memory={kept}", thresholds(1100 * MI)) as world:
        try:
            watch_the_hungry(world, HUNGRY)
        finally:
            take_away_pods(containerd, before)
            for line in Path("/proc/mounts").read_text().splitlines():
                if f"{world.node.state}/" in line:
                    subprocess.run(["umount", "--lazy", line.split()[1]], check=False)


def test_the_hungry_go_and_the_polite_stay_on_the_embedded_runtime(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    with short_world(tmp_path, thresholds(memory_left() - 1000 * MI), "--kernel-memcg-notification") as world:
        watch_the_hungry(world, HUNGRY | {"writes": SLY})


def watch_the_hungry(world: World, hungry: Mapping[str, str]) -> None:
    with world.node.agent("--stop-pods-on-exit") as agent:
        world.apply("polite", "echo hello > /cache/file; sleep 1000")
        wait_for(lambda: world.is_running("polite"), seconds=30, otherwise=world.told)
        assert world.pressures() == set()
        for name, script in hungry.items():
            world.apply(name, script)
        wait_for(
            lambda: all(world.status(name).get("reason") == "Evicted" for name in HUNGRY),
            seconds=80,
            otherwise=world.told,
        )
        wait_for(lambda: world.pressures() == set(), seconds=20, otherwise=world.told)
        assert world.is_running("polite"), world.told()
        for name, resource in RESOURCES.items():
            status = world.status(name)
            assert status["phase"] == "Failed"
            assert status["message"].startswith(f"The node was low on resource: {resource}. Threshold quantity: "), (
                status
            )
            target = next(each for each in status["conditions"] if each["type"] == "DisruptionTarget")
            assert (target["reason"], target["message"]) == ("TerminationByKubelet", status["message"])
        events = {
            each["involvedObject"]["name"]: each for each in world.api.whole_events() if each["reason"] == "Evicted"
        }
        assert events.keys() == HUNGRY.keys()
        assert events["eats"]["metadata"]["annotations"]["starved_resource"] == "memory"
        assert events["eats"]["metadata"]["annotations"]["offending_containers"] == "c"
        agent.stop()

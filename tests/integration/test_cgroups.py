# ruff: noqa: ASYNC240 - tests may block
"""Control groups of pods on this machine's own kernel, and with a real containerd that puts containers into them."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.runtime import ended
from kit.containerd import OWN_CGROUP, Containerd
from kit.cri import CriOutside, cleared
from kit.waiting import eventually
from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import parse
from pykubelet.host.cgroups import CgroupSettings, KernelPodCgroups, NoPodCgroups, pod_cgroups
from pykubelet.host.cgroups.files import GroupFiles
from pykubelet.host.cgroups.groups import Machine
from pykubelet.host.cgroups.hierarchy import Hierarchy, find_hierarchy
from pykubelet.host.mount import mount_points
from pykubelet.pod.container.container_config import container_limits
from pykubelet.pod.container.labels import container_annotations, container_labels
from pykubelet.pod.container.sandbox_config import sandbox_config
from pykubelet.pod.ports.runtime import ContainerConfig

TOP = Path("/sys/fs/cgroup")
UID = "5d9a4b1e-0000-4000-8000-00000000cafe"
MI = 2**20
GREEDY = "x=a; while :; do x=$x$x; done"


class Place:
    """Groups below a root of their own."""

    def __init__(self, root: str) -> None:
        self.root = root
        settings = CgroupSettings(
            capacity={"cpu": parse("2"), "memory": parse("1Gi")},
            reserved={"memory": parse("256Mi")},
            cgroup_root=root,
            pod_pids_limit=64,
        )
        cgroups = pod_cgroups(settings)
        if isinstance(cgroups, NoPodCgroups):
            pytest.skip(cgroups.limitation)
        self.cgroups: KernelPodCgroups = cgroups
        self.hierarchy = find_hierarchy(mount_points())

    def read(self, controller: str, group: str, legacy: str, unified: str) -> str:
        mount = self.hierarchy.mount_of(controller)
        return Path(f"{mount}{self.root}{group}", unified if self.hierarchy.unified else legacy).read_text().strip()

    def folders(self, group: str) -> list[Path]:
        """Those that are there."""
        return [path for path in map(Path, self.hierarchy.folders(self.root + group)) if path.exists()]

    def clear(self) -> None:
        files = GroupFiles(self.hierarchy)
        files.kill(self.root)
        files.remove(self.root)


@pytest.fixture
def place() -> Iterator[Place]:
    if os.geteuid() != 0:
        pytest.skip("only root can make control groups")
    place = Place(f"/{OWN_CGROUP}-{secrets.token_hex(4)}")
    yield place
    place.clear()
    assert place.folders("") == []


def pod(memory: str = "32Mi") -> Pod:
    limits = {"cpu": parse("500m"), "memory": parse(memory)}
    resources = ResourceRequirements(requests={"cpu": parse("250m"), "memory": parse("16Mi")}, limits=limits)
    container = Container(name="c", image="busybox:1.36", resources=resources)
    meta = ObjectMeta(name="web", namespace="default", uid=UID)
    return Pod(metadata=meta, spec=PodSpec(containers=(container,)))


def enter(folders: list[Path], script: str = "import time; time.sleep(1000)") -> subprocess.Popen[bytes]:
    """Start a program in these groups."""
    program = subprocess.Popen([sys.executable, "-c", "input(); " + script], stdin=subprocess.PIPE)
    for folder in folders:
        (folder / "cgroup.procs").write_text(str(program.pid))
    assert program.stdin is not None
    program.stdin.write(b"\n")
    program.stdin.close()
    _programs.append(program)
    return program


_programs: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    yield
    while _programs:
        program = _programs.pop()
        program.kill()
        program.wait()


# --- the kernel alone


async def test_the_kernel_holds_what_it_is_told(place: Place) -> None:
    assert await place.cgroups.set_up(pod()) == f"{place.root}/kubepods/burstable/pod{UID}"
    await place.cgroups.balance([pod()])
    group = f"/kubepods/burstable/pod{UID}"
    weight = {"legacy": "cpu.shares", "unified": "cpu.weight"}
    assert place.read("cpu", group, **weight) == ("10" if place.hierarchy.unified else "256")
    assert place.read("cpu", "/kubepods/burstable", **weight) == ("10" if place.hierarchy.unified else "256")
    assert place.read("cpu", "/kubepods/besteffort", **weight) == ("1" if place.hierarchy.unified else "2")
    memory = {"legacy": "memory.limit_in_bytes", "unified": "memory.max"}
    assert place.read("memory", group, **memory) == str(32 * MI)
    assert place.read("memory", "/kubepods", **memory) == str(768 * MI)
    assert place.read("pids", group, "pids.max", "pids.max") == "64"
    quota = place.read("cpu", group, legacy="cpu.cfs_quota_us", unified="cpu.max")
    assert quota == ("50000 100000" if place.hierarchy.unified else "50000")


async def test_limits_follow_the_pod_and_groups_come_back(place: Place) -> None:
    await place.cgroups.set_up(pod())
    await place.cgroups.set_up(pod("64Mi"))
    group, names = f"/kubepods/burstable/pod{UID}", ("memory.limit_in_bytes", "memory.max")
    assert place.read("memory", group, *names) == str(64 * MI)
    for folder in place.folders(group):
        folder.rmdir()
    await place.cgroups.set_up(pod("64Mi"))
    assert place.read("memory", group, *names) == str(64 * MI)


async def test_whoever_is_left_in_a_group_is_killed_also_when_frozen_and_nested(place: Place) -> None:
    await place.cgroups.set_up(pod())
    group = f"/kubepods/burstable/pod{UID}"
    inner = [folder / "container" / "inner" for folder in place.folders(group)]
    for folder in inner:
        folder.mkdir(parents=True)
        if (folder / "cpuset.cpus").exists() and not place.hierarchy.unified:
            for each in (folder.parent, folder):
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (each / name).write_text((each.parent / name).read_text())
    forking = "import os, time\nfor _ in range(3): os.fork()\ntime.sleep(1000)"
    program = enter(inner, forking)
    tasks = [folder / "cgroup.procs" for folder in inner]
    await eventually(lambda: len(tasks[0].read_text().split()) == 8)
    for folder in inner:
        if (folder / "freezer.state").exists():
            (folder / "freezer.state").write_text("FROZEN")
    assert await place.cgroups.uids() == {UID}
    await place.cgroups.remove(UID)
    assert place.folders(group) == []
    assert await place.cgroups.uids() == frozenset()
    assert await asyncio.to_thread(program.wait, 30) == -signal.SIGKILL


async def test_the_tree_of_version_2_is_emptied_at_once() -> None:
    """Also where it is mounted beside the others, with no controllers in it."""
    mount = next((each.path for each in mount_points() if each.fs_type == "cgroup2"), "")
    if os.geteuid() != 0 or not mount:
        pytest.skip("there is no version 2 of control groups here that may be written to")
    files = GroupFiles(Hierarchy(unified=True, mounts={mount: frozenset()}))
    path = f"/{OWN_CGROUP}-{secrets.token_hex(4)}"
    files.make(f"{path}/pod/container")
    try:
        program = enter([Path(f"{mount}{path}/pod/container")])
        assert files.remove(path) != ""
        files.kill(path)
        assert await asyncio.to_thread(program.wait, 30) == -signal.SIGKILL
        await eventually(lambda: files.remove(path) == "")
        assert not Path(mount + path).exists()
    finally:
        files.kill(path)
        files.remove(path)


def test_a_plain_user_goes_on_without_groups_and_is_told_why() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    script = (
        "import os\nfrom pykubelet.host.cgroups import CgroupSettings, pod_cgroups\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(pod_cgroups(CgroupSettings(cgroup_root='/pykubelet-test-nobody')).limitation)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "pods have no control groups of their own" in done.stdout, done.stderr
    assert "Permission denied" in done.stdout


def test_a_machine_with_a_root_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    hidden = pod_cgroups(CgroupSettings(), Machine(control_groups=str(tmp_path), mounts=()))
    assert "no control groups are mounted" in hidden.limitation


# --- with containers


async def test_containers_live_and_die_in_the_group_of_their_pod(
    place: Place, containerd: Containerd, tmp_path: Path
) -> None:
    outside = CriOutside(containerd)
    runtime, one = outside.runtime, pod()
    try:
        parent = await place.cgroups.set_up(one)
        sandbox = sandbox_config(one, 0, log_root=str(tmp_path / "logs"), cgroup_parent=parent)
        sandbox_id = (await runtime.run_sandbox(sandbox)).id
        container = one.spec.containers[0]
        config = ContainerConfig(
            name="c",
            image="busybox:1.36",
            command=("sh", "-c", "sleep 1000"),
            labels=container_labels(one, container),
            annotations=container_annotations(one, container, 0),
            limits=container_limits(one, container, 2**30),
            log_path="c/0.log",
            sandbox=sandbox,
        )
        container_id = await runtime.create_container(sandbox_id, config)
        await runtime.start_container(container_id)

        (pid,) = (await outside.pids(f"id=={container_id}")).values()
        memberships = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        inside = [line for line in memberships if line.endswith(f":{parent}/{container_id}")]
        assert len(inside) >= len(memberships) - 1, memberships  # version 2 beside the others may count elsewhere
        group = f"/kubepods/burstable/pod{UID}"
        assert place.read("memory", group, "memory.limit_in_bytes", "memory.max") == str(32 * MI)
        used = int(place.read("memory", group, "memory.usage_in_bytes", "memory.current"))
        assert 0 < used <= 32 * MI
        assert await place.cgroups.uids() == {UID}

        await runtime.stop_container(container_id, 0.0)
        await runtime.stop_sandbox(sandbox_id)
        await runtime.remove_sandbox(sandbox_id)
        await place.cgroups.remove(UID)
        assert place.folders(group) == []
        await eventually(lambda: not Path(f"/proc/{pid}").exists())
    finally:
        await cleared(runtime)


async def test_the_limit_of_the_pod_is_in_force_for_containers_that_have_none(
    place: Place, containerd: Containerd, tmp_path: Path
) -> None:
    outside = CriOutside(containerd)
    runtime, one = outside.runtime, pod("24Mi")
    try:
        sandbox = sandbox_config(one, 0, log_root=str(tmp_path / "logs"), cgroup_parent=await place.cgroups.set_up(one))
        sandbox_id = (await runtime.run_sandbox(sandbox)).id
        container = one.spec.containers[0]
        config = ContainerConfig(
            name="c",
            image="busybox:1.36",
            command=("sh", "-c", GREEDY),
            labels=container_labels(one, container),
            annotations=container_annotations(one, container, 0),
            log_path="c/0.log",
            sandbox=sandbox,
        )
        container_id = await runtime.create_container(sandbox_id, config)
        await runtime.start_container(container_id)
        assert (await ended(runtime, UID, container_id)).exit_code == 137
    finally:
        await cleared(runtime)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can move")
def test_the_agent_moves_into_the_group_that_it_is_told() -> None:
    name = f"/pykubelet-own-{secrets.token_hex(4)}/agent"
    code = (
        "from pykubelet.host.prepare import MachineSettings, prepare_machine\n"
        f"prepare_machine(MachineSettings(own_group={name!r}))\n"
        "print(open('/proc/self/cgroup').read())"
    )
    hierarchy = find_hierarchy(mount_points())
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
        assert (done.stdout.count(f"{name}\n"), done.stderr) == (len(hierarchy.mounts), "")
    finally:
        GroupFiles(hierarchy).remove(os.path.dirname(name))

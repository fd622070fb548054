"""What is kept for others than pods, enforced in their groups: on trees that look as the kernel's do."""

import os
from pathlib import Path

import pytest

from pykubelet.api.quantity import parse
from pykubelet.base.errors import Invalid
from pykubelet.host.cgroups.groups import Machine
from pykubelet.host.cgroups.reserved import enforce_limits, gather_system, join
from pykubelet.pod.container.cgroup import reserved_limits
from unit.host.test_cgroups import FakeLegacy, FakeUnified, legacy, unified, values
from unit.host.test_cgroups_systemd import FakeSystemd, fake, machine

__all__ = ["fake", "legacy", "machine", "unified"]

AMOUNTS = {"cpu": parse("500m"), "memory": parse("1Gi"), "pid": parse("1000"), "ephemeral-storage": parse("1Gi")}
ALL = reserved_limits(AMOUNTS, compressible=False)
COMPRESSIBLE = reserved_limits(AMOUNTS, compressible=True)


def on(kernel: FakeUnified) -> Machine:
    return Machine(control_groups=str(kernel.root), mounts=())


def group(kernel: FakeUnified, name: str) -> Path:
    (kernel.root / "cgroup.subtree_control").write_text("+cpu")
    folder = kernel.root / name
    os.mkdir(folder)
    return folder


def test_a_group_gets_what_is_kept_for_it(unified: FakeUnified) -> None:
    folder = group(unified, "daemons")
    enforce_limits("/daemons", ALL, "cgroupfs", on(unified))
    assert values(folder, "cpu.weight", "memory.max", "pids.max") == ["20", str(2**30), "1000"]


def test_of_what_can_be_compressed_alone_nobody_has_to_die(unified: FakeUnified) -> None:
    folder = group(unified, "daemons")
    enforce_limits("daemons", COMPRESSIBLE, "cgroupfs", on(unified))
    assert values(folder, "cpu.weight", "memory.max", "pids.max") == ["20", "", ""]


def test_each_tree_is_told_its_part(legacy: FakeLegacy) -> None:
    for tree in ("cpu,cpuacct", "cpuset", "memory", "pids"):
        os.mkdir(legacy.root / tree / "daemons")
    enforce_limits("/daemons", ALL, "cgroupfs", legacy.machine())
    assert values(legacy.root / "cpu,cpuacct/daemons", "cpu.shares") == ["512"]
    assert values(legacy.root / "memory/daemons", "memory.limit_in_bytes") == [str(2**30)]
    assert values(legacy.root / "pids/daemons", "pids.max") == ["1000"]


def test_a_group_that_is_not_there_is_not_made(unified: FakeUnified) -> None:
    with pytest.raises(Invalid, match=r'^could not read controllers for cgroup \["a" "b"\]: '):
        enforce_limits("/a/b", ALL, "cgroupfs", on(unified))
    assert not (unified.root / "a").exists()


def test_a_group_that_lacks_a_tree_is_refused_with_what_is_missing(legacy: FakeLegacy) -> None:
    for tree in ("cpu,cpuacct", "cpuset", "pids"):
        os.mkdir(legacy.root / tree / "daemons")
    missing = f'cgroup ["daemons"] has some missing paths: {legacy.root}/memory/daemons'
    with pytest.raises(Invalid) as caught:
        enforce_limits("/daemons", ALL, "cgroupfs", legacy.machine())
    assert str(caught.value) == missing
    assert values(legacy.root / "pids/daemons", "pids.max") == [""]


def test_a_group_that_was_not_given_the_controllers_is_refused(unified: FakeUnified) -> None:
    folder = group(unified, "daemons")
    (folder / "cgroup.controllers").write_text("cpu")
    with pytest.raises(Invalid, match=r'^cgroup \["daemons"\] has some missing controllers: cpuset, memory, pids$'):
        enforce_limits("/daemons", ALL, "cgroupfs", on(unified))


def test_a_slice_is_limited_by_systemd(fake: FakeSystemd, machine: Machine) -> None:
    os.mkdir(Path(machine.control_groups) / "system.slice")
    (Path(machine.control_groups) / "cgroup.controllers").write_text("cpu cpuset memory pids")
    enforce_limits("/system.slice", ALL, "systemd", machine)
    (call,) = [call for call in fake.calls() if call[4] == "SetUnitProperties"]
    assert call[6] == "system.slice"
    assert str(2**30) in call
    assert values(Path(machine.control_groups) / "system.slice", "memory.max") == [str(2**30)]


def test_whoever_is_in_no_group_is_moved_but_the_first_and_the_kernels_own(
    unified: FakeUnified, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = unified.root / "cgroup.procs"
    top.write_text("1\n2\n70\n71\n")
    for pid in (1, 70, 71):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "exe").symlink_to("/bin/sh")
    (tmp_path / "proc" / "2").mkdir()
    moved: list[bytes] = []
    write = os.write

    def moving(descriptor: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/system/cgroup.procs"):
            moved.append(data)
            top.write_text("1\n2\n")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", moving)
    assert gather_system("/system", on(unified), proc=str(tmp_path / "proc")) == 2
    assert moved == [b"70", b"71"]


def test_the_agent_joins_the_group_that_people_want_it_in(unified: FakeUnified) -> None:
    join("/kube/agent", [4711], on(unified))
    assert values(unified.root / "kube/agent", "cgroup.procs") == ["4711"]

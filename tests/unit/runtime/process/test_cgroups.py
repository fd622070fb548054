"""Control groups of version 2 that were delegated, on a tree of files that heeds the kernel's rules; and what of it
this kernel offers, for real."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.pod.ports.runtime import Limits
from pykubelet.runtime.process.cgroups import Cgroups, Placement

SCOPE = "user.slice/user@1000.service/app.slice/run-1.scope"
FILES = {
    "memory": ("max", "swap.max", "oom.group"),
    "cpu": ("max", "weight"),
    "pids": ("max",),
    "cpuset": ("cpus", "mems"),
    "hugetlb": ("2MB.max", "2MB.rsvd.max", "1GB.max", "1GB.rsvd.max"),
}
LIMITS = Limits(memory=64 << 20, cpu_quota=50_000, cpu_shares=512)


class Kernel:
    """cgroup v2 below a folder. Groups get the controllers that the one above gives, which nobody may be in."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = self._top = root
        self._make, self._write, self._remove = Path.mkdir, Path.write_text, Path.rmdir
        monkeypatch.setattr(Path, "mkdir", lambda path, *args, **extra: self._mkdir(path, *args, **extra))
        monkeypatch.setattr(Path, "write_text", lambda path, text, *args, **extra: self._put(path, text))
        monkeypatch.setattr(Path, "rmdir", lambda path: self._rmdir(path))

    def group(self, path: str, controllers: str, members: tuple[int, ...] = (), *, delegated: bool = False) -> Path:
        folder = self.root / path
        self._make(folder, parents=True, exist_ok=True)
        self._fill(folder, controllers)
        self._write(folder / "cgroup.procs", "".join(f"{pid}\n" for pid in members))
        if path:
            self._write(folder / "cgroup.type", "domain\n")
        if delegated:
            os.setxattr(folder, "user.delegate", b"1")
        return folder

    def _fill(self, folder: Path, controllers: str) -> None:
        self._write(folder / "cgroup.controllers", controllers)
        for name in ("cgroup.procs", "cgroup.subtree_control"):
            (folder / name).touch()
        for controller, files in FILES.items():
            for name in files if controller in controllers.split() else ():
                self._write(folder / f"{controller}.{name}", "")

    def _mkdir(self, path: Path, *args: Any, **extra: Any) -> None:
        if self._top not in path.parents:
            self._make(path, *args, **extra)
            return
        missing = [each for each in (path, *path.parents) if not each.exists()]
        self._make(path, *args, **extra)
        for each in reversed(missing):
            self._fill(each, (each.parent / "cgroup.subtree_control").read_text())
            self._write(each / "cgroup.type", "domain\n")

    def _put(self, path: Path, text: str) -> int:
        if path.name == "cgroup.subtree_control":
            self._enable(path, text.removeprefix("+"))
        elif path.name == "cgroup.procs":
            for other in self.root.rglob("cgroup.procs"):
                self._write(other, "".join(f"{pid}\n" for pid in other.read_text().split() if pid != text))
            self._write(path, path.read_text() + f"{text}\n")
        elif not path.exists() and self._top in path.parents:
            raise PermissionError(errno.EACCES, "Permission denied")
        else:
            self._write(path, text)
        return len(text)

    def _enable(self, path: Path, controller: str) -> None:
        if controller not in (path.parent / "cgroup.controllers").read_text().split():
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        if path.parent != self._top and (path.parent / "cgroup.procs").read_text():
            raise OSError(errno.EBUSY, "Device or resource busy")
        given = " ".join(sorted({*path.read_text().split(), controller}))
        self._write(path, given)
        for below in path.parent.glob("*/"):
            self._fill(below, given)

    def _rmdir(self, path: Path) -> None:
        for file in path.iterdir() if self._top in path.parents else ():
            file.unlink()
        self._remove(path)

    def look(self, own: str, *, single_process_oom_kill: bool = False) -> Cgroups:
        facts = self.root.with_name("facts")
        self._make(facts, exist_ok=True)
        self._write(facts / "mountinfo", f"30 20 0:26 / {self.root} rw - cgroup2 cgroup2 rw\n")
        self._write(facts / "cgroup", f"0::/{own}\n")
        return Cgroups(str(facts / "mountinfo"), str(facts / "cgroup"), single_process_oom_kill=single_process_oom_kill)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """As an ordinary user sees it: the top is root's."""
    made = Kernel(tmp_path / "tree", monkeypatch)
    made.group("", "")
    return made


def test_a_delegated_group_takes_in_containers_once_it_is_empty(kernel: Kernel) -> None:
    scope = kernel.group(SCOPE, "cpu memory pids", (11, 12), delegated=True)
    found = kernel.look(SCOPE)
    assert (found.unified, found.refusal) == (scope, "")
    assert found.controllers == {"cpu", "memory", "pids"}
    assert (scope / "pykubelet-agent/cgroup.procs").read_text().split() == ["11", "12"]
    placement = found.place("c1", "", LIMITS)
    assert placement.folders == (str(scope / "pykubelet/c1"),)
    assert (scope / "pykubelet/c1/memory.max").read_text() == str(64 << 20)
    assert (scope / "pykubelet/c1/cpu.max").read_text() == "50000 100000"


@pytest.mark.parametrize(("single", "written"), [(False, "1"), (True, "0")])
def test_out_of_memory_a_container_ends_as_a_whole_unless_people_want_it_otherwise(
    kernel: Kernel, single: bool, written: str
) -> None:
    scope = kernel.group(SCOPE, "cpu memory pids", (11,), delegated=True)
    kernel.look(SCOPE, single_process_oom_kill=single).place("c1", "", LIMITS)
    assert (scope / "pykubelet/c1/memory.oom.group").read_text() == written


def test_limits_reach_a_group_that_is_far_below(kernel: Kernel) -> None:
    scope = kernel.group(SCOPE, "cpu memory pids", (11,), delegated=True)
    kernel.look(SCOPE).place("c1", "/pods/burstable/pod-1", LIMITS)
    assert (scope / "pods/burstable/pod-1/c1/memory.max").read_text() == str(64 << 20)


def test_a_container_has_no_more_swap_than_it_is_given(kernel: Kernel) -> None:
    scope = kernel.group(SCOPE, "cpu memory pids", (11,), delegated=True)
    found = kernel.look(SCOPE)
    for name, swap in (("c1", 0), ("c2", 4096)):
        found.place(name, "", Limits(swap=swap))
        assert (scope / f"pykubelet/{name}/memory.swap.max").read_text() == str(swap)


def test_a_container_has_no_more_huge_pages_than_it_is_given(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.runtime.process.cgroups.page_sizes", lambda: (2 << 20, 1 << 30))
    scope = kernel.group(SCOPE, "cpu memory pids hugetlb", (11,), delegated=True)
    found = kernel.look(SCOPE)
    assert "hugetlb" in found.controllers
    for name, pages, of_2mb in (("c1", {2 << 20: 4 << 20}, 4 << 20), ("c2", {}, 0)):
        found.place(name, "", Limits(hugepages=pages))
        for kind in ("max", "rsvd.max"):
            assert (scope / f"pykubelet/{name}/hugetlb.2MB.{kind}").read_text() == str(of_2mb)
            assert (scope / f"pykubelet/{name}/hugetlb.1GB.{kind}").read_text() == "0"


def test_a_placed_container_gets_other_limits_and_processors(kernel: Kernel) -> None:
    scope = kernel.group(SCOPE, "cpu cpuset memory pids", (11,), delegated=True)
    found = kernel.look(SCOPE)
    placement = found.place("c1", "", Limits(memory=64 << 20, cpuset_cpus="0-1", cpuset_mems="0"))
    folder = scope / "pykubelet/c1"
    assert ((folder / "cpuset.cpus").read_text(), (folder / "cpuset.mems").read_text()) == ("0-1", "0")
    found.update(placement, Limits(cpu_quota=-1, cpuset_cpus="2"))
    assert [(folder / name).read_text() for name in ("cpuset.cpus", "cpuset.mems", "cpu.max", "memory.max")] == [
        "2",
        "0",
        "max 100000",
        str(64 << 20),
    ]


def test_what_cannot_be_limited_here_is_refused_with_the_remedy(kernel: Kernel) -> None:
    kernel.group(SCOPE, "memory pids", (11,), delegated=True)
    found = kernel.look(SCOPE)
    placement = found.place("c1", "", Limits(memory=64 << 20))
    with pytest.raises(
        Invalid, match=r"^cpu and cpuset cannot be limited .* no controller for cpu; (run it as root|have control)"
    ):
        found.update(placement, Limits(cpu_shares=2, cpuset_cpus="1"))
    with pytest.raises(Invalid, match="a container cannot be limited on this machine"):
        found.update(Placement(), Limits(memory=1 << 20))


def test_an_agent_that_comes_later_finds_the_same_place(kernel: Kernel) -> None:
    scope = kernel.group(SCOPE, "cpu memory pids", (11, 12), delegated=True)
    kernel.look(SCOPE)
    again = kernel.look(f"{SCOPE}/pykubelet-agent")
    assert (again.unified, again.refusal) == (scope, "")


def test_a_group_with_others_in_it_that_nobody_delegated_is_left_alone(kernel: Kernel) -> None:
    scope = kernel.group(SCOPE, "cpu memory pids", (11, 12))
    found = kernel.look(SCOPE)
    assert found.unified is None
    assert found.refusal == f"{scope}: it is not delegated: others are in it"
    assert (scope / "cgroup.procs").read_text().split() == ["11", "12"]
    assert not found.controllers


def test_what_is_delegated_in_part_is_used_and_the_rest_is_said(kernel: Kernel) -> None:
    kernel.group(SCOPE, "memory pids", (11,), delegated=True)
    found = kernel.look(SCOPE)
    assert (found.controllers, found.refusal) == (frozenset({"memory", "pids"}), "there is no controller for cpu")


def test_without_controllers_it_is_of_no_use(kernel: Kernel) -> None:
    scope = kernel.group(SCOPE, "pids", (11,), delegated=True)
    found = kernel.look(SCOPE)
    assert found.unified is None
    assert found.refusal == f"{scope}: it has no controllers for memory and cpu to give"


def test_the_top_of_a_namespace_is_the_container_s_own(kernel: Kernel) -> None:
    top = kernel.group("docker-1", "cpu memory pids", (1, 7))
    kernel.root = top
    found = kernel.look("")
    assert (found.unified, found.refusal) == (top, "")
    assert (top / "pykubelet-agent/cgroup.procs").read_text().split() == ["1", "7"]


@pytest.fixture
def delegated() -> Iterator[Path]:
    """A group of this kernel's v2 tree that belongs to a user, with a process of that user in it."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in line]
    if os.getuid() != 0 or not mounts:
        pytest.skip("there is no tree of v2 to delegate a part of")
    folder = Path(mounts[0][4], f"pykubelet-test-{os.getpid()}.scope")
    try:
        folder.mkdir()
        os.setxattr(folder, "user.delegate", b"1")
    except OSError as error:
        pytest.skip(f"no group can be made: {error}")
    yield folder
    for each in (*folder.glob("*/"), folder):
        each.rmdir()


def test_processes_are_really_moved_out_of_the_way(delegated: Path, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        (delegated / "cgroup.procs").write_text(str(sleeper.pid))
        (tmp_path / "mountinfo").write_text(f"30 20 0:26 / {delegated.parent} rw - cgroup2 cgroup2 rw\n")
        (tmp_path / "cgroup").write_text(f"0::/{delegated.name}\n")
        Cgroups(str(tmp_path / "mountinfo"), str(tmp_path / "cgroup"))
        try:
            assert (
                Path(f"/proc/{sleeper.pid}/cgroup").read_text().rstrip().endswith(f"/{delegated.name}/pykubelet-agent")
            )
        finally:
            sleeper.kill()

"""Groups as folders, on trees that look and behave as the kernel's do."""

import asyncio
import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import parse
from pykubelet.base.errors import Invalid, Retry
from pykubelet.base.journal import work_for
from pykubelet.host.cgroups import CgroupSettings, KernelPodCgroups, NoPodCgroups, groups, pod_cgroups
from pykubelet.host.cgroups.files import GroupFiles
from pykubelet.host.cgroups.groups import Machine
from pykubelet.host.cgroups.hierarchy import Hierarchy, find_hierarchy
from pykubelet.host.cgroups.values import legacy_values, unified_values
from pykubelet.host.mount import parse_mount_info
from pykubelet.pod.container.cgroup import UNLIMITED, GroupLimits
from pykubelet.pod.moments import CgroupChanged, Journal, about
from pykubelet.pod.ports.machine import PodCgroups

UNIFIED = ("cgroup.procs", "cgroup.kill", "cgroup.subtree_control", "cgroup.controllers")
OF_CONTROLLERS = {
    "cpu": ("cpu.weight", "cpu.max"),
    "cpuset": ("cpuset.cpus",),
    "memory": ("memory.max", "memory.min", "memory.high"),
    "pids": ("pids.max",),
    "hugetlb": ("hugetlb.2MB.max", "hugetlb.1GB.max"),
}
LEGACY: Mapping[str, tuple[str, ...]] = {
    "cpu,cpuacct": ("cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us", "cpuacct.usage"),
    "cpuset": ("cpuset.cpus", "cpuset.mems"),
    "memory": ("memory.limit_in_bytes", "memory.use_hierarchy"),
    "pids": ("pids.max",),
    "freezer": ("freezer.state",),
    "systemd": (),
}
SETTINGS = CgroupSettings(
    capacity={"cpu": parse("4"), "memory": parse("8Gi")}, reserved={"memory": parse("1Gi")}, pod_pids_limit=100
)


class FakeKernel:
    """Makes the files of a new group, and removes no group that is in use."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._mkdir, self._rmdir = os.mkdir, os.rmdir
        monkeypatch.setattr(os, "mkdir", self.mkdir)
        monkeypatch.setattr(os, "rmdir", self.rmdir)

    def mkdir(self, path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self._mkdir(path, mode, dir_fd=dir_fd)
        folder = Path(path)
        if folder.is_relative_to(self.root):
            self.fill(folder)

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        folder = Path(path)
        if not folder.is_relative_to(self.root):
            return self._rmdir(path, dir_fd=dir_fd)
        entries = list(os.scandir(path))
        if any(each.is_dir() for each in entries) or (folder / "cgroup.procs").read_text():
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        for each in entries:
            os.unlink(each.path)
        return self._rmdir(path)

    def fill(self, folder: Path) -> None:
        raise NotImplementedError


class FakeUnified(FakeKernel):
    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, controllers: str = "cpu cpuset memory pids"
    ) -> None:
        super().__init__(root, monkeypatch)
        self._mkdir(root)
        for name in UNIFIED:
            (root / name).touch()
        (root / "cgroup.controllers").write_text(controllers)

    def fill(self, folder: Path) -> None:
        # A fake file holds what was written last: one controller for each write, as the kernel adds them up.
        available = (self.root / "cgroup.controllers").read_text().split()
        handed = available if (folder.parent / "cgroup.subtree_control").read_text() else []
        for name in (*UNIFIED, *(file for controller in handed for file in OF_CONTROLLERS.get(controller, ()))):
            (folder / name).touch()
        (folder / "cgroup.controllers").write_text(" ".join(handed))


class FakeLegacy(FakeKernel):
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root, monkeypatch)
        self._mkdir(root)
        for tree in LEGACY:
            self._mkdir(root / tree)
            self.fill(root / tree)
        (root / "cpuset" / "cpuset.cpus").write_text("0-3\n")
        (root / "cpuset" / "cpuset.mems").write_text("0\n")

    def fill(self, folder: Path) -> None:
        tree = folder.relative_to(self.root).parts[0]
        for name in ("cgroup.procs", *LEGACY[tree]):
            (folder / name).touch()

    def machine(self) -> Machine:
        lines = [
            f"{n} 1 0:{n} / {self.root}/{tree} rw - cgroup cgroup rw,{tree.replace('systemd', 'name=systemd')}"
            for n, tree in enumerate(LEGACY)
        ]
        return Machine(control_groups=str(self.root), mounts=parse_mount_info("\n".join(lines)))


@pytest.fixture
def unified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeUnified:
    return FakeUnified(tmp_path / "cgroup", monkeypatch)


@pytest.fixture
def legacy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeLegacy:
    return FakeLegacy(tmp_path / "cgroup", monkeypatch)


def made(settings: CgroupSettings, machine: Machine) -> KernelPodCgroups:
    cgroups = pod_cgroups(settings, machine)
    assert isinstance(cgroups, KernelPodCgroups), cgroups.limitation
    assert cgroups.limitation == ""
    return cgroups


def on(kernel: FakeUnified, settings: CgroupSettings = SETTINGS) -> PodCgroups:
    return made(settings, Machine(control_groups=str(kernel.root), mounts=()))


def pod(uid: str = "u-1", cpu: str = "250m", memory: str = "64Mi") -> Pod:
    amounts = {"cpu": parse(cpu), "memory": parse(memory)}
    resources = ResourceRequirements(requests={"cpu": parse("100m")}, limits=amounts)
    container = Container(name="c", resources=resources)
    return Pod(metadata=ObjectMeta(name="web", namespace="default", uid=uid), spec=PodSpec(containers=(container,)))


def values(folder: Path, *names: str) -> list[str]:
    return [(folder / name).read_text().strip() for name in names]


# --- one tree for everything


async def test_a_pod_has_a_group_with_its_limits_below_those_of_its_class_and_the_node(unified: FakeUnified) -> None:
    cgroups = on(unified)
    assert await cgroups.set_up(pod()) == "/kubepods/burstable/podu-1"
    node = unified.root / "kubepods"
    files = ("cpu.weight", "cpu.max", "memory.max", "pids.max")
    assert values(node / "burstable" / "podu-1", *files) == ["4", "25000 100000", str(64 * 2**20), "100"]
    assert values(node, "cpu.weight", "cpu.max", "memory.max") == ["157", "", str(7 * 2**30)]
    assert int((node / "pids.max").read_text()) > 0
    assert values(node / "besteffort", "cpu.weight", "memory.max") == ["1", ""]


async def test_memory_is_neither_reserved_nor_slowed_down(unified: FakeUnified) -> None:
    await on(unified).set_up(pod())
    assert values(unified.root / "kubepods" / "burstable" / "podu-1", "memory.min", "memory.high") == ["", ""]


async def test_controllers_are_handed_down_as_far_as_the_pod_and_no_further(unified: FakeUnified) -> None:
    await on(unified).set_up(pod())
    for folder in ("", "kubepods", "kubepods/burstable"):
        assert (unified.root / folder / "cgroup.subtree_control").read_text() != ""
    assert (unified.root / "kubepods/burstable/podu-1/cgroup.subtree_control").read_text() == ""


async def test_nothing_is_written_when_nothing_changed(unified: FakeUnified) -> None:
    cgroups = on(unified)
    await cgroups.set_up(pod())
    file = unified.root / "kubepods/burstable/podu-1/memory.max"
    file.write_text("somebody else's")
    await cgroups.set_up(pod())
    assert file.read_text() == "somebody else's"


async def test_limits_that_changed_are_brought_up_to_date(unified: FakeUnified) -> None:
    cgroups = on(unified)
    await cgroups.set_up(pod())
    await cgroups.set_up(pod(cpu="500m", memory="128Mi"))
    folder = unified.root / "kubepods/burstable/podu-1"
    assert values(folder, "cpu.max", "memory.max") == ["50000 100000", str(128 * 2**20)]


async def test_a_group_that_vanished_is_made_anew_with_all_above_it(unified: FakeUnified) -> None:
    cgroups = on(unified)
    await cgroups.set_up(pod())
    for folder, _, _ in os.walk(unified.root / "kubepods", topdown=False):
        os.rmdir(folder)
    await cgroups.set_up(pod())
    assert values(unified.root / "kubepods", "memory.max") == [str(7 * 2**30)]
    assert values(unified.root / "kubepods/burstable/podu-1", "memory.max") == [str(64 * 2**20)]


async def test_a_group_in_which_something_runs_is_not_taken_for_deserted(unified: FakeUnified) -> None:
    cgroups = on(unified)
    for uid in ("u-1", "u-2", "u-3"):
        await cgroups.set_up(pod(uid))
    inside = unified.root / "kubepods" / "burstable" / "podu-1" / "container"
    inside.mkdir()
    (inside / "cgroup.procs").write_text("4711\n")
    assert await cgroups.orphan_groups({"u-3"}) == {"u-2"}


async def test_in_the_end_no_empty_group_is_left_behind(unified: FakeUnified) -> None:
    cgroups = on(unified)
    await cgroups.set_up(pod("u-1"))
    await cgroups.clear()
    assert (unified.root / "kubepods" / "burstable" / "podu-1").exists()
    assert not (unified.root / "kubepods" / "besteffort").exists()
    await cgroups.remove("u-1")
    await cgroups.clear()
    assert not (unified.root / "kubepods").exists()


async def test_another_agent_finds_the_groups_of_an_earlier_one(unified: FakeUnified) -> None:
    await on(unified).set_up(pod("u-1"))
    (unified.root / "kubepods" / "podu-2").mkdir()
    (unified.root / "kubepods" / "burstable" / "other").mkdir()
    again = on(unified)
    assert await again.orphan_groups(()) == {"u-1", "u-2"}
    for uid in await again.orphan_groups(()):
        await again.remove(uid)
    assert await again.orphan_groups(()) == frozenset()
    assert sorted(each.name for each in (unified.root / "kubepods" / "burstable").iterdir() if each.is_dir()) == [
        "other"
    ]


async def test_removing_kills_what_is_left_and_removes_the_deepest_groups_first(
    unified: FakeUnified, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups = on(unified)
    await cgroups.set_up(pod())
    folder = unified.root / "kubepods/burstable/podu-1"
    (folder / "container" / "inner").mkdir(parents=True)
    killed = []
    rmdir = unified.rmdir

    def last_look(path: str, *, dir_fd: int | None = None) -> None:
        killed.append((Path(path).name, (Path(path) / "cgroup.kill").read_text()))
        rmdir(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", last_look)
    await cgroups.remove("u-1")
    assert killed == [("inner", "1"), ("container", "1"), ("podu-1", "1")]
    assert not folder.exists()


async def test_removing_a_pod_that_has_no_group_is_harmless(unified: FakeUnified) -> None:
    await on(unified).remove("u-9")


async def test_a_group_that_stays_in_use_is_tried_for_a_while_and_then_again_later(
    unified: FakeUnified, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_PATIENCE", 0.2)
    cgroups = on(unified)
    await cgroups.set_up(pod())
    procs = unified.root / "kubepods/burstable/podu-1/cgroup.procs"
    procs.write_text("0\n")  # somebody whom we cannot see
    with pytest.raises(Retry, match=r"podu-1 is still in use"):
        await cgroups.remove("u-1")
    procs.write_text("")
    await cgroups.remove("u-1")
    assert await cgroups.orphan_groups(()) == frozenset()


async def test_classes_are_balanced_by_what_pods_ask_for(unified: FakeUnified) -> None:
    cgroups = on(unified)
    await cgroups.balance([pod(f"u-{n}") for n in range(30)])
    burstable = unified.root / "kubepods" / "burstable"
    assert values(burstable, "cpu.weight") == ["118"]
    (burstable / "cpu.weight").write_text("somebody else's")
    await cgroups.balance([])
    assert values(burstable, "cpu.weight") == ["1"]


async def test_changes_are_noted_in_the_journal_of_the_pod_that_somebody_works_for(unified: FakeUnified) -> None:
    journal = Journal()
    cgroups = pod_cgroups(SETTINGS, Machine(control_groups=str(unified.root), mounts=()), journal=journal)
    await cgroups.balance(())

    async def work() -> None:
        work_for(about(pod()))
        for _ in range(2):
            await cgroups.set_up(pod())
        await cgroups.remove("u-1")

    await asyncio.create_task(work())
    changes = [noted.moment for noted in (*journal.of(""), *journal.of("u-1"))]
    assert [change.operation for change in changes if isinstance(change, CgroupChanged)] == [
        *("update", "create", "update", "destroy"),
    ]


async def test_what_burstable_pods_weighed_before_stays_until_they_are_known(unified: FakeUnified) -> None:
    await on(unified).balance([pod(f"u-{n}") for n in range(30)])
    again = on(unified)
    await again.set_up(pod())
    assert values(unified.root / "kubepods" / "burstable", "cpu.weight") == ["118"]
    await again.balance([pod()])
    assert values(unified.root / "kubepods" / "burstable", "cpu.weight") == ["4"]


async def test_a_uid_that_leads_elsewhere_touches_nothing(unified: FakeUnified) -> None:
    cgroups = on(unified)
    with pytest.raises(Invalid):
        await cgroups.set_up(pod("../../x"))
    (unified.root.parent / "podx").mkdir()
    await cgroups.remove("/../../../podx")
    assert (unified.root.parent / "podx").exists()


async def test_pods_do_not_wait_for_limits_of_the_node_that_do_not_fit_yet(
    unified: FakeUnified, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cgroups = on(unified)
    refuse(monkeypatch, lambda path: path.endswith("/kubepods/memory.max"), errno.EBUSY)
    for _ in range(3):
        assert await cgroups.set_up(pod())
    assert [record.message for record in caplog.records if "more than that is in use" in record.message] != []
    assert len(caplog.records) == 1
    with pytest.raises(Retry, match=r"kubepods/memory.max cannot be set to"):
        await cgroups.balance([pod()])
    assert values(unified.root / "kubepods" / "burstable", "cpu.weight") == ["4"]


async def test_a_limit_of_a_pod_that_cannot_be_set_is_told_and_tried_again(
    unified: FakeUnified, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups = on(unified)
    with monkeypatch.context() as for_now:
        refuse(for_now, lambda path: path.endswith("/podu-1/memory.max"), errno.EBUSY)
        with pytest.raises(Retry, match=r"memory.max cannot be set to 67108864: more than that is in use"):
            await cgroups.set_up(pod())
    await cgroups.set_up(pod())
    assert values(unified.root / "kubepods/burstable/podu-1", "memory.max") == [str(64 * 2**20)]


def refuse(monkeypatch: pytest.MonkeyPatch, which: Callable[[str], bool], code: int) -> None:
    real = os.open

    def opened(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_WRONLY and not flags & os.O_CREAT and which(str(path)):
            raise OSError(code, os.strerror(code), path)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", opened)


# --- a tree for each controller


async def test_a_pod_has_a_group_in_every_tree(legacy: FakeLegacy) -> None:
    cgroups = made(SETTINGS, legacy.machine())
    await cgroups.set_up(pod())
    folders = {tree: legacy.root / tree / "kubepods/burstable/podu-1" for tree in LEGACY}
    assert all(folder.is_dir() for folder in folders.values())
    cpu = values(folders["cpu,cpuacct"], "cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us")
    assert cpu == ["102", "100000", "25000"]
    assert values(folders["memory"], "memory.limit_in_bytes") == [str(64 * 2**20)]
    assert values(folders["pids"], "pids.max") == ["100"]
    assert values(folders["cpuset"], "cpuset.cpus", "cpuset.mems") == ["0-3", "0"]
    assert values(legacy.root / "cpu,cpuacct/kubepods", "cpu.shares") == ["4096"]


async def test_a_group_in_a_single_tree_is_found_and_removed_too(legacy: FakeLegacy) -> None:
    cgroups = made(SETTINGS, legacy.machine())
    (legacy.root / "freezer/kubepods/besteffort/podu-7").mkdir()
    assert await cgroups.uids() == {"u-7"}
    await cgroups.remove("u-7")
    assert await cgroups.uids() == frozenset()


async def test_a_root_of_ones_own_is_made(legacy: FakeLegacy) -> None:
    cgroups = made(CgroupSettings(cgroup_root="/mine"), legacy.machine())
    assert await cgroups.set_up(pod()) == "/mine/kubepods/burstable/podu-1"
    assert values(legacy.root / "cpuset/mine/kubepods/burstable/podu-1", "cpuset.cpus") == ["0-3"]


def test_a_period_that_does_not_fit_the_old_quota_is_set_after_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in LEGACY["cpu,cpuacct"]:
        (tmp_path / name).touch()
    quota = tmp_path / "cpu.cfs_quota_us"
    refuse(monkeypatch, lambda path: path.endswith("period_us") and not quota.read_text(), errno.EINVAL)
    files = GroupFiles(Hierarchy(unified=False, mounts={str(tmp_path): frozenset(("cpu",))}))
    files.limit("", GroupLimits(cpu_quota=5000, cpu_period=10_000))
    assert values(tmp_path, "cpu.cfs_period_us", "cpu.cfs_quota_us") == ["10000", "5000"]


# --- what is written


def test_no_limit_is_written_in_the_kernels_words() -> None:
    free = GroupLimits(cpu_quota=UNLIMITED, memory=UNLIMITED, pids=UNLIMITED)
    assert [(each.file, each.text) for each in unified_values(free, ())] == [
        ("cpu.max", "max 100000"),
        ("memory.max", "max"),
        ("pids.max", "max"),
    ]
    assert [(each.file, each.text) for each in legacy_values(free, ())] == [
        ("cpu.cfs_period_us", "100000"),
        ("cpu.cfs_quota_us", "-1"),
        ("memory.limit_in_bytes", "-1"),
        ("pids.max", "max"),
    ]


def test_pages_that_a_pod_does_not_ask_for_are_refused_to_it_and_classes_have_no_bound() -> None:
    sizes = (2 * 2**20, 2**30)
    asked = [
        (each.file, each.text, each.optional) for each in unified_values(GroupLimits(hugepages={2**21: 2**22}), sizes)
    ]
    assert asked == [
        ("hugetlb.2MB.max", str(2**22), False),
        ("hugetlb.2MB.rsvd.max", str(2**22), True),
        ("hugetlb.1GB.max", "0", False),
        ("hugetlb.1GB.rsvd.max", "0", True),
    ]
    unbound = [(each.file, each.text) for each in legacy_values(GroupLimits(), sizes) if not each.optional]
    assert unbound == [("hugetlb.2MB.limit_in_bytes", str(2**62)), ("hugetlb.1GB.limit_in_bytes", str(2**62))]


# --- what this machine has


def test_pages_are_limited_where_the_kernel_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = FakeUnified(tmp_path / "cgroup", monkeypatch, "cpu cpuset memory hugetlb")
    for name in ("hugepages-2048kB", "hugepages-1048576kB"):
        (tmp_path / "pages" / name).mkdir(parents=True)
    assert find_hierarchy((), str(kernel.root), str(tmp_path / "pages")).page_sizes == (2**21, 2**30)
    assert find_hierarchy((), str(kernel.root), str(tmp_path / "none")).page_sizes == ()


def test_a_tree_that_is_mounted_twice_is_used_where_its_path_is_shortest() -> None:
    text = "\n".join(
        f"1 1 0:1 / {path} rw - {kind} x rw,{options}"
        for path, kind, options in [
            ("/far/away/cpu", "cgroup", "cpu,cpuacct"),
            ("/g/cpu,cpuacct", "cgroup", "cpu,cpuacct"),
            ("/g/cpuset", "cgroup", "cpuset,clone_children"),
            ("/g/memory", "cgroup", "memory"),
            ("/g/systemd", "cgroup", "xattr,name=systemd"),
            ("/g/unified", "cgroup2", "nsdelegate"),
            ("/elsewhere", "cgroup2", ""),
        ]
    )
    hierarchy = find_hierarchy(parse_mount_info(text), "/g")
    assert hierarchy.mounts == {
        "/far/away/cpu": frozenset(("cpu", "cpuacct")),
        "/g/cpuset": frozenset(("cpuset",)),
        "/g/memory": frozenset(("memory",)),
        "/g/systemd": frozenset(),
        "/g/unified": frozenset(),
    }
    assert (hierarchy.unified, hierarchy.mount_of("pids")) == (False, "")


async def test_a_machine_without_what_it_takes_goes_on_without_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = pod_cgroups(SETTINGS, Machine(control_groups=str(tmp_path), mounts=()))
    assert "no control groups are mounted" in nothing.limitation
    kernel = FakeUnified(tmp_path / "cgroup", monkeypatch, "cpu pids")
    little = pod_cgroups(SETTINGS, Machine(control_groups=str(kernel.root), mounts=()))
    assert "no control groups for cpuset, memory" in little.limitation
    for cgroups in (nothing, little):
        assert isinstance(cgroups, NoPodCgroups)
        assert await cgroups.set_up(pod()) == ""
        await cgroups.remove("u-1")
        await cgroups.balance([pod()])
        assert await cgroups.orphan_groups(()) == frozenset()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_trees_that_cannot_be_written_to_are_told_in_one_sentence(
    unified: FakeUnified, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refused(path: str, *_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(os, "mkdir", refused)
    cgroups = pod_cgroups(SETTINGS, Machine(control_groups=str(unified.root), mounts=()))
    assert isinstance(cgroups, NoPodCgroups)
    assert cgroups.limitation.endswith(f"{unified.root}/kubepods: {os.strerror(code)}")


def test_a_controller_that_is_not_handed_down_is_told(unified: FakeUnified, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, lambda path: path == f"{unified.root}/cgroup.subtree_control", errno.EBUSY)
    cgroups = pod_cgroups(SETTINGS, Machine(control_groups=str(unified.root), mounts=()))
    assert "cgroup.subtree_control" in cgroups.limitation


def test_a_kernel_that_does_not_count_processes_limits_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = FakeUnified(tmp_path / "cgroup", monkeypatch, "cpu cpuset memory")
    cgroups = pod_cgroups(SETTINGS, Machine(control_groups=str(kernel.root), mounts=()))
    assert isinstance(cgroups, KernelPodCgroups)
    assert "number of processes" in cgroups.limitation


def test_people_may_want_no_groups_at_all(tmp_path: Path) -> None:
    cgroups = pod_cgroups(CgroupSettings(cgroups_per_qos=False), Machine(control_groups=str(tmp_path), mounts=()))
    assert isinstance(cgroups, NoPodCgroups)
    assert cgroups.limitation == ""


def test_a_root_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid, match="cgroupRoot"):
        pod_cgroups(CgroupSettings(cgroup_root="/../x"))

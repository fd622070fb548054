"""What systemd is asked, told by a busctl that writes down every call."""

import os
from pathlib import Path

import pytest

from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import parse
from pykubelet.base.errors import Retry
from pykubelet.host.cgroups import CgroupSettings, KernelPodCgroups, NoPodCgroups, pod_cgroups
from pykubelet.host.cgroups.groups import Machine
from pykubelet.host.cgroups.systemd import Systemd, escaped
from pykubelet.host.cgroups.values import limit_properties, processor_mask
from pykubelet.pod.container.cgroup import UNLIMITED, GroupLimits

MANAGER = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"]
BUSCTL = """#!/bin/sh
# A unit's state is a file; what is asked goes into a log, one line for each argument, an empty line after each call.
here=$(dirname "$0")
shift 2
for each; do echo "$each"; done >> "$here/calls"
echo >> "$here/calls"
state="$here/$(basename "$3")"
case "$1 $5" in
  "get-property Version") echo 's "252.38-1~deb12u1"' ;;
  "get-property ActiveState") echo "s \\"$(cat "$state" 2>/dev/null || echo inactive)\\"" ;;
  "call "*)
    if [ -e "$here/refusal" ]; then cat "$here/refusal" >&2; exit 1; fi
    unit="$here/$(echo "$7" | sed 's/-/_2d/g; s/\\./_2e/g; s/_\\([^2]\\)/_5f\\1/g')"
    case "$5" in
      StartTransientUnit) echo "${OUTCOME:-active}" > "$unit"; echo 'o "/org/freedesktop/systemd1/job/1"' ;;
      StopUnit) rm -f "$unit"; echo 'o "/org/freedesktop/systemd1/job/2"' ;;
    esac ;;
esac
"""


class FakeSystemd:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.busctl = folder / "busctl"
        self.busctl.write_text(BUSCTL)
        self.busctl.chmod(0o755)

    def calls(self) -> list[list[str]]:
        """What was asked since the last look, without the questions for states."""
        log = self.folder / "calls"
        said = log.read_text() if log.exists() else ""
        log.write_text("")
        calls = [each.split("\n") for each in said.removesuffix("\n\n").split("\n\n")] if said else []
        return [call for call in calls if call[0] == "call"]

    def state(self, unit: str, state: str) -> None:
        (self.folder / escaped(unit)).write_text(state)


@pytest.fixture
def fake(tmp_path: Path) -> FakeSystemd:
    folder = tmp_path / "systemd"
    folder.mkdir()
    return FakeSystemd(folder)


def systemd(fake: FakeSystemd, *, unified: bool = True, seconds: float = 30.0) -> Systemd:
    return Systemd(unified=unified, busctl=str(fake.busctl), seconds=seconds)


BURSTABLE = ("kubepods", "burstable")
POD = (*BURSTABLE, "podab-1")


def test_a_slice_is_started_with_everything_counted_and_its_parent_wanted(fake: FakeSystemd) -> None:
    systemd(fake).start(POD)
    unit = "kubepods-burstable-podab_1.slice"
    assert fake.calls() == [
        [
            *("call", *MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "replace", "7"),
            *("Description", "s", f"pykubelet {unit}"),
            *("Wants", "as", "1", "kubepods-burstable.slice"),
            *("MemoryAccounting", "b", "true", "CPUAccounting", "b", "true"),
            *("IOAccounting", "b", "true", "TasksAccounting", "b", "true"),
            *("DefaultDependencies", "b", "false"),
            "0",
        ]
    ]


def test_the_slice_of_the_node_hangs_on_the_top_one_and_old_kernels_count_blocks(fake: FakeSystemd) -> None:
    systemd(fake, unified=False).start(("kubepods",))
    (call,) = fake.calls()
    assert call[call.index("Wants") :][:4] == ["Wants", "as", "1", "-.slice"]
    assert "BlockIOAccounting" in call
    assert "IOAccounting" not in call


def test_a_slice_that_is_there_is_not_started_again(fake: FakeSystemd) -> None:
    fake.state("kubepods-burstable-podab_1.slice", "active")
    systemd(fake).start(POD)
    assert fake.calls() == []


def test_limits_are_properties_of_the_slice(fake: FakeSystemd) -> None:
    limits = GroupLimits(cpu_shares=102, cpu_quota=50_500, memory=2**26, pids=100)
    systemd(fake).limit(POD, limits)
    assert fake.calls() == [
        [
            *("call", *MANAGER, "SetUnitProperties", "sba(sv)", "kubepods-burstable-podab_1.slice", "true", "5"),
            *("MemoryMax", "t", str(2**26)),
            *("CPUWeight", "t", "4"),
            *("CPUQuotaPeriodUSec", "t", "100000"),
            *("CPUQuotaPerSecUSec", "t", "510000"),
            *("TasksMax", "t", "100"),
        ]
    ]


def test_limits_of_old_kernels_have_other_names() -> None:
    limits = GroupLimits(cpu_shares=102, memory=2**26)
    assert limit_properties(limits, unified=False, version=252) == [
        ("MemoryLimit", "t", str(2**26)),
        ("CPUShares", "t", "102"),
    ]


def test_no_limit_is_the_largest_number_that_there_is() -> None:
    free = GroupLimits(cpu_quota=UNLIMITED, memory=UNLIMITED, pids=UNLIMITED)
    properties = limit_properties(free, unified=True, version=252)
    assert {name for name, _, value in properties if value == str(2**64 - 1)} == {
        *("MemoryMax", "CPUQuotaPerSecUSec", "TasksMax"),
    }


def test_old_systemds_are_not_asked_for_what_they_do_not_know() -> None:
    limits = GroupLimits(cpu_quota=1000)
    names = [each[0] for each in limit_properties(limits, unified=True, version=239, cpus="0-3")]
    assert names == ["CPUQuotaPerSecUSec"]
    assert ("AllowedCPUs", "ay", "1", "15") in limit_properties(limits, unified=True, version=244, cpus="0-3")


@pytest.mark.parametrize(("cpus", "mask"), [("0", b"\x01"), ("0-3,8", b"\x0f\x01"), ("9", b"\x00\x02"), ("", b"")])
def test_processors_are_bits_the_lowest_first(cpus: str, mask: bytes) -> None:
    assert processor_mask(cpus) == mask


def test_a_slice_is_stopped_and_one_that_is_gone_is_not(fake: FakeSystemd) -> None:
    asked = systemd(fake)
    asked.stop(POD)
    assert fake.calls() == []
    asked.start(POD)
    fake.calls()
    asked.stop(POD)
    assert fake.calls() == [["call", *MANAGER, "StopUnit", "ss", "kubepods-burstable-podab_1.slice", "replace"]]


def test_a_slice_that_failed_is_forgotten(fake: FakeSystemd) -> None:
    fake.state("kubepods-burstable-podab_1.slice", "failed")
    systemd(fake).stop(POD)
    assert [call[4] for call in fake.calls()] == ["ResetFailedUnit"]


def test_what_systemd_refuses_is_told_with_its_reason(fake: FakeSystemd) -> None:
    (fake.folder / "refusal").write_text("Call failed: Access denied\n")
    with pytest.raises(Retry, match=r"StartTransientUnit kubepods-burstable-podab_1\.slice.*Access denied"):
        systemd(fake).start(POD)


def test_a_slice_that_does_not_come_up_is_told(fake: FakeSystemd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTCOME", "activating")
    with pytest.raises(Retry, match=r"leaves kubepods-burstable-podab_1\.slice activating"):
        systemd(fake, seconds=3.0).start(POD)


def test_names_are_escaped_for_the_bus() -> None:
    assert escaped("kubepods-burstable-podab_1.slice") == "kubepods_2dburstable_2dpodab_5f1_2eslice"


# --- together with the folders


@pytest.fixture
def machine(fake: FakeSystemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One tree, whose new groups have their files as the kernel would make them."""
    root, make, remove = tmp_path / "cgroup", os.mkdir, os.rmdir
    files = ("cgroup.procs", "cgroup.kill", "cgroup.subtree_control", "cpu.weight", "cpu.max", "memory.max", "pids.max")

    def mkdir(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        make(path, mode, dir_fd=dir_fd)
        if Path(path).is_relative_to(root):
            (Path(path) / "cgroup.controllers").write_text("cpu cpuset memory pids")
            for name in files:
                (Path(path) / name).touch()

    def rmdir(path: str, *, dir_fd: int | None = None) -> None:
        if Path(path).is_relative_to(root):
            for entry in os.scandir(path):
                os.unlink(entry.path)
        remove(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", mkdir)
    monkeypatch.setattr(os, "rmdir", rmdir)
    os.mkdir(root)
    return Machine(control_groups=str(root), mounts=(), busctl=str(fake.busctl), systemd_runs=str(fake.folder))


def pod() -> Pod:
    resources = ResourceRequirements(requests={"cpu": parse("100m")}, limits={"memory": parse("64Mi")})
    spec = PodSpec(containers=(Container(name="c", resources=resources),))
    return Pod(metadata=ObjectMeta(name="web", namespace="default", uid="ab-1"), spec=spec)


async def test_a_pods_slice_lives_from_set_up_to_removal(fake: FakeSystemd, machine: Machine) -> None:
    settings = CgroupSettings(driver="systemd", capacity={"cpu": parse("2"), "memory": parse("2Gi")})
    cgroups = pod_cgroups(settings, machine)
    assert isinstance(cgroups, KernelPodCgroups), cgroups.limitation
    started = [(call[4], call[6]) for call in fake.calls()]
    names = ("kubepods.slice", "kubepods-burstable.slice", "kubepods-besteffort.slice")
    assert started == [("StartTransientUnit", name) for name in names]

    assert await cgroups.set_up(pod()) == "kubepods-burstable-podab_1.slice"
    calls = fake.calls()
    limited = {call[6]: call for call in calls if call[4] == "SetUnitProperties"}
    assert list(limited) == [*names, "kubepods-burstable-podab_1.slice"]
    assert "AllowedCPUs" in limited["kubepods.slice"]
    assert str(2 * 2**30) in limited["kubepods.slice"]
    top = Path(machine.control_groups)
    folder = top / "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podab_1.slice"
    assert (folder / "memory.max").read_text() == str(64 * 2**20)
    assert await cgroups.uids() == {"ab-1"}

    await cgroups.set_up(pod())
    assert fake.calls() == []

    await cgroups.remove("ab-1")
    assert [(call[4], call[6]) for call in fake.calls()] == [("StopUnit", "kubepods-burstable-podab_1.slice")]
    assert not folder.exists()
    assert await cgroups.uids() == frozenset()


def test_without_a_systemd_that_runs_there_are_no_groups_and_a_remedy(machine: Machine, tmp_path: Path) -> None:
    settings = CgroupSettings(driver="systemd")
    gone = Machine(control_groups=machine.control_groups, mounts=(), systemd_runs=str(tmp_path / "gone"))
    cgroups = pod_cgroups(settings, gone)
    assert isinstance(cgroups, NoPodCgroups)
    assert cgroups.limitation.endswith("set cgroupDriver: cgroupfs")
    no_busctl = Machine(
        control_groups=machine.control_groups, mounts=(), systemd_runs=str(tmp_path), busctl="/no/busctl"
    )
    assert "not installed" in pod_cgroups(settings, no_busctl).limitation


def test_a_systemd_that_refuses_leaves_pods_without_groups_and_says_why(fake: FakeSystemd, machine: Machine) -> None:
    (fake.folder / "refusal").write_text("Call failed: Access denied\n")
    assert "Access denied" in pod_cgroups(CgroupSettings(driver="systemd"), machine).limitation

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.host.prepare import TUNABLES, MachineSettings, prepare_machine

HEADING = "Filename\tType\tSize\tUsed\tPriority\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    for name, value in TUNABLES.items():
        file = tmp_path / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    (tmp_path / "swaps").write_text(HEADING)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "oom_score_adj").write_text("0")
    return tmp_path


def test_a_machine_with_swap_is_refused_when_it_has_to_be_without(proc: Path) -> None:
    settings = MachineSettings(fail_swap_on=True)
    prepare_machine(settings, proc=proc)
    (proc / "swaps").write_text(HEADING + "/dev/sda2 partition 1 0 -2\n")
    prepare_machine(MachineSettings(), proc=proc)
    with pytest.raises(Invalid, match=r"this machine has swap: turn it off .* --fail-swap-on=false"):
        prepare_machine(settings, proc=proc)
    (proc / "swaps").unlink()  # a kernel without swap
    prepare_machine(settings, proc=proc)


def test_a_machine_with_the_first_control_groups_is_refused_when_it_has_to_have_the_second(
    proc: Path, tmp_path: Path
) -> None:
    settings = MachineSettings(fail_cgroup_v1=True)
    with pytest.raises(Invalid, match="this machine has cgroup v1"):
        prepare_machine(settings, proc=proc, cgroups=tmp_path)
    (tmp_path / "cgroup.controllers").touch()
    prepare_machine(settings, proc=proc, cgroups=tmp_path)


def test_the_kernels_settings_are_left_alone_set_or_insisted_on(proc: Path) -> None:
    file = proc / "sys" / "kernel" / "panic"
    file.write_text("0\n")
    prepare_machine(MachineSettings(), proc=proc)
    assert file.read_text() == "0\n"
    with pytest.raises(Invalid, match=r"protectKernelDefaults: kernel\.panic is 0, not 10; set them with sysctl"):
        prepare_machine(MachineSettings(kernel="check"), proc=proc)
    assert file.read_text() == "0\n"
    prepare_machine(MachineSettings(kernel="set"), proc=proc)
    assert file.read_text().startswith("10")
    prepare_machine(MachineSettings(kernel="check"), proc=proc)


def test_a_kernel_that_cannot_be_changed_is_told_and_no_reason_to_end(
    proc: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = proc / "sys" / "kernel" / "panic"
    file.unlink()
    (proc / "self" / "oom_score_adj").unlink()
    prepare_machine(MachineSettings(kernel="set", oom_score_adj=-999), proc=proc)
    assert [record.getMessage() for record in caplog.records] == [
        "the kernel's setting kernel.panic cannot be read",
        "oomScoreAdj cannot be set to -999: No such file or directory",
    ]


def test_the_agent_is_among_the_last_to_be_killed(proc: Path) -> None:
    prepare_machine(MachineSettings(oom_score_adj=-998), proc=proc)
    assert (proc / "self" / "oom_score_adj").read_text() == "-998"


def test_it_is_so_unless_somebody_says_otherwise_and_quiet_where_it_may_not(
    proc: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prepare_machine(MachineSettings(), proc=proc)
    assert (proc / "self" / "oom_score_adj").read_text() == "-999"
    (proc / "self" / "oom_score_adj").unlink()
    (proc / "self" / "oom_score_adj").mkdir()  # so that it cannot be written
    prepare_machine(MachineSettings(), proc=proc)
    assert caplog.records == []


@pytest.fixture
def _files_as_they_were() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("_files_as_they_were")
def test_the_agent_may_open_as_many_files_as_it_is_told_to(proc: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    prepare_machine(MachineSettings(max_open_files=2**40), proc=proc)  # more than any kernel allows
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    assert "maxOpenFiles: 1099511627776 cannot be had" in caplog.text


def test_swap_is_shared_only_with_the_second_control_groups(proc: Path, tmp_path: Path) -> None:
    settings = MachineSettings(limited_swap=True)
    with pytest.raises(Invalid, match="LimitedSwap but it is only supported with cgroupv2"):
        prepare_machine(settings, proc=proc, cgroups=tmp_path)
    (tmp_path / "cgroup.controllers").touch()
    prepare_machine(settings, proc=proc, cgroups=tmp_path)

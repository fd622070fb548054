# ruff: noqa: ASYNC240 - tests may block
import os
from pathlib import Path

import pytest

from contract.runtime import sandbox_config, seen
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.pod.observed import State
from pykubelet.pod.ports.runtime import Limits
from pykubelet.runtime.process import cgroups
from pykubelet.runtime.process.cgroups import Cgroups
from unit.runtime.process.machine import UID, Machine

EATER = "import os\nx = []\nwhile True: x.append(os.urandom(1 << 20))"


@pytest.fixture
def limited(any_machine: Machine) -> Machine:
    if Cgroups().refusal:
        pytest.skip("this machine lets us set no limits")
    return any_machine


async def test_a_container_that_wants_too_much_memory_is_killed_for_that(limited: Machine) -> None:
    container, _ = await limited.run(
        "",
        command=("python3", "-c", EATER),
        limits=Limits(memory=64 << 20),
        env=(("PATH", os.environ["PATH"]),),
    )
    assert (container.exit_code, container.reason) == (137, "OOMKilled")


async def test_limits_are_set_and_taken_away_with_the_container(limited: Machine) -> None:
    limits = Limits(memory=64 << 20, cpu_shares=512, cpu_quota=50_000)
    container_id = await limited.start("sleep 1000", limits=limits)
    folders = [Path(folder) for folder in limited._foreign() if folder.startswith("/sys")]
    assert folders
    values = {
        path.name: path.read_text().strip() for folder in folders for path in folder.glob("[cm]*") if _is_set(path)
    }
    memory = values.get("memory.max") or values["memory.limit_in_bytes"]
    quota = values.get("cpu.max") or f"{values['cpu.cfs_quota_us']} {values['cpu.cfs_period_us']}"
    weight = values.get("cpu.weight") or values["cpu.shares"]
    assert (memory, quota) == (str(64 << 20), "50000 100000")
    assert weight in ("20", "512")
    assert {folder.name for folder in folders} == {container_id}
    main = limited.main(container_id).pid
    assert all(str(main) in (folder / "cgroup.procs").read_text().split() for folder in folders)
    await limited.runtime.remove_container(container_id)
    assert not any(folder.exists() for folder in folders)


async def test_limits_of_a_running_container_are_raised_lowered_and_taken_away(limited: Machine) -> None:
    container_id = await limited.start("sleep 1000", limits=Limits(memory=64 << 20, cpu_shares=512, cpu_quota=50_000))
    folders = [Path(folder) for folder in limited._foreign() if folder.startswith("/sys")]

    def held(*names: str) -> str:
        return next((folder / name).read_text() for folder in folders for name in names if (folder / name).exists())

    for memory in (256 << 20, 32 << 20):  # on v1 memory and memory with swap have to be told in the right order
        await limited.runtime.update_container(container_id, Limits(memory=memory))
        assert held("memory.max", "memory.limit_in_bytes") == f"{memory}\n"
    await limited.runtime.update_container(container_id, Limits(cpu_shares=1024, cpu_quota=-1))
    assert held("cpu.max", "cpu.cfs_quota_us") in ("max 100000\n", "-1\n")
    assert held("cpu.weight", "cpu.shares") in ("39\n", "1024\n")
    told = (await seen(limited.runtime, UID, container_id)).limits
    assert told is not None
    assert (told.memory, told.cpu_shares, told.cpu_quota) == (32 << 20, 1024, None)


async def test_a_container_can_be_moved_to_other_processors(limited: Machine) -> None:
    found = Cgroups()
    if "cpuset" not in found.controllers:
        pytest.skip("this machine lets us choose no processors")
    container_id = await limited.start("sleep 1000", limits=Limits(cpuset_cpus="0"))
    main = limited.main(container_id).pid
    assert os.sched_getaffinity(main) == {0}
    other = max(os.sched_getaffinity(0))
    await limited.runtime.update_container(container_id, Limits(cpuset_cpus=str(other)))
    assert os.sched_getaffinity(main) == {other}


async def test_what_the_kernel_refuses_now_is_to_be_tried_again(limited: Machine) -> None:
    container_id = await limited.start("sleep 1000", limits=Limits(memory=64 << 20))
    with pytest.raises(Retry, match=r"cannot set .*cpu"):
        await limited.runtime.update_container(container_id, Limits(cpu_quota=1))
    told = (await seen(limited.runtime, UID, container_id)).limits
    assert told is not None
    assert told.cpu_quota is None


def _is_set(path: Path) -> bool:
    names = ("memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.weight", "cpu.shares", "cpu.cfs_quota_us")
    return path.name in (*names, "cpu.cfs_period_us")


async def test_containers_are_accounted_where_the_node_wants_it(limited: Machine) -> None:
    config = changed(sandbox_config(), cgroup_parent=f"/pykubelet-test-{os.getpid()}/pod-x")
    await limited.start("sleep 1000", sandbox=config)
    folders = [folder for folder in limited._foreign() if folder.startswith("/sys")]
    try:
        assert all(f"/pykubelet-test-{os.getpid()}/pod-x/" in folder for folder in folders)
        await limited.runtime.remove_sandbox((await limited.runtime.observe(UID)).sandboxes[0].id)
    finally:
        for folder in folders:
            Path(folder).parent.rmdir()
            Path(folder).parent.parent.rmdir()


async def test_a_score_that_makes_it_an_early_victim_is_set(any_machine: Machine) -> None:
    container_id = await any_machine.start("sleep 1000", limits=Limits(oom_score_adj=777))
    main, monitor = any_machine.main(container_id), any_machine.monitor(container_id)
    assert Path(f"/proc/{main.pid}/oom_score_adj").read_text() == "777\n"
    assert Path(f"/proc/{monitor.pid}/oom_score_adj").read_text() != "777\n"


async def test_a_score_that_we_may_not_set_keeps_nothing_from_running(any_machine: Machine) -> None:
    container_id = await any_machine.start("sleep 1000", limits=Limits(oom_score_adj=-999))
    assert (await seen(any_machine.runtime, UID, container_id)).state is State.RUNNING


@pytest.mark.parametrize(("shares", "weight"), [(2, "1"), (1024, "39"), (262144, "10000"), (0, "1"), (10**9, "10000")])
def test_shares_become_weights_as_the_kubelet_converts_them(shares: int, weight: str) -> None:
    assert dict(cgroups._unified_values(Limits(cpu_shares=shares))) == {"cpu.weight": weight}


def test_without_cgroups_it_is_said_so(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    assert Cgroups(str(empty), str(empty)).refusal == "there is no cgroup that may be written to"
    assert "No such file" in Cgroups(str(tmp_path / "nothing"), str(empty)).refusal


def test_a_hierarchy_without_the_controllers_is_of_no_use(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"30 20 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
    membership = tmp_path / "cgroup"
    membership.write_text("0::/\n")
    found = Cgroups(str(mounts), str(membership))
    assert found.unified is None
    assert found.refusal

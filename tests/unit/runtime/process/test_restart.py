# ruff: noqa: ASYNC220, ASYNC221 - tests may block
import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from contract.runtime import container_config, ended, sandbox_config, seen, until
from kit.waiting import eventually
from pykubelet.base.errors import Retry
from pykubelet.pod.observed import State
from pykubelet.runtime.process import cgroups, table
from pykubelet.runtime.process.process import Identity, Process
from pykubelet.runtime.process.runtime import ProcessRuntime
from pykubelet.runtime.process.shim import files
from unit.runtime.process.machine import UID, Machine, is_there, machine

AGENT = """
import asyncio, os, signal, sys
from pathlib import Path
from unit.runtime.process.machine import Machine

async def main():
    machine = Machine(Path(sys.argv[1]), isolated=sys.argv[2] == "True", log_root=Path(sys.argv[3]))
    await machine.start("", command=machine.program())
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "plain"])
async def test_containers_outlive_an_agent_that_is_killed(tmp_path: Path, isolated: bool) -> None:
    command = [sys.executable, "-c", AGENT, str(tmp_path / "root"), str(isolated), str(tmp_path / "logs")]
    dead = subprocess.run(command, env={"PYTHONPATH": ":".join(sys.path)}, check=False)
    assert dead.returncode == -signal.SIGKILL
    async with machine(tmp_path / "root", isolated=isolated, log_root=tmp_path / "logs") as made:
        pod = await made.runtime.observe(UID)
        assert pod.sandboxes[0].ready
        assert pod.containers[0].state is State.RUNNING
        await made.end(UID, "c", 3)
        container = await ended(made.runtime, UID, pod.containers[0].id)
        assert container.exit_code == 3


async def test_ids_pids_and_times_are_the_same_for_a_new_agent(any_machine: Machine) -> None:
    container_id = await any_machine.start("sleep 1000")
    before, main = await any_machine.runtime.pods(), any_machine.main(container_id)
    for _ in range(3):
        runtime = await any_machine.restarted()
        assert await runtime.pods() == before
        assert any_machine.main(container_id) == main
        assert (await runtime.exec_sync(container_id, ("echo", "here"), 10)).stdout == b"here\n"


async def test_a_new_agent_hears_of_the_end_of_old_containers(any_machine: Machine) -> None:
    await any_machine.start("", command=any_machine.program())
    runtime = await any_machine.restarted()
    changes = runtime.changes()
    await runtime.pods()
    news = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0.01)
    await any_machine.end(UID, "c", 0)
    async with asyncio.timeout(30):
        assert await news == UID
    await changes.aclose()


@pytest.mark.parametrize("fault", ["start", "boot", "pid"])
async def test_a_reused_pid_is_never_taken_for_a_container(any_machine: Machine, fault: str) -> None:
    """A stranger has the pids that the state speaks of."""
    container_id = await any_machine.start("sleep 1000")
    await any_machine.runtime.stop_container(container_id, 0)
    folder = any_machine.root / "containers" / container_id
    (folder / "exit.json").unlink()
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        wrong = dict(files.identity(stranger.pid))
        wrong[fault] = {"start": 1, "boot": "another", "pid": 2**22 - 1}[fault]
        run = json.loads((folder / "run.json").read_text()) | {"monitor": wrong, "main": wrong}
        (folder / "run.json").write_text(json.dumps(run))
        runtime = await any_machine.restarted()
        container = await seen(runtime, UID, container_id)
        assert (container.state, container.exit_code, container.reason) == (State.EXITED, 255, "Unknown")
        await runtime.stop_container(container_id, 0)
        await runtime.remove_container(container_id)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_reused_pid_is_never_taken_for_a_sandbox(any_machine: Machine) -> None:
    sandbox_id = (await any_machine.runtime.run_sandbox(sandbox_config())).id
    await any_machine.runtime.stop_sandbox(sandbox_id)
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        path = any_machine.root / "sandboxes" / sandbox_id / "run.json"
        run = json.loads(path.read_text()) | {"holder": {**files.identity(stranger.pid), "start": 1}}
        path.write_text(json.dumps(run))
        runtime = await any_machine.restarted()
        assert not (await runtime.observe(UID)).sandboxes[0].ready
        with pytest.raises(Retry):
            await runtime.create_container(sandbox_id, container_config(any_machine))
        await runtime.remove_sandbox(sandbox_id)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("is_watched", [True, False], ids=["watched", "unwatched"])
async def test_a_container_ends_with_its_monitor(any_machine: Machine, is_watched: bool) -> None:
    container_id = await any_machine.start("sleep 1000 & sleep 1001; true")
    monitor = any_machine.monitor(container_id)
    await eventually(lambda: len(files.descendants(monitor.pid)) == 3)
    _, *others = any_machine._traces()
    if not is_watched:
        await any_machine.runtime.close()
    os.kill(monitor.pid, signal.SIGKILL)
    if not is_watched:
        await any_machine.restarted()
    container = await ended(any_machine.runtime, UID, container_id)
    assert (container.exit_code, container.reason) == (255, "Unknown")
    assert "monitor" in container.message
    await eventually(lambda: not any(map(is_there, others)))


async def test_an_end_that_cannot_be_noted_is_an_end(any_machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no room left on the disk can still stop pods."""

    def full(path: Path, value: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    container_id = await any_machine.start("sleep 1000")
    monkeypatch.setattr(table, "write", full)
    os.kill(any_machine.monitor(container_id).pid, signal.SIGKILL)
    container = await ended(any_machine.runtime, UID, container_id)
    assert (container.exit_code, container.reason) == (255, "Unknown")


async def test_what_was_not_started_is_stopped_without_a_note(
    any_machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, value: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    sandbox_id = (await any_machine.runtime.run_sandbox(sandbox_config())).id
    container_id = await any_machine.runtime.create_container(sandbox_id, container_config(any_machine))
    monkeypatch.setattr(table, "write", full)
    await any_machine.runtime.stop_container(container_id, 0)
    container = await seen(any_machine.runtime, UID, container_id)
    assert (container.state, container.message) == (State.EXITED, "it was stopped before it was started")


async def test_what_cannot_be_read_is_taken_away(any_machine: Machine) -> None:
    container_id = await any_machine.start("sleep 1000")
    broken, half = any_machine.root / "containers" / "broken", any_machine.root / "containers" / ".gone-x"
    for folder in (broken, half):
        folder.mkdir()
    (broken / "state.json").write_text('{"id": ')
    runtime = await any_machine.restarted()
    assert [container.id for container in (await runtime.observe(UID)).containers] == [container_id]
    assert not broken.exists()
    assert not half.exists()


async def test_two_agents_cannot_start_one_container_twice(any_machine: Machine, tmp_path: Path) -> None:
    sandbox_id = (await any_machine.runtime.run_sandbox(sandbox_config())).id
    config = container_config(any_machine, command=("sleep", "1000"))
    container_id = await any_machine.runtime.create_container(sandbox_id, config)
    other = ProcessRuntime(any_machine.root, **any_machine._options)
    await other.pods()
    await any_machine.runtime.start_container(container_id)
    with pytest.raises(Retry, match="was started before"):
        await other.start_container(container_id)
    main = any_machine.main(container_id)
    assert main.is_alive
    assert (await seen(other, UID, container_id)).state is State.RUNNING
    await other.close()
    assert (await seen(any_machine.runtime, UID, container_id)).state is State.RUNNING


async def test_a_spawner_that_was_killed_is_started_again(any_machine: Machine) -> None:
    container_id = await any_machine.start("sleep 1000")
    spawner = any_machine.runtime._spawner._process
    assert spawner is not None
    spawner.kill()
    spawner.wait()
    assert (await any_machine.runtime.exec_sync(container_id, ("echo", "here"), 10)).stdout == b"here\n"
    assert (await seen(any_machine.runtime, UID, container_id)).state is State.RUNNING


async def test_a_start_that_nobody_waits_for_is_still_whole(any_machine: Machine) -> None:
    sandbox_id = (await any_machine.runtime.run_sandbox(sandbox_config())).id
    config = container_config(any_machine, command=("sleep", "1000"))
    container_id = await any_machine.runtime.create_container(sandbox_id, config)
    starting = asyncio.create_task(any_machine.runtime.start_container(container_id))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await until(any_machine.runtime, UID, lambda pod: pod.containers[0].state is State.RUNNING)


def test_a_process_is_known_by_more_than_its_pid() -> None:
    child = subprocess.Popen(["sleep", "1000"])
    known = Identity(**files.identity(child.pid))
    strangers = (Identity(known.pid, known.start + 1, known.boot), Identity(known.pid, known.start, "another"))
    try:
        assert [each.is_alive for each in (known, *strangers)] == [True, False, False]
        process = Process.open(known)
        assert process is not None
        process.kill_and_close()
    finally:
        child.wait()
    assert Process.open(known) is None


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    known = Identity(**files.identity(child.pid))
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not known.is_alive
    child.wait()


async def test_a_kernel_without_process_handles_will_do(any_machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_call(pid: int, flags: int = 0) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", no_such_call)
    container_id = await any_machine.start("", command=any_machine.program())
    await any_machine.settled()
    await any_machine.runtime.stop_container(container_id, 30)
    assert (await seen(any_machine.runtime, UID, container_id)).exit_code == 143


async def test_a_stop_in_the_middle_of_a_start_waits_for_it(any_machine: Machine) -> None:
    sandbox_id = (await any_machine.runtime.run_sandbox(sandbox_config())).id
    config = container_config(any_machine, command=("sleep", "1000"))
    container_id = await any_machine.runtime.create_container(sandbox_id, config)
    async with asyncio.timeout(30), asyncio.TaskGroup() as both:
        both.create_task(any_machine.runtime.start_container(container_id))
        await asyncio.sleep(0)
        both.create_task(any_machine.runtime.stop_container(container_id, 0))
    assert (await seen(any_machine.runtime, UID, container_id)).exit_code == 137


async def test_who_runs_under_a_record_that_is_spoilt_does_not_go_on_beside_its_successor(isolated: Machine) -> None:
    container_id = await isolated.start("exec sleep 1000")
    main, groups = isolated.main(container_id), isolated._foreign()
    (isolated.root / "containers" / container_id / "state.json").write_bytes(b"{")
    runtime = await isolated.restarted()
    assert (await runtime.observe(UID)).containers == ()
    await eventually(lambda: not main.is_alive)
    cgroups.remove(tuple(each for each in groups if "cgroup" in each))  # which nobody knows any more


async def test_a_record_that_cannot_be_read_now_is_waited_for(isolated: Machine) -> None:
    container_id = await isolated.start("exec sleep 1000")
    state = isolated.root / "containers" / container_id / "state.json"
    content = state.read_bytes()
    state.unlink()
    state.symlink_to(state)
    runtime = await isolated.restarted()
    for _ in range(2):
        with pytest.raises(Retry, match=r"state\.json cannot be read"):
            await runtime.status()
    state.unlink()
    state.write_bytes(content)
    assert [each.state for each in (await runtime.observe(UID)).containers] == [State.RUNNING]

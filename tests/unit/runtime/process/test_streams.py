# ruff: noqa: ASYNC220 - tests may block
import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from contract.runtime import seen
from contract.streams import IDLE, attached, executed, said
from kit.oci import busybox_layer, make_image
from kit.waiting import eventually
from pykubelet.api.security import SecurityContext
from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.observed import State
from pykubelet.runtime.process.exec import ExecSession
from pykubelet.runtime.process.shim import attached as shim
from pykubelet.runtime.process.shim import files
from unit.runtime.process.machine import UID, Machine, machine, sandbox_of, when

AGENT = """
import asyncio, sys
from pathlib import Path
from contract.streams import executed, said
from unit.runtime.process.machine import Machine

async def main():
    machine = Machine(Path(sys.argv[1]), isolated=sys.argv[2] == "True", log_root=Path(sys.argv[3]))
    container_id = await machine.start("", command=machine.program())
    script = "echo here; while :; do sleep 1234567 & wait; done"
    async with executed(machine, container_id, script) as one, executed(machine, container_id, script, tty=True) as two:
        await said(one, until=b"here")
        await said(two, until=b"here")
        print("ready", flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""
NOISE = "yes 0123456789abcdef | head -c 6000000"


def sleepers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"1234567" in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


# --- exec


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "plain"])
async def test_commands_end_with_the_agent_and_containers_do_not(tmp_path: Path, isolated: bool) -> None:
    command = [sys.executable, "-c", AGENT, str(tmp_path / "root"), str(isolated), str(tmp_path / "logs")]
    agent = subprocess.Popen(command, env={"PYTHONPATH": ":".join(sys.path)}, stdout=subprocess.PIPE)
    assert agent.stdout is not None
    try:
        assert await asyncio.to_thread(agent.stdout.readline) == b"ready\n"
        await when(lambda: len(sleepers()) == 2)
    finally:
        agent.kill()
        agent.wait()
        agent.stdout.close()
    await when(lambda: not sleepers())
    async with machine(tmp_path / "root", isolated=isolated, log_root=tmp_path / "logs") as made:
        assert (await made.runtime.observe(UID)).containers[0].state is State.RUNNING


async def test_a_runtime_that_is_closed_ends_its_commands_first(any_machine: Machine) -> None:
    container_id = await any_machine.start(IDLE)
    async with executed(any_machine, container_id, "echo here; sleep 1234567") as session:
        await said(session, until=b"here")
        await any_machine.restarted()
        assert await session.exit_code() == 137
        assert not sleepers()
    assert (await seen(any_machine.runtime, UID, container_id)).state is State.RUNNING


async def test_closing_also_ends_the_jobs_of_an_interactive_shell(any_machine: Machine) -> None:
    container_id = await any_machine.start(IDLE)
    script = "set -m; trap '' HUP; sleep 1234567 & sleep 1234567 & echo here; wait"
    async with executed(any_machine, container_id, script, stdin=True, tty=True) as session:
        await said(session, until=b"here")
        await when(lambda: len(sleepers()) == 2)
    await when(lambda: not sleepers())


async def test_what_a_command_leaves_in_the_background_does_not_hold_its_session(any_machine: Machine) -> None:
    container_id = await any_machine.start(IDLE)
    async with executed(any_machine, container_id, "sleep 1000 & echo over") as session:
        assert (await said(session))["stdout"] == b"over\n"
        assert await session.exit_code() == 0


async def test_a_command_that_closes_its_input_is_not_waited_for(any_machine: Machine) -> None:
    container_id = await any_machine.start(IDLE)
    async with executed(any_machine, container_id, "exec <&-; echo here; exec sleep 1000", stdin=True) as session:
        await said(session, until=b"here")
        await session.send(b"x" * 1000000)
        await session.send(b"x")
        await session.resize(1, 1)


async def test_a_terminal_nobody_looks_at_does_not_stop_its_command(any_machine: Machine) -> None:
    container_id = await any_machine.start(IDLE)
    session = await any_machine.streams.exec(
        container_id, ("sh", "-c", NOISE), stdin=False, stdout=False, stderr=False, tty=True
    )
    assert await said(session) == {"stdout": b"", "stderr": b""}  # type: ignore[arg-type]
    assert await session.exit_code() == 0  # type: ignore[union-attr]
    await session.close()  # type: ignore[union-attr]


async def test_descriptors_are_given_back(any_machine: Machine) -> None:
    container_id = await any_machine.start("cat", stdin=True)
    counts = []
    for _ in range(3):
        async with executed(any_machine, container_id, "cat", stdin=True, tty=True) as session:
            await session.send(b"x\n")
            await said(session, until=b"x")
        async with executed(any_machine, container_id, "cat", stdin=True) as session:
            await session.close_input()
            await said(session)
        async with attached(any_machine, container_id, stdin=True) as session:
            await session.send(b"x\n")
            await said(session, until=b"x")
        with pytest.raises(Invalid):
            await any_machine.streams.exec(container_id, ("/no/x",), stdin=True, stdout=True, stderr=True, tty=True)
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[0] == counts[2]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("tty", [True, False], ids=["terminal", "pipes"])
async def test_another_user_can_open_its_own_streams(isolated: Machine, tty: bool) -> None:
    script = "stty -echo 2>/dev/null; id -u; echo opened >/dev/stdout; cat /dev/stdin"
    sandbox = sandbox_of(SecurityContext(run_as_user=1234, run_as_group=1234))
    container_id = await isolated.start(f"echo main >/dev/stderr; {IDLE}", sandbox=sandbox, tty=tty)
    async with executed(isolated, container_id, script, stdin=True, tty=tty) as session:
        assert (await said(session, until=b"opened"))["stdout"].split() == [b"1234", b"opened"]
        await session.send(b"word\n")
        assert (await said(session, until=b"word"))["stdout"].split() == [b"word"]
    await when(lambda: "main" in isolated.output(container_id))


# --- attach


async def test_a_chatty_container_is_heard_to_the_last_byte(any_machine: Machine) -> None:
    container_id = await any_machine.start(f"read word; {NOISE}", stdin=True)
    async with attached(any_machine, container_id, stdin=True) as session:
        await session.send(b"go\n")
        await asyncio.sleep(0.2)
        assert (await said(session))["stdout"] == (b"0123456789abcdef\n" * 352942)[:6000000]
        assert await session.exit_code() == 0


async def test_who_takes_nothing_is_shut_out_and_the_container_goes_on(any_machine: Machine) -> None:
    container_id = await any_machine.start(f"read word; {NOISE}; echo over; cat", stdin=True)
    async with attached(any_machine, container_id, stdin=True) as session:
        before = time.monotonic()
        await session.send(b"go\n")
        await when(lambda: any_machine.log(container_id).read_bytes().endswith(b"over\n"))
        assert time.monotonic() - before > shim.PATIENCE / 2
        assert len((await said(session))["stdout"]) < 6000000
        with pytest.raises(Retry, match="not taken for too long"):
            await session.exit_code()
    async with attached(any_machine, container_id, stdin=True) as session:
        await session.send(b"still here\n")
        await said(session, until=b"still here")


async def test_a_container_of_an_earlier_version_cannot_be_attached_to(any_machine: Machine) -> None:
    container_id = await any_machine.start(IDLE)
    (any_machine.root / "containers" / container_id / shim.NAME).unlink()
    with pytest.raises(Invalid, match="started by an earlier version"):
        await any_machine.streams.attach(container_id, stdin=False, stdout=True, stderr=True, tty=False)


async def test_input_nobody_wanted_goes_nowhere(any_machine: Machine) -> None:
    container_id = await any_machine.start(f"cat; echo over; {IDLE}")
    async with attached(any_machine, container_id, stdin=True) as session:
        for _ in range(20):
            await session.send(b"x" * 100000)
        await session.close_input()
    await when(lambda: any_machine.output(container_id) == "over\n")


async def test_input_waits_for_a_program_that_does_not_read(any_machine: Machine) -> None:
    container_id = await any_machine.start(f"trap 'wc -c; exit' USR2; echo ready; {IDLE}", stdin=True, stdin_once=True)
    await when(lambda: "ready" in any_machine.output(container_id))
    async with attached(any_machine, container_id, stdin=True) as session:
        sending = asyncio.create_task(session.send(b"x" * 3000000))
        done, _ = await asyncio.wait([sending], timeout=0.5)
        assert not done
        monitor = any_machine.monitor(container_id).pid
        ticks = sum(map(int, files.stat_fields(monitor)[13:15]))
        assert ticks < 50  # it waits, rather than asking again and again
        os.kill(any_machine.main(container_id).pid, signal.SIGUSR2)
        await sending
    await eventually(lambda: "3000000" in any_machine.output(container_id))


async def test_many_can_be_attached_and_too_many_are_told_so(any_machine: Machine) -> None:
    container_id = await any_machine.start("cat", stdin=True)
    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(attached(any_machine, container_id, stdin=True)) for _ in range(32)]
        with pytest.raises(Retry, match="too many"):
            await stack.enter_async_context(attached(any_machine, container_id))
        await sessions[0].send(b"all\n")
        for session in sessions:
            assert (await said(session, until=b"all\n"))["stdout"] == b"all\n"


async def test_an_images_container_has_a_terminal_of_its_own(isolated: Machine) -> None:
    """Nothing of this machine's Python can be reached from in there."""
    await isolated.has(make_image("example.com/tools:1", busybox_layer()))
    script = "read word; echo $word $(tty); read word"
    container_id = await isolated.start(script, image="example.com/tools:1", stdin=True, tty=True)
    async with attached(isolated, container_id, stdin=True, tty=True) as session:
        await session.send(b"main\n")
        assert b"main /dev/pts/0" in (await said(session, until=b"pts/0"))["stdout"]
    async with executed(isolated, container_id, "tty", tty=True) as session:
        assert (await said(session))["stdout"] == b"/dev/pts/1\r\n"


# --- the rest


async def test_checkpoints_are_refused(any_machine: Machine) -> None:
    container_id = await any_machine.start(IDLE)
    with pytest.raises(Invalid, match="cannot write checkpoints"):
        await any_machine.streams.checkpoint(container_id, "/nowhere")


async def test_who_gives_up_while_a_command_starts_leaves_nothing_open(any_machine: Machine) -> None:
    container_id = await any_machine.start(IDLE)
    await any_machine.runtime.exec_sync(container_id, ("true",), 10)
    before = len(os.listdir("/proc/self/fd"))
    for turns in range(0, 60, 3):
        opening = asyncio.create_task(
            any_machine.streams.exec(
                container_id, ("sleep", "1234567"), stdin=True, stdout=True, stderr=True, tty=turns % 2 == 0
            )
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        if isinstance(made := (await asyncio.gather(opening, return_exceptions=True))[0], ExecSession):
            await made.close()
    await when(lambda: not sleepers())
    assert len(os.listdir("/proc/self/fd")) == before

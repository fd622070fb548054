# ruff: noqa: ASYNC240 - tests may block
import asyncio
import os
import re
import signal
import time
from pathlib import Path

import pytest

from contract.runtime import container_config, ended, sandbox_config, seen
from kit.waiting import eventually
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.observed import State
from unit.runtime.process.machine import UID, Machine, is_there

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(3):
            if os.fork() == 0:
                break
        print("daemon", flush=True)
        time.sleep(1000)
    os._exit(0)
os.wait()
print("left", flush=True)
"""


# --- the end


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("exit 0", 0, "Completed"),
        ("exit 1", 1, "Error"),
        ("exit 255", 255, "Error"),
        ("exec python3 -c 'import ctypes; ctypes.string_at(0)'", 139, "Error"),
    ],
)
async def test_how_a_program_ends_is_known(any_machine: Machine, script: str, code: int, reason: str) -> None:
    container, _ = await any_machine.run(script, env=(("PATH", os.environ["PATH"]),))
    assert (container.exit_code, container.reason) == (code, reason)


async def test_a_program_that_is_killed_is_known_for_that(any_machine: Machine) -> None:
    container_id = await any_machine.start("sleep 1000; true")
    os.kill(any_machine.main(container_id).pid, signal.SIGKILL)
    container = await ended(any_machine.runtime, UID, container_id)
    assert (container.exit_code, container.reason) == (137, "Error")


async def test_a_command_that_does_not_exist_is_a_start_error(any_machine: Machine) -> None:
    with pytest.raises(Invalid, match="executable file not found"):
        await any_machine.start("", command=("no-such-program",))
    container = (await any_machine.runtime.observe(UID)).containers[0]
    assert (container.state, container.exit_code, container.reason) == (State.EXITED, 128, "StartError")
    assert container.message == 'exec: "no-such-program": executable file not found in $PATH'
    assert container.finished_at is not None


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("/no/such/file",), "stat /no/such/file: no such file or directory"),
        (("/etc/passwd",), "Permission denied"),
        (("/",), "Permission denied"),
    ],
)
async def test_a_file_that_cannot_be_run_is_a_start_error(
    any_machine: Machine, command: tuple[str, ...], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        await any_machine.start("", command=command)


async def test_a_container_without_a_command_is_refused_with_the_reason(any_machine: Machine) -> None:
    sandbox_id = (await any_machine.runtime.run_sandbox(sandbox_config())).id
    for fields in ({"command": ()}, {"command": (), "args": ("-v",)}):
        with pytest.raises(Invalid, match="image nginx:1 has no default command here"):
            await any_machine.runtime.create_container(
                sandbox_id, container_config(any_machine, image="nginx:1", **fields)
            )


async def test_what_a_container_says_of_its_end_is_read(any_machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    path.write_text("é" * 4000)
    container, _ = await any_machine.run("exit 1", termination_message_path=str(path))
    assert container.message == "é" * 2048


# --- the tree


@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "ended"])
async def test_a_daemon_that_forks_twice_ends_with_its_container(any_machine: Machine, stop: bool) -> None:
    wait = "trap '' TERM; while :; do sleep 1000; done" if stop else "true"
    container_id = await any_machine.start(
        f'python3 -c "$DAEMON"; {wait}', env=(("DAEMON", DAEMON), ("PATH", os.environ["PATH"]))
    )
    if stop:
        await eventually(lambda: any_machine.output(container_id).count("daemon") == 4)
        traces = any_machine._traces()
        assert len(traces) >= 8
        await any_machine.runtime.stop_container(container_id, 0.1)
    else:
        traces = []
        await ended(any_machine.runtime, UID, container_id)
    assert "left" in any_machine.output(container_id)
    holder, *others = traces or any_machine._traces()
    assert is_there(holder)
    await eventually(lambda: not any(map(is_there, others)))


async def test_orphans_are_reaped_while_the_program_runs(any_machine: Machine) -> None:
    script = "for i in 1 2 3 4 5; do (true &) ; done; echo done; sleep 1000; true"
    container_id = await any_machine.start(script)
    await eventually(lambda: "done" in any_machine.output(container_id))
    await eventually(lambda: len(any_machine._traces()) == 5)  # holder, monitor, main twice (below the monitor), sleep


async def test_a_fork_bomb_ends(any_machine: Machine) -> None:
    script = (
        "f() { n=0; while [ $n -lt 5 ]; do sleep 1000 & n=$((n+1)); done; }; trap '' TERM; f; (f; f; sleep 1000) & wait"
    )
    container_id = await any_machine.start(script)
    await eventually(lambda: len(any_machine._traces()) >= 17)
    others = any_machine._traces()[1:]
    await any_machine.runtime.stop_container(container_id, 0)
    await eventually(lambda: not any(map(is_there, others)))


async def test_the_stop_signal_is_the_one_that_the_pod_wants(any_machine: Machine) -> None:
    container_id = await any_machine.start("", command=any_machine.program(), stop_signal="SIGUSR2")
    await any_machine.settled()
    await any_machine.runtime.stop_container(container_id, 30.0)
    assert (await seen(any_machine.runtime, UID, container_id)).exit_code == 3


async def test_a_lost_sandbox_is_seen_and_told(any_machine: Machine) -> None:
    await any_machine.start("sleep 1000")
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def listen() -> None:
        async for uid in any_machine.runtime.changes():
            heard.put_nowait(uid)

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.01)
    os.kill(any_machine._traces()[0].pid, 9)
    async with asyncio.timeout(30):
        assert await heard.get() == UID
    assert not (await any_machine.runtime.observe(UID)).sandboxes[0].ready
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


async def test_an_end_is_told_within_moments(any_machine: Machine) -> None:
    container_id = await any_machine.start("", command=any_machine.program())
    changes = any_machine.runtime.changes()
    news = asyncio.ensure_future(anext(changes))
    await any_machine.settled()
    began = time.monotonic()
    await any_machine.end(UID, "c", 0)
    async with asyncio.timeout(10):
        assert await news == UID
    assert time.monotonic() - began < 5
    assert (await seen(any_machine.runtime, UID, container_id)).state is State.EXITED
    await changes.aclose()


# --- surroundings


async def test_the_environment_is_clean_and_the_containers_own(
    any_machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "x")
    _, output = await any_machine.run("env", env=(("A", "1 2\n3"), ("HOME", "/somewhere")))
    assert "SECRET" not in output
    assert "A=1 2\n3\n" in output
    assert "HOME=/somewhere\n" in output
    assert "HOSTNAME=web\n" in output
    assert "PATH=/usr/local/sbin:" in output


async def test_a_value_that_no_process_can_have_is_refused(any_machine: Machine) -> None:
    with pytest.raises(Invalid, match="environment variable 'A'"):
        await any_machine.start("true", env=(("A", "x\0y"),))


async def test_a_large_environment_arrives(any_machine: Machine) -> None:
    env = tuple((f"V{number}", "x" * 100_000) for number in range(15))
    _, output = await any_machine.run("env | wc -c", env=env)
    assert int(output) > 1_500_000


async def test_the_working_folder_is_the_one_asked_for(any_machine: Machine) -> None:
    _, output = await any_machine.run("pwd", working_dir="/usr/bin")
    assert output == "/usr/bin\n"
    with pytest.raises(Invalid, match="working directory"):
        await any_machine.start("pwd", working_dir="/etc/passwd/x", attempt=1)


async def test_standard_input_is_empty_unless_wanted(any_machine: Machine) -> None:
    _, output = await any_machine.run("cat; echo over")
    assert output == "over\n"
    container_id = await any_machine.start("cat; echo over", stdin=True)
    await any_machine.runtime.exec_sync(container_id, ("true",), 10)
    assert (await seen(any_machine.runtime, UID, container_id)).state is State.RUNNING


async def test_a_terminal_is_one(any_machine: Machine) -> None:
    _, output = await any_machine.run("test -t 0 && test -t 1 && echo yes $TERM", tty=True)
    assert output == "yes xterm\r\n"


# --- output


async def test_lines_of_a_megabyte_arrive_whole(any_machine: Machine) -> None:
    script = "for i in 1 2 3; do head -c 1000000 /dev/zero | tr '\\0' $i; echo; done"
    _, output = await any_machine.run(script)
    assert output == "".join(str(i) * 1_000_000 + "\n" for i in (1, 2, 3))


async def test_any_bytes_arrive_as_they_were(any_machine: Machine) -> None:
    container_id = await any_machine.start("", command=("cat", "/usr/bin/env"))
    await ended(any_machine.runtime, UID, container_id)
    text = b""
    for line in any_machine.log(container_id).read_bytes().split(b"\n")[:-1]:
        _, _, tag, content = line.split(b" ", 3)
        text += content + (b"\n" if tag == b"F" else b"")
    assert text == Path("/usr/bin/env").read_bytes()


async def test_both_streams_are_told_apart(any_machine: Machine) -> None:
    container_id = await any_machine.start("echo out; echo err >&2")
    await ended(any_machine.runtime, UID, container_id)
    lines = [line.split(" ")[1:] for line in any_machine.log(container_id).read_text().splitlines()]
    assert sorted(lines) == [["stderr", "F", "err"], ["stdout", "F", "out"]]


async def test_a_reopened_log_begins_a_new_file_and_loses_nothing(any_machine: Machine) -> None:
    container_id = await any_machine.start("i=0; while :; do i=$((i+1)); echo $i; done")
    path = any_machine.log(container_id)
    moved = []
    for number in range(5):
        await eventually(lambda: path.stat().st_size > 10_000)
        moved.append(path.rename(path.with_name(f"moved{number}")))
        await any_machine.runtime.reopen_log(container_id)
        assert path.exists()
    await any_machine.runtime.stop_container(container_id, 0)
    numbers = [int(line.split()[3]) for file in (*moved, path) for line in file.read_text().splitlines()]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_the_log_goes_where_the_node_wants_it(any_machine: Machine, tmp_path: Path) -> None:
    config = changed(sandbox_config(), log_directory=str(tmp_path / "pods" / "default_web_uid"))
    await any_machine.run("echo here", sandbox=config, log_path="c/0.log")
    assert (tmp_path / "pods/default_web_uid/c/0.log").read_text().endswith(" stdout F here\n")


# --- one more command


async def test_a_command_has_its_own_output_and_code(any_machine: Machine) -> None:
    container_id = await any_machine.start("sleep 1000", env=(("A", "7"),))
    result = await any_machine.runtime.exec_sync(
        container_id, ("sh", "-c", "echo out $A $HOSTNAME; echo err >&2; exit 5"), 10
    )
    assert (result.exit_code, result.stdout, result.stderr) == (5, b"out 7 web\n", b"err\n")


async def test_a_command_that_does_not_end_is_killed(any_machine: Machine) -> None:
    container_id = await any_machine.start("", command=any_machine.program())  # which reaps, as a first process has to
    await any_machine.settled()
    before = len(any_machine._traces())
    began = time.monotonic()
    with pytest.raises(Retry, match=r"timed out after 0\.2 s"):
        await any_machine.runtime.exec_sync(
            container_id, ("sh", "-c", f"trap '' TERM; sleep {os.getpid()}1 & sleep {os.getpid()}2"), 0.2
        )
    assert time.monotonic() - began < 30
    await eventually(lambda: len(any_machine._traces()) == before)
    await eventually(lambda: not _command_lines(f"sleep {os.getpid()}[12]"))


async def test_a_cancelled_command_is_killed(any_machine: Machine) -> None:
    container_id = await any_machine.start("sleep 1000")
    running = asyncio.create_task(any_machine.runtime.exec_sync(container_id, ("sleep", f"{os.getpid()}3"), 100))
    await eventually(lambda: _command_lines(f"sleep {os.getpid()}3"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await eventually(lambda: not _command_lines(f"sleep {os.getpid()}3"))


async def test_a_command_that_is_not_there_is_said_to_be_so(any_machine: Machine) -> None:
    container_id = await any_machine.start("sleep 1000")
    with pytest.raises(Invalid, match="executable file not found"):
        await any_machine.runtime.exec_sync(container_id, ("no-such-program",), 10)


async def test_much_output_of_a_command_arrives(any_machine: Machine) -> None:
    container_id = await any_machine.start("sleep 1000")
    result = await any_machine.runtime.exec_sync(container_id, ("head", "-c", "3000000", "/dev/zero"), 30)
    assert result.stdout == bytes(3_000_000)


async def test_commands_run_side_by_side(any_machine: Machine) -> None:
    container_id = await any_machine.start("sleep 1000")
    results = await asyncio.gather(
        *(any_machine.runtime.exec_sync(container_id, ("echo", str(number)), 30) for number in range(20))
    )
    assert [result.stdout for result in results] == [f"{number}\n".encode() for number in range(20)]


def _command_lines(pattern: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        if re.fullmatch(pattern, text):
            found.append(text)
    return found


# --- many


async def test_fifty_containers_at_once(any_machine: Machine) -> None:
    async def run(number: int) -> str:
        config = sandbox_config(f"p{number}")
        return await any_machine.start(f"echo {number}; exit {number}", sandbox=config)

    ids = await asyncio.gather(*(run(number) for number in range(50)))
    for number, container_id in enumerate(ids):
        container = await ended(any_machine.runtime, f"uid-p{number}", container_id)
        assert container.exit_code == number
        assert any_machine.output(container_id) == f"{number}\n"

"""exec and attach on our own sessions, asked for by the real kubectl over both of its protocols."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kit.certificates import Authority, server_context
from kit.kubectl import SPDY, WEB_SOCKET, Kubectl, Terminal, ended, kubectl_for
from kit.streaming_nodes import SessionNode
from kit.waiting import eventually
from pykubelet.web import upgrade

BOTH = pytest.mark.parametrize("environment", [WEB_SOCKET, SPDY], ids=["websocket", "spdy"])


@asynccontextmanager
async def kubectl(node: SessionNode, home: Path, environment: dict[str, str], **options: Any) -> AsyncIterator[Kubectl]:
    async with kubectl_for(home, environment, execute=node.execute, attach=node.attach, **options) as made:
        yield made
    expected = "websocket" if environment is WEB_SOCKET else "SPDY/3.1"
    assert {upgrade.lower() for upgrade in node.upgrades} == {expected.lower()}
    await node.all_closed(len(node.sessions))


@BOTH
async def test_output_errors_and_the_exit_code_come_back(tmp_path: Path, environment: dict[str, str]) -> None:
    async with kubectl(SessionNode(), tmp_path, environment) as k:
        done = await k.run("exec", "x", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
        assert done == (3, b"out\n", b"err\ncommand terminated with exit code 3\n")
        assert await k.run("exec", "x", "--", "true") == (0, b"", b"")


@BOTH
async def test_input_goes_in_and_its_end_does_too(tmp_path: Path, environment: dict[str, str]) -> None:
    async with kubectl(SessionNode(), tmp_path, environment) as k:
        assert await k.run("exec", "-i", "x", "--", "wc", "-c", typed=bytes(300_000)) == (0, b"300000\n", b"")
        done = await k.run("exec", "-i", "x", "--", "true", typed=bytes(10 << 20))  # more than anybody takes
        assert (done.code, done.stdout) == (0, b"")


@BOTH
async def test_many_megabytes_go_there_and_back_whole(tmp_path: Path, environment: dict[str, str]) -> None:
    much = os.urandom(1 << 20) * 32
    async with kubectl(SessionNode(), tmp_path, environment) as k:
        done = await k.run("exec", "-i", "x", "--", "cat", typed=much)
        assert (done.code, done.stdout == much, done.stderr) == (0, True, b"")


@BOTH
async def test_all_of_it_goes_through_tls(tmp_path: Path, environment: dict[str, str]) -> None:
    tls = server_context(Authority().issue("node", hosts=("127.0.0.1",)))
    much = os.urandom(1 << 20) * 8
    async with kubectl(SessionNode(), tmp_path, environment, tls=tls) as k:
        done = await k.run("exec", "-i", "x", "--", "sh", "-c", "cat; exit 3", typed=much)
        assert (done.code, done.stdout == much) == (3, True)
        process = await k.start("exec", "-i", "x", "--", "cat", stdin=-1, stdout=-1)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"hello\n")
        assert await process.stdout.readline() == b"hello\n"
        await ended(process)  # and it is noticed


@BOTH
async def test_twenty_sessions_at_once(tmp_path: Path, environment: dict[str, str]) -> None:
    async with kubectl(SessionNode(), tmp_path, environment) as k, asyncio.TaskGroup() as together:
        tasks = [
            together.create_task(k.run("exec", "-i", "x", "--", "sh", "-c", f"cat; exit {n}", typed=b"%d" % n))
            for n in range(20)
        ]
    assert [(task.result().code, task.result().stdout) for task in tasks] == [(n, b"%d" % n) for n in range(20)]


@BOTH
async def test_files_are_copied_both_ways(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "here").write_bytes(os.urandom(3_000_000))
    async with kubectl(SessionNode(), tmp_path, environment) as k:
        done = await k.run("cp", str(tmp_path / "here"), f"x:{tmp_path}/there")
        assert done.code == 0, done
        assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
        done = await k.run("cp", f"x:{tmp_path}/there", str(tmp_path / "back"))
        assert done.code == 0, done
    assert (tmp_path / "back").read_bytes() == (tmp_path / "here").read_bytes()


@BOTH
async def test_attaching_holds_a_running_program_and_its_exit_code_is_not_ours(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    node = SessionNode()
    node.attached_to = ["sh", "-c", "read line; echo got $line; exit 7"]
    async with kubectl(node, tmp_path, environment) as k:
        done = await k.run("attach", "-i", "x", typed=b"something\n")
    assert (done.code, done.stdout) == (0, b"got something\n")


@BOTH
async def test_a_person_sits_at_a_terminal_of_some_size_and_changes_it(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    terminal = Terminal()
    terminal.resize(91, 33)
    async with kubectl(SessionNode(), tmp_path, environment) as k:
        process = await k.at(terminal, "exec", "-it", "x", "--", "sh")
        try:
            terminal.type(b"until stty size | grep '33 91'; do sleep 0.05; done; tty\r")
            await eventually(lambda: terminal.shows(b"/dev/pts/"))
            assert re.search(rb"[^']33 91\r\n", terminal.seen)
            terminal.resize(120, 40)
            process.send_signal(28)  # SIGWINCH: it is not the terminal's own session
            terminal.type(b"until stty size | grep '40 120'; do sleep 0.05; done; exit 5\r")
            await eventually(lambda: terminal.shows(b"40 120\r\n"))
            async with asyncio.timeout(30):
                assert await process.wait() == 5
        finally:
            await ended(process)
            terminal.close()


@BOTH
async def test_a_program_whose_client_was_killed_is_ended(tmp_path: Path, environment: dict[str, str]) -> None:
    node = SessionNode()
    async with kubectl(node, tmp_path, environment) as k:
        process = await k.start("exec", "x", "--", "sleep", "1000", stdout=asyncio.subprocess.PIPE)
        await eventually(lambda: node.sessions)
        await ended(process)
        await node.all_closed()
        assert await node.sessions[0].process.wait() == -9


@BOTH
async def test_a_client_that_vanishes_while_its_input_is_stuck_is_noticed(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "_LOOK", 0.2)
    node = SessionNode()
    async with kubectl(node, tmp_path, environment) as k:
        zeros = os.open("/dev/zero", os.O_RDONLY)
        process = await k.start("exec", "-i", "x", "--", "sleep", "1000", stdin=zeros)
        os.close(zeros)
        await eventually(lambda: node.sessions and bytes_read(process.pid) > 4 << 20)
        await ended(process)
        await node.all_closed()


def bytes_read(pid: int) -> int:
    return int(Path(f"/proc/{pid}/io").read_text().split()[1])

"""`top` on a terminal of its own, before an agent that says what it is told; and what it prints without one."""

import json
import os
import signal
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kit.pty_screen import PtyScreen, pty_screen
from kit.told_agent import ToldAgent, node_state, pod_row, told_agent
from kit.waiting import wait_for
from pykubelet.cli.main import main

pytestmark = pytest.mark.timeout(60)

EVIL = "\x1b]52;c;cm0gLXJmIC8K\x07\x1b]0;pwned\x07\x1b[2J\x1b[1;1Hall is well\x1b[6n\x9b2J\x1bc"
POISON = (b"]52;", b"pwned", b"\x1b[6n", b"\x1bc", "\x9b".encode())
STATE = node_state(
    pod_row("web"),
    pod_row("bad", isWell=False, reason="CrashLoopBackOff", sentence=f"bad keeps crashing: last words: `{EVIL}`"),
    pod_row("日本", namespace="prod"),
)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[ToldAgent]:
    with told_agent(tmp_path) as running:
        running.answers["state"] = STATE
        yield running


@pytest.fixture
def state(tmp_path: Path) -> str:
    log = tmp_path / "logs" / "default_web_uid-web" / "app"
    log.mkdir(parents=True)
    (log / "0.log").write_text(f"2026-01-02T15:04:05Z stdout F hello {EVIL} there\n")
    return str(tmp_path)


def is_as_before(screen: PtyScreen) -> bool:
    flags = screen.modes()[3]
    assert isinstance(flags, int)
    return bool(flags & termios.ECHO and flags & termios.ICANON)


def test_a_person_looks_around(agent: ToldAgent, state: str) -> None:
    journal = [
        {"at": "2026-01-02T15:04:05Z", "moment": {"type": "EventRecorded", "reason": "BackOff", "message": EVIL}}
    ]
    agent.answers |= {"journal": journal, "pods": {"items": [{"metadata": {"name": "web", "uid": "uid-web"}}]}}
    with pty_screen("top", "--root-dir", state) as screen:
        screen.sees("n1 ready")
        screen.sees("日本")
        assert (
            screen.lines[3].split()[:4] == ["default", "bad", "1/1", "CrashLoopBackOff"]
            or screen.lines[3].split()[1] == "bad"
        )
        screen.types("/web\r")
        screen.sees("CrashLoopBackOff", gone=True)
        screen.types("l")
        screen.sees("hello")
        screen.sees("there")
        screen.types("e")
        screen.sees("BackOff: ")
        screen.types("d")
        screen.sees("uid: uid-web")
        screen.types("q?")
        screen.sees("why the pod does what it does")
        screen.types("q\x1b")
        screen.sees("CrashLoopBackOff")
        screen.types("q")
        assert screen.leaves() == 0
        assert is_as_before(screen)
        assert not [each for each in POISON if each in screen.sent]


def test_what_changes_is_seen_and_a_silent_agent_is_said_to_be_so(agent: ToldAgent, state: str) -> None:
    with pty_screen("top", "--root-dir", state, "--interval", "0.5") as screen:
        screen.sees("3 pods, 1 not well")
        agent.answers["state"] = node_state(pod_row("alone"))
        screen.sees("alone")
        screen.sees("web", gone=True)
        agent.stop()
        screen.sees("no agent answers at")
        assert "alone" in screen.text, "what was known last stays"
        agent.start()
        screen.sees("no agent answers at", gone=True)


@pytest.mark.parametrize(("columns", "lines"), [(40, 10), (120, 40)])
def test_the_window_changes_its_size(agent: ToldAgent, state: str, columns: int, lines: int) -> None:
    with pty_screen("top", "--root-dir", state, env={"COLUMNS": "80", "LINES": "24"}) as screen:
        screen.sees("enter why")
        screen.resize(columns, lines)
        wait_for(lambda: screen.lines[-1].startswith("enter why"), seconds=10, otherwise=lambda: screen.text)
        wait_for(lambda: "bad" in screen.lines[3], seconds=10, otherwise=lambda: screen.text)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_terminal_is_left_as_it_was(agent: ToldAgent, state: str, number: int) -> None:
    with pty_screen("top", "--root-dir", state) as screen:
        screen.sees("web")
        assert not is_as_before(screen)
        os.kill(screen.process.pid, number)
        screen.leaves()
        assert is_as_before(screen)
        assert b"\x1b[?1049l" in screen.sent, "the screen of before is back"
        assert "Traceback" not in screen.text


def test_it_can_be_put_aside_and_taken_up_again(agent: ToldAgent, state: str) -> None:
    with pty_screen("top", "--root-dir", state, shell='"$@"; read -r _; fg') as screen:
        screen.sees("web")
        screen.types("\x1a")
        wait_for(lambda: is_as_before(screen), seconds=10)
        screen.sees("Stopped")
        screen.types("\r")
        wait_for(lambda: not is_as_before(screen), seconds=10)
        screen.sees("3 pods")
        screen.types("q")
        assert screen.leaves() == 0


def test_a_crash_leaves_the_terminal_as_it_was(agent: ToldAgent, state: str) -> None:
    agent.answers["state"] = node_state(pod_row("web"), cpus="many")
    with pty_screen("top", "--root-dir", state) as screen:
        assert screen.leaves() != 0
        assert is_as_before(screen)


def test_no_color_means_none(agent: ToldAgent, state: str) -> None:
    with pty_screen("top", "--root-dir", state, env={"NO_COLOR": "1"}) as screen:
        screen.sees("CrashLoopBackOff")
        assert b"\x1b[31m" not in screen.sent
    with pty_screen("top", "--root-dir", state) as screen:
        screen.sees("CrashLoopBackOff")
        assert b"\x1b[31m" in screen.sent


def test_a_shell_takes_an_api_server(agent: ToldAgent, state: str) -> None:
    with pty_screen("top", "--root-dir", state) as screen:
        screen.sees("web")
        screen.types("s")
        screen.sees("no shell in app: this goes through an API server: give --kubeconfig")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["top", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_without_a_terminal_it_is_a_table_or_json(agent: ToldAgent, state: str) -> None:
    assert [line.split()[1] for line in run("--root-dir", state).splitlines()] == ["NAME", "bad", "web", "日本"]
    assert [line.split()[1] for line in run("--root-dir", state, "-n", "prod").splitlines()] == ["NAME", "日本"]
    assert json.loads(run("--root-dir", state, "-o", "json"))["items"] == [STATE]


def test_without_an_agent_it_says_so_in_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["top", "--root-dir", str(tmp_path)])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert "no agent answers at" in result.output
    refused = CliRunner().invoke(main, ["top", "n1", "--root-dir", str(tmp_path)])
    assert (refused.exit_code, "give --kubeconfig" in refused.output) == (2, True)

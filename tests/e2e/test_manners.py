"""How commands behave before a person, in a script, and under a service manager."""

import os
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.agent_process import COMMAND, command
from kit.kubectl import Terminal
from kit.up_cluster import EMBEDDED
from kit.waiting import wait_for

POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: {0}}}\nspec:\n  terminationGracePeriodSeconds: 1\n"
    "  containers: [{{name: c, image: this-machine, command: {1}}}]\n"
)
WELL, ILL = POD.format("well", "[sleep, '1000']"), POD.format("ill", "[/nowhere]")


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """With a name as people's homes have it."""
    (tmp_path / "pods").mkdir()
    folder = tmp_path / "José's data"
    yield folder
    if folder.exists():
        command("reset", "--data", str(folder))


def up(data: Path) -> list[str]:
    return ["up", str(data.parent / "pods"), "--data", str(data), *EMBEDDED]


def run(*args: str) -> tuple[int, str, str]:
    done = subprocess.run([*COMMAND, *args], capture_output=True, text=True, timeout=50, check=False)
    return done.returncode, done.stdout, done.stderr


def test_quiet_commands_say_nothing_but_what_is_wrong(data: Path) -> None:
    (data.parent / "pods/ill.yaml").write_text(ILL)
    code, out, told = run(*up(data), "--quiet")
    assert (code, out, told.count("\n")) == (0, "", 1)
    assert "cannot run: c: " in told
    assert run("down", "-q", "--data", str(data)) == (0, "", "")
    (data.parent / "pods/ill.yaml").write_text(ILL.replace("containers:", "contaners:"))
    code, out, told = run(*up(data), "-q")
    assert (code, out) == (2, "")
    assert "contaners" in told.splitlines()[0]  # what the error refers to as told above
    assert run("reset", "-q", "--data", str(data)) == (0, "", "")


def test_a_service_manager_hears_when_it_is_ready_and_well_and_stops_all_of_it(data: Path) -> None:
    (data.parent / "pods/well.yaml").write_text(WELL)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(data.parent / "notify"))
        told.settimeout(50)
        told.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        environment = {**os.environ, "NOTIFY_SOCKET": str(data.parent / "notify"), "WATCHDOG_USEC": "1500000"}
        with (data.parent / "said").open("wb") as said:
            process = subprocess.Popen([*COMMAND, *up(data), "--foreground"], stdout=said, stderr=said, env=environment)
        try:
            while _heard(told) != (process.pid, b"READY=1"):  # the agent's own word is not the unit's
                pass
            for _ in range(2):
                while _heard(told) != (process.pid, b"WATCHDOG=1"):
                    pass
            wait_for(lambda: (data.parent / "said").read_text().count("1/1") == 2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(50) == 0
        finally:
            process.kill()
            process.wait()
    text = (data.parent / "said").read_text()
    assert "\033" not in text
    assert "The node in a browser" not in text, "who reads the log must not get in by it"
    assert "All is stopped" in text
    assert not (data / "up.lock").read_bytes()


def _heard(told: socket.socket) -> tuple[int, bytes]:
    """Who has said what, as systemd sees it."""
    word, ((_, _, credentials), *_), _, _ = told.recvmsg(100, socket.CMSG_SPACE(12))
    pid, _, _ = struct.unpack("3i", credentials)
    return pid, word


def test_it_ends_when_what_it_stays_for_has_ended(data: Path) -> None:
    (data.parent / "pods/well.yaml").write_text(WELL)
    with subprocess.Popen(
        [*COMMAND, *up(data), "--foreground", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_for(lambda: "1/1" in run("pods", "--data", str(data))[1])
            os.kill(int((data / "up.lock").read_text()), signal.SIGKILL)
            assert process.wait(50) == 1
        finally:
            process.kill()
        assert process.stderr is not None
        assert "what ran here has ended" in process.stderr.read().splitlines()[-1]


@pytest.mark.parametrize(("more", "is_red"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_trouble_is_red_where_colours_are_wanted(data: Path, more: dict[str, str], is_red: bool) -> None:
    (data.parent / "pods/ill.yaml").write_text(ILL)
    terminal = Terminal()
    terminal.resize(100, 40)
    environment = {**os.environ, "TERM": "xterm", **more}
    process = subprocess.Popen(
        [*COMMAND, *up(data)], stdin=terminal.theirs, stdout=terminal.theirs, stderr=terminal.theirs, env=environment
    )
    os.close(terminal.theirs)
    try:
        wait_for(lambda: terminal.shows(b"remove everything"), otherwise=lambda: terminal.seen)
        assert (b"\033[31m" in terminal.seen) is is_red
        assert process.wait(50) == 0
    finally:
        process.kill()
        process.wait()
        terminal.close()

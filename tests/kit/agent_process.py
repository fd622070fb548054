"""A node in a folder of its own, and the real agent on it as a process that tests may end in any way."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

COMMAND: Final = [sys.executable, "-m", "pykubelet"]
NODE_NAME: Final = "n1"
_PATIENCE: Final = 10.0
_COMMAND: Final = 50.0
"""Seconds for a command: less than for a test, so that there is something to say of it."""


def command(*args: str, code: int = 0) -> str:
    """What a person types after `pykubelet`. -> all that it prints"""
    result = subprocess.run([*COMMAND, *args], capture_output=True, text=True, timeout=_COMMAND, check=False)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout + result.stderr


class Node:
    """`flags` go to each agent that is started here."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.manifests = folder / "manifests"
        self.manifests.mkdir()
        self.state = folder / "state"
        self.log = folder / "agent.log"
        self._flags = flags
        self.inside: tuple[str, ...] = ()
        """The command, if any, that starts the agent somewhere else than here."""
        self.cgroup_root = f"pykubelet-test-{os.getpid()}-{abs(hash(str(folder))) % 10**6}"

    @contextmanager
    def agent(self, *flags: str) -> Iterator["AgentProcess"]:
        """One that is killed at the end, unless it has ended before. What it says is in `log`."""
        run = ["run", "--root-dir", str(self.state), "--pod-manifest-path", str(self.manifests)]
        run += ["--pod-logs-dir", str(self.state / "logs")]
        run += ["--hostname-override", NODE_NAME, "--port=0", "--healthz-port=0"]
        run += [f"--cgroup-root=/{self.cgroup_root}", "--images=machine", *self._flags, *flags]
        with self.log.open("ab") as log:
            process = AgentProcess(
                subprocess.Popen([*self.inside, *COMMAND, *run], stderr=log), self.state / "pykubelet.sock"
            )
        try:
            yield process
        finally:
            process.kill()

    def remove_pods(self) -> None:
        """All that stopped pods have left."""
        with self.agent("--remove-pods") as agent:
            agent.wait()

    def pods(self) -> dict[str, Any]:
        """By name, without the node's; by uid where that is all that is known. Empty while no agent answers."""
        items = ask(self.state / "pykubelet.sock", "pods", {"items": []})["items"]
        names = {pod["metadata"]["uid"]: pod["metadata"].get("name", pod["metadata"]["uid"]) for pod in items}
        return {names[pod["metadata"]["uid"]].removesuffix(f"-{NODE_NAME}"): pod for pod in items}

    def containers(self) -> dict[str, tuple[str, int]]:
        """Id and restarts of the running container, by pod."""
        return running_containers(self.pods())

    def told(self) -> str:
        """The end of what the agents have said."""
        return self.log.read_text(errors="replace")[-6000:] if self.log.exists() else ""


class AgentProcess:
    def __init__(self, process: "subprocess.Popen[bytes]", control: Path) -> None:
        self._process = process
        self._control = control

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def answers(self) -> bool:
        return bool(ask(self._control, "ping", "") == "pong")

    def kill(self) -> None:
        """It ends without a chance to do anything about it."""
        self._process.kill()
        self._process.wait()

    def stop(self, seconds: float = 60.0) -> None:
        """It ends in good order."""
        self._process.send_signal(signal.SIGTERM)
        self.wait(seconds)

    def wait(self, seconds: float = 60.0) -> None:
        """It ends by itself, in good order."""
        assert self._process.wait(seconds) == 0


def ask(path: Path, question: str, otherwise: Any) -> Any:
    """What an agent answers on its socket; `otherwise` when nobody does."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_PATIENCE)
            connection.connect(str(path))
            connection.sendall(question.encode() + b"\n")
            return json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
    except (OSError, ValueError):
        return otherwise


def running_containers(pods: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """Of pods with one container: its id and restarts, by pod, if it runs."""
    found = {}
    for name, pod in pods.items():
        for status in pod["status"].get("containerStatuses", []):
            if status["state"].get("running"):
                found[name] = status["containerID"].rpartition("/")[2], status["restartCount"]
    return found


def pids_of(command_line: str) -> list[int]:
    """Who runs exactly this."""
    wanted = command_line.replace(" ", "\0").encode() + b"\0"
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == wanted:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be taken note of does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def mentions(text: str) -> list[str]:
    """The processes that have a text in their command line or environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in line and folder.name != str(os.getpid()):
            found.append(line[:80].replace(b"\0", b" ").decode(errors="replace"))
    return found

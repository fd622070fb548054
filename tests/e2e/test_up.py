"""What a person does on a fresh machine: up, look, change something, down. Real processes, no fakes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMAND = [sys.executable, "-m", "pykubelet"]


def command(*args: str, code: int = 0) -> str:
    result = subprocess.run([*COMMAND, *args], capture_output=True, text=True, timeout=120)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout + result.stderr


def eventually(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not come true in time"
        time.sleep(0.02)


class Node:
    """A node that was brought up in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.manifests = folder / "manifests"

    def up(self, *args: str, code: int = 0) -> str:
        return command("up", str(self.manifests), "--data", str(self.data), *args, code=code)

    def down(self) -> str:
        return command("down", "--data", str(self.data))

    def pods(self) -> dict[str, Any]:
        items = json.loads(command("pods", "--data", str(self.data), "-o", "json"))["items"]
        return {pod["metadata"]["name"].rsplit("-", 1)[0]: pod for pod in items}

    def container(self, pod: str, index: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self.pods()[pod]["status"]["containerStatuses"][index]
        return found

    @property
    def agent(self) -> int:
        return int((self.data / "state" / "agent.lock").read_text())

    def processes(self) -> list[str]:
        """The command lines of everything that has to do with this node."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue
            if str(self.data).encode() in line:
                found.append(line[:80].replace(b"\0", b" ").decode(errors="replace"))
        return found


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    made.manifests.mkdir()
    try:
        yield made
    finally:
        if made.data.exists():
            made.down()


def sleeper(name: str, seconds: str = "1000") -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n"
        f"  containers:\n  - {{name: c, image: this-machine, command: [sleep, '{seconds}']}}\n"
    )


def test_the_examples_come_up_and_go_down_and_leave_nothing(node: Node) -> None:
    shutil.copytree(EXAMPLES, node.manifests, dirs_exist_ok=True)
    shown = node.up()
    states = {line.split()[1].rsplit("-", 1)[0]: line.split()[3] for line in shown.splitlines() if "default" in line}
    assert states == {"web": "Running", "job": "Completed", "crash": "CrashLoopBackOff", "sidecar": "Running"}
    eventually(lambda: _page() == b"<h1>It works</h1>\n")
    logs = node.data / "state" / "logs"
    assert "stdout F 3" in next(logs.glob("*job*/count/0.log")).read_text()
    eventually(lambda: "hello from sidecar" in next(logs.glob("*sidecar*/reader/0.log")).read_text())
    assert "running already" in node.up()
    assert "cleared away" in node.down()
    assert not node.data.exists()
    assert str(node.data) not in Path("/proc/mounts").read_text()
    assert node.processes() == []
    assert "nothing to stop" in node.down()


def _page() -> bytes:
    try:
        with urllib.request.urlopen("http://127.0.0.1:28080/", timeout=10) as page:
            content: bytes = page.read()
            return content
    except OSError:
        return b""  # it does not listen yet


def test_from_a_manifest_to_its_process_takes_less_than_a_second_and_so_does_the_way_back(node: Node) -> None:
    (node.manifests / "first.yaml").write_text(sleeper("first"))
    node.up()
    marker = f"{os.getpid()}77"
    began = time.monotonic()
    (node.manifests / "second.yaml").write_text(sleeper("second", marker))
    eventually(lambda: _runs(marker))
    print(f"from manifest to process: {time.monotonic() - began:.3f} s")
    (node.manifests / "second.yaml").unlink()
    eventually(lambda: not _runs(marker))
    eventually(lambda: list(node.pods()) == ["first"])


def _runs(argument: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"sleep\0{argument}\0".encode():
                return True
        except OSError:
            continue
    return False


def test_an_agent_that_is_killed_and_started_again_restarts_nothing(node: Node) -> None:
    (node.manifests / "web.yaml").write_text(sleeper("web"))
    node.up()
    before = node.container("web")
    os.kill(node.agent, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{node.agent}/cmdline").exists() or _is_zombie(node.agent))
    node.up()
    assert node.container("web") == before


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_container_that_dies_is_seen_and_restarted_at_once(node: Node) -> None:
    marker = f"{os.getpid()}88"
    (node.manifests / "web.yaml").write_text(sleeper("web", marker))
    node.up()
    subprocess.run(["pkill", "-KILL", "-f", f"^sleep {marker}$"], check=True)
    eventually(lambda: node.container("web")["restartCount"] == 1 and _runs(marker))
    ended = node.container("web")["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")


def test_a_pod_that_cannot_run_says_why_and_disturbs_nobody(node: Node) -> None:
    (node.manifests / "good.yaml").write_text(sleeper("good"))
    node.up()
    (node.manifests / "bad.yaml").write_text(sleeper("bad").replace("[sleep, '1000']", "[no-such-program]"))
    (node.manifests / "needy.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: needy}\nspec:\n"
        "  containers:\n  - {name: c, image: i, command: [sleep, '1'], volumeMounts: [{name: v, mountPath: /v}]}\n"
        "  volumes: [{name: v, nfs: {server: a, path: /b}}]\n"
    )
    eventually(lambda: {"bad", "needy"} <= node.pods().keys())
    eventually(lambda: "no-such-program" in json.dumps(node.container("bad")))
    eventually(lambda: "nfs" in json.dumps(node.container("needy")["state"]))
    assert node.container("good")["ready"]


def test_sigterm_leaves_pods_running_unless_told_otherwise(tmp_path: Path) -> None:
    marker = f"{os.getpid()}99"
    manifests = tmp_path / "m"
    manifests.mkdir()
    (manifests / "web.yaml").write_text(sleeper("web", marker))
    run = [*COMMAND, "run", "--root-dir", str(tmp_path / "state"), "--pod-manifest-path", str(manifests)]
    for last in (False, True):
        agent = subprocess.Popen([*run, *(["--stop-pods-on-exit"] if last else [])], stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: _runs(marker))
            eventually((tmp_path / "state" / "pykubelet.sock").exists)
        finally:
            agent.terminate()
            try:
                assert agent.wait(30) == 0
            finally:
                agent.kill()
                agent.wait()
        assert _runs(marker) is not last


def test_nothing_to_run_is_one_clear_line(node: Node, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert command("up", str(missing), "--data", str(node.data), code=2) == (
        f"pykubelet: {missing}: there is no such file or folder of manifests\n"
    )
    assert "no agent answers" in command("pods", "--data", str(node.data), code=2)


def test_down_touches_no_folder_that_up_has_not_made(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    assert "was not made by `pykubelet up`; nothing in it was touched" in command(
        "down", "--data", str(tmp_path), code=2
    )
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "web.yaml").write_text(sleeper("web"))
    assert "is not empty" in command("up", str(tmp_path / "m"), "--data", str(tmp_path), code=2)
    assert (tmp_path / "precious").read_text() == "mine"


def test_down_stops_also_the_pods_of_an_agent_that_was_killed(node: Node) -> None:
    marker = f"{os.getpid()}66"
    (node.manifests / "web.yaml").write_text(sleeper("web", marker))
    node.up()
    os.kill(node.agent, signal.SIGKILL)
    assert _runs(marker)
    assert "cleared away" in node.down()
    assert not _runs(marker)
    assert not node.data.exists()


def test_faults_in_manifests_are_told_at_once_and_the_other_pods_run(node: Node, tmp_path: Path) -> None:
    (node.manifests / "good.yaml").write_text(sleeper("good"))
    (node.manifests / "bad.yaml").write_text(sleeper("bad").replace("name: c,", "name: C,"))
    shown = node.up(code=2)
    assert "bad.yaml:7:12: spec.containers[0].name" in shown
    assert node.container("good")["ready"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "web.yaml").write_text(sleeper("web"))
    assert "stop it first" in command("up", str(other), "--data", str(node.data), code=2)


def test_a_folder_without_a_pod_is_told_at_once(node: Node) -> None:
    assert "there is no pod to run" in node.up(code=2)
    assert not node.data.exists()

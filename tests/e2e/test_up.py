"""What a person does on a fresh machine: up, look, change something, down. Real processes, no fakes."""

import json
import os
import shutil
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.agent_process import Node, command, is_alive, mentions, pids_of
from kit.up_cluster import EMBEDDED
from kit.waiting import wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"


class UpNode(Node):
    """A node that `up` brings up, and that is looked at as a person does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.data = folder / "data"
        self.state = self.data / "state"

    def up(self, *args: str, code: int = 0) -> str:
        return command("up", str(self.manifests), "--data", str(self.data), *(args or EMBEDDED), code=code)

    def down(self) -> str:
        return command("down", "--data", str(self.data))

    def reset(self) -> str:
        return command("reset", "--data", str(self.data))

    def pods(self) -> dict[str, Any]:
        items = json.loads(command("pods", "--data", str(self.data), "-o", "json"))["items"]
        return {pod["metadata"]["name"].rsplit("-", 1)[0]: pod for pod in items}

    def container(self, pod: str) -> dict[str, Any]:
        found: dict[str, Any] = self.pods()[pod]["status"]["containerStatuses"][0]
        return found

    @property
    def agent_pid(self) -> int:
        return int((self.state / "agent.lock").read_text() or 0)

    @property
    def supervisor_pid(self) -> int:
        return int((self.data / "up.lock").read_text())

    def kill_agent(self) -> None:
        """It is there again afterwards."""
        pid = self.agent_pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: self.agent_pid != pid and is_alive(self.agent_pid))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[UpNode]:
    made = UpNode(tmp_path)
    try:
        yield made
    finally:
        if made.data.exists():
            made.reset()


def sleeper(name: str, seconds: str = "1000") -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n"
        f"  containers:\n  - {{name: c, image: this-machine, command: [sleep, '{seconds}']}}\n"
    )


def test_the_examples_come_up_and_go_down_and_leave_nothing(node: UpNode) -> None:
    shutil.copytree(EXAMPLES, node.manifests, dirs_exist_ok=True)
    shown = node.up()
    assert len([line for line in shown.splitlines() if line.startswith("Pods have their own root, processes")]) == 1
    states = {line.split()[1].rsplit("-", 1)[0]: line.split()[3] for line in shown.splitlines() if "default" in line}
    assert states == {"web": "Running", "job": "Completed", "crash": "CrashLoopBackOff", "sidecar": "Running"}
    wait_for(lambda: _page() == b"<h1>It works</h1>\n")
    logs = node.state / "logs"
    assert "stdout F 3" in next(logs.glob("*job*/count/0.log")).read_text()
    wait_for(lambda: "hello from sidecar" in next(logs.glob("*sidecar*/reader/0.log")).read_text())
    assert "running already" in node.up()
    assert "cleared away" in node.reset()
    assert not node.data.exists()
    assert str(node.data) not in Path("/proc/mounts").read_text()
    wait_for(lambda: mentions(str(node.data)) == [])
    assert "nothing to stop" in node.down()
    assert "nothing to remove" in node.reset()


def test_down_stops_all_that_runs_and_up_goes_on_from_there(node: UpNode) -> None:
    marker = f"{os.getpid()}44"
    (node.manifests / "web.yaml").write_text(sleeper("web", marker))
    node.up()
    before = node.container("web")["containerID"]
    shown = node.down()
    assert "All is stopped" in shown
    assert not pids_of(f"sleep {marker}")
    wait_for(lambda: mentions(str(node.data)) == [])
    assert (node.data / "kubeconfig").exists()
    assert "Starting" not in node.down(), "there is nothing to start in order to stop it"
    node.up()
    assert pids_of(f"sleep {marker}")
    assert node.container("web")["containerID"] != before


def _page() -> bytes:
    try:
        with urllib.request.urlopen("http://127.0.0.1:28080/", timeout=10) as page:
            content: bytes = page.read()
            return content
    except OSError:
        return b""  # it does not listen yet


def test_from_a_manifest_to_its_process_takes_less_than_a_second_and_so_does_the_way_back(node: UpNode) -> None:
    (node.manifests / "first.yaml").write_text(sleeper("first"))
    node.up()
    marker = f"{os.getpid()}77"
    began = time.monotonic()
    (node.manifests / "second.yaml").write_text(sleeper("second", marker))
    wait_for(lambda: pids_of(f"sleep {marker}"))
    print(f"from manifest to process: {time.monotonic() - began:.3f} s")
    (node.manifests / "second.yaml").unlink()
    wait_for(lambda: not pids_of(f"sleep {marker}"))
    wait_for(lambda: list(node.pods()) == ["first"])


def test_an_agent_that_is_killed_and_started_again_restarts_nothing(node: UpNode) -> None:
    (node.manifests / "web.yaml").write_text(sleeper("web"))
    node.up()
    before = node.container("web")
    node.kill_agent()
    assert "running already" in node.up()
    wait_for(lambda: node.container("web") == before)


def test_a_container_that_dies_is_seen_and_restarted_at_once(node: UpNode) -> None:
    marker = f"{os.getpid()}88"
    (node.manifests / "web.yaml").write_text(sleeper("web", marker))
    node.up()
    for pid in pids_of(f"sleep {marker}"):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: node.container("web")["restartCount"] == 1 and pids_of(f"sleep {marker}"))
    ended = node.container("web")["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")


def test_a_pod_that_cannot_run_says_why_and_disturbs_nobody(node: UpNode) -> None:
    (node.manifests / "good.yaml").write_text(sleeper("good"))
    node.up()
    (node.manifests / "bad.yaml").write_text(sleeper("bad").replace("[sleep, '1000']", "[no-such-program]"))
    (node.manifests / "needy.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: needy}\nspec:\n"
        "  containers:\n  - {name: c, image: i, command: [sleep, '1'], volumeMounts: [{name: v, mountPath: /v}]}\n"
        "  volumes: [{name: v, nfs: {server: a, path: /b}}]\n"
    )
    wait_for(lambda: {"bad", "needy"} <= node.pods().keys())
    wait_for(lambda: "no-such-program" in json.dumps(node.container("bad")))
    wait_for(lambda: "nfs" in json.dumps(node.container("needy")["state"]))
    assert node.container("good")["ready"]


def test_sigterm_leaves_pods_running_unless_told_otherwise(tmp_path: Path) -> None:
    program = f"sleep {os.getpid()}99"
    node = Node(tmp_path)
    (node.manifests / "web.yaml").write_text(sleeper("web", program.split()[1]))
    for last in (False, True):
        with node.agent(*(["--stop-pods-on-exit"] if last else [])) as agent:
            wait_for(lambda: pids_of(program) and agent.answers())
            agent.stop()
        assert bool(pids_of(program)) is not last


def test_nothing_to_run_is_one_clear_line(node: UpNode, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert command("up", str(missing), "--data", str(node.data), code=2) == (
        f"pykubelet: {missing}: there is no such file or folder of manifests\n"
    )
    assert "no agent answers" in command("pods", "--data", str(node.data), code=1)


def test_down_touches_no_folder_that_up_has_not_made(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    assert "was not made by `pykubelet up`; nothing in it was touched" in command(
        "down", "--data", str(tmp_path), code=2
    )
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "web.yaml").write_text(sleeper("web"))
    assert "is not empty" in command("up", str(tmp_path / "m"), "--data", str(tmp_path), code=2)
    assert (tmp_path / "precious").read_text() == "mine"


def test_down_stops_also_the_pods_of_a_keeper_that_was_killed(node: UpNode) -> None:
    marker = f"{os.getpid()}66"
    (node.manifests / "web.yaml").write_text(sleeper("web", marker))
    node.up()
    pids = [node.supervisor_pid, *children(node.supervisor_pid)]
    assert len(pids) == 3
    os.kill(node.supervisor_pid, signal.SIGKILL)
    wait_for(lambda: not any(map(is_alive, pids)))
    assert pids_of(f"sleep {marker}")
    node.down()
    assert not pids_of(f"sleep {marker}")
    wait_for(lambda: mentions(str(node.data)) == [])
    node.reset()
    assert not node.data.exists()


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_faults_in_manifests_are_told_at_once_and_the_other_pods_run(node: UpNode, tmp_path: Path) -> None:
    (node.manifests / "good.yaml").write_text(sleeper("good"))
    (node.manifests / "bad.yaml").write_text(sleeper("bad").replace("name: c,", "name: C,"))
    shown = node.up(code=2)
    assert "bad.yaml:7:12: spec.containers[0].name" in shown
    assert node.container("good")["ready"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "web.yaml").write_text(sleeper("web"))
    assert "stop it first" in command("up", str(other), "--data", str(node.data), code=2)


def test_a_folder_without_a_pod_is_told_at_once(node: UpNode) -> None:
    assert "there is no pod to run" in node.up(code=2)
    assert not node.data.exists()


def test_a_runtime_that_does_not_answer_is_told_at_once_and_nothing_is_left(node: UpNode, tmp_path: Path) -> None:
    (node.manifests / "web.yaml").write_text(sleeper("web"))
    shown = node.up("--container-runtime-endpoint", f"unix://{tmp_path}/none.sock", code=2)
    assert f"the runtime at unix://{tmp_path}/none.sock cannot be used" in shown
    assert not node.data.exists()


def test_what_cannot_run_is_told_at_once_and_is_not_counted_as_up(node: UpNode) -> None:
    (node.manifests / "pod.yaml").write_text(sleeper("web").replace(", command: [sleep, '1000']", ""))
    began = time.monotonic()
    told = node.up()
    assert time.monotonic() - began < 30
    assert "0 of 1 pods are up, 1 cannot run" in told
    assert "cannot run: c: image this-machine has no default command here" in told


def test_a_broken_store_is_told_at_once_and_can_be_taken_away(node: UpNode) -> None:
    (node.manifests / "pod.yaml").write_text(sleeper("web"))
    node.up()
    node.down()
    (node.data / "apiserver" / "state.db").write_bytes(os.urandom(100_000))
    began = time.monotonic()
    told = node.up(code=2)
    assert time.monotonic() - began < 30
    assert told.splitlines()[-1].startswith(f"pykubelet: {node.data}/apiserver/state.db cannot be used as a store: ")
    assert "All is cleared away." in node.reset()


def test_what_runs_in_a_folder_that_was_removed_can_still_be_stopped(node: UpNode) -> None:
    (node.manifests / "pod.yaml").write_text(sleeper("web", "98765"))
    node.up()
    keeper, agent = node.supervisor_pid, node.agent_pid
    assert pids_of("sleep 98765")
    shutil.rmtree(node.data, ignore_errors=True)
    assert "was removed while it was in use" in node.down()
    assert not any(map(is_alive, (keeper, agent)))
    assert not pids_of("sleep 98765")


def test_folders_that_cannot_be_used_are_told_in_one_line_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for data in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        told = command("up", "--data", str(data), *EMBEDDED, code=2)
        assert told.startswith((f"pykubelet: {tmp_path}/file", "pykubelet: /proc/nowhere"))
        assert told.endswith("with --data\n")
        assert told.count("\n") == 1

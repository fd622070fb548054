"""The whole agent on a real containerd: pods come up, survive the agent, and go without a trace."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kit.containerd import Containerd

COMMAND = [sys.executable, "-m", "pykubelet"]


def eventually(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not come true in time"
        time.sleep(0.05)


def manifest(name: str) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n"
        "spec:\n  terminationGracePeriodSeconds: 1\n"
        "  containers:\n  - name: c\n    image: busybox:1.36\n    imagePullPolicy: IfNotPresent\n"
        "    command: [sh, -c, 'trap exit TERM; while :; do sleep 1 & wait $!; done']\n"
    )


class Node:
    def __init__(self, folder: Path, containerd: Containerd) -> None:
        self.manifests = folder / "manifests"
        self.manifests.mkdir()
        self._root = folder / "state"
        self._endpoint = containerd.endpoint

    @contextmanager
    def agent(self, *args: str) -> Iterator[subprocess.Popen[bytes]]:
        command = [*COMMAND, "run", "--root-dir", str(self._root), "--pod-manifest-path", str(self.manifests)]
        command += ["--container-runtime-endpoint", self._endpoint, "--hostname-override", "n1", *args]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def pods(self) -> dict[str, Any]:
        shown = subprocess.run(
            [*COMMAND, "pods", "--root-dir", str(self._root), "-o", "json"], capture_output=True, text=True, check=False
        )
        items = json.loads(shown.stdout)["items"] if shown.returncode == 0 else []
        return {pod["metadata"]["name"].removesuffix("-n1"): pod for pod in items}

    def containers(self) -> dict[str, tuple[str, int]]:
        """Id and restarts of each running container, by pod."""
        found = {}
        for name, pod in self.pods().items():
            for status in pod["status"].get("containerStatuses", []):
                if status["state"].get("running"):
                    found[name] = status["containerID"], status["restartCount"]
        return found


def test_pods_run_on_containerd_survive_the_agent_and_leave_nothing(tmp_path: Path, containerd: Containerd) -> None:
    node = Node(tmp_path, containerd)
    names = {f"p{number}" for number in range(5)}
    for name in names:
        (node.manifests / f"{name}.yaml").write_text(manifest(name))
    with node.agent() as first:
        eventually(lambda: node.containers().keys() == names)
        before = node.containers()
        ips = {pod["status"]["podIP"] for pod in node.pods().values()}
        assert len(ips) == 5  # each has an address of its own
        first.send_signal(signal.SIGTERM)
        assert first.wait(30) == 0
    with node.agent("--stop-pods-on-exit") as second:
        eventually(lambda: node.containers() == before)
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0
    assert containerd.ctr("containers", "list", "--quiet").split() == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()

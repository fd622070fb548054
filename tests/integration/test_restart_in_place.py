"""A container that is restarted by the command, by the signal that its pod chose: the real agent, real programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from kit.agent_process import Node, command
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(60)

SCRIPT = "trap 'echo heard; exit 7' USR1; while :; do sleep 0.05; done"


def manifest(name: str, **spec: Any) -> str:
    container = {
        "name": "c", "image": "host", "command": ["sh", "-c", SCRIPT], "lifecycle": {"stopSignal": "SIGUSR1"}
    }  # fmt: skip
    whole = {"os": {"name": "linux"}, "terminationGracePeriodSeconds": 5, "containers": [container], **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole})


def test_it_ends_by_its_signal_and_runs_again(tmp_path: Path) -> None:
    node = Node(tmp_path, "--container-runtime-endpoint=process")
    (node.manifests / "signal.yaml").write_text(manifest("signal"))
    (node.manifests / "once.yaml").write_text(manifest("once", restartPolicy="Never"))
    with node.agent("--feature-gates=ContainerStopSignals=true") as agent:
        wait_for(lambda: set(node.containers()) == {"signal", "once"}, seconds=30, otherwise=node.told)
        before = node.containers()
        said = command("restart", "signal-n1", "--root-dir", str(node.state))
        assert said == "c of default/signal-n1 is being restarted\n"
        wait_for(lambda: node.containers().get("signal", ("", 0))[1] == 1, seconds=30, otherwise=node.told)
        (status,) = node.pods()["signal"]["status"]["containerStatuses"]
        assert status["lastState"]["terminated"]["exitCode"] == 7
        assert status["stopSignal"] == "SIGUSR1"
        refused = command("restart", "once-n1", "--root-dir", str(node.state), code=2)
        assert "with restartPolicy Never an end may be its last" in refused
        assert node.containers()["once"] == before["once"]
        agent.stop()
    node.remove_pods()

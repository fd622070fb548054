"""A running agent whose configuration file changes: the real program, its signal and its log."""

import os
import signal
from pathlib import Path

import pytest

from kit.agent_process import Node, ask, command
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(60)

POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
    "spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: host, command: [sleep, '1000']}]}\n"
)
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def test_a_signal_applies_what_it_can_and_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, "--container-runtime-endpoint=process")
    config = tmp_path / "config.yaml"
    config.write_text(HEAD)
    with node.agent("--config", str(config)) as agent:

        def in_force(field: str) -> object:
            answer = ask(node.state / "pykubelet.sock", "configuration", {"configuration": {}})
            return answer["configuration"].get(field)

        wait_for(lambda: "state is in" in node.told(), seconds=30, otherwise=node.told)
        before = in_force("syncFrequency")
        config.write_text(HEAD + "syncFrequency: 15s\nmaxPods: 7\n")
        os.kill(agent.pid, signal.SIGHUP)
        wait_for(lambda: "applied: syncFrequency; takes a restart: maxPods" in node.told(), seconds=10)
        assert (before, in_force("syncFrequency"), in_force("maxPods")) == ("1m0s", "15s", 110)
        config.write_text(HEAD + "syncFrequency: soon\n")
        os.kill(agent.pid, signal.SIGHUP)
        wait_for(lambda: "is not reloaded, and nothing is changed: " in node.told(), seconds=10)
        assert in_force("syncFrequency") == "15s"
        refused = command("reload", "--root-dir", str(node.state), code=2)
        assert "syncFrequency" in refused
        assert refused.count("\n") == 1
        config.write_text(HEAD + "syncFrequency: 20s\nlogging: {verbosity: 4}\n")
        wait_for(lambda: in_force("syncFrequency") == "20s", seconds=15, otherwise=node.told)  # nobody had to say so
        (node.manifests / "web.yaml").write_text(POD)
        wait_for(lambda: " DEBUG " in node.told(), seconds=15, otherwise=node.told)
        assert agent.is_alive
        agent.stop()
    node.remove_pods()

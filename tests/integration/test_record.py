"""A recording of the real agent with the embedded runtime, and its replay."""

import gzip
import json
from pathlib import Path

import pytest

from kit.agent_process import Node, command
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(180)

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: busybox
    command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.1; done", Pl4nted-argument]
    env: [{name: PASSWORD, value: Pl4nted-variable}]
    readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: crash}
spec:
  restartPolicy: Always
  containers: [{name: c, image: busybox, command: [sh, -c, "exit 3"]}]
"""


def test_what_an_agent_did_is_decided_once_more_also_of_one_that_was_killed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    first, second = tmp_path / "first.rec", tmp_path / "second.rec.gz"
    (node.manifests / "pods.yaml").write_text(PODS)
    try:
        with node.agent(f"--record={first}") as agent:
            wait_for(lambda: node.containers().get("web"), otherwise=node.told)
            wait_for(lambda: b"BackedOff" in first.read_bytes(), otherwise=node.told)
            agent.kill()
        with node.agent(f"--record={second}", "--stop-pods-on-exit") as agent:
            wait_for(lambda: node.containers().get("web"), otherwise=node.told)
            (node.manifests / "pods.yaml").write_text(PODS.replace("name: web", "name: other"))
            wait_for(lambda: node.containers().get("other") and "web" not in node.pods(), otherwise=node.told)
            agent.stop()
    finally:
        node.remove_pods()
    told = command("replay", str(first))
    assert "default/web-n1 runtime.start_container" in told
    assert "default/crash-n1 BackedOff" in told
    assert "it was not closed: the agent was killed, or goes on" in told
    told = command("replay", str(second), "--pod", "default/web-n1")
    assert "runtime.stop_container" in told
    assert "runtime.start_container" not in told, "it ran already"
    assert "The recording ends here: the agent was stopped." in told
    shown = [json.loads(line) for line in command("replay", str(second), "-o", "json").splitlines()]
    assert any({"ask": "stop_pods"} in each.get("in", ()) for each in shown)
    assert b"Pl4nted" not in first.read_bytes() + gzip.decompress(second.read_bytes())

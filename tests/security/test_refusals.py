"""The whole agent with a pod that asks for protection it cannot have: it does not run, and its status says why."""

from pathlib import Path
from typing import Any

from kit.agent_process import Node
from kit.waiting import wait_for

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {{name: c, image: machine, command: [sh, -c, 'trap exit TERM; sleep 1000 & wait'], securityContext: {context}}}
"""
ASKED = {
    "missing": (
        "{seccompProfile: {type: Localhost, localhostProfile: nope.json}}",
        "seccomp profile nope.json cannot be",
    ),
    "broken": ("{seccompProfile: {type: Localhost, localhostProfile: broken.json}}", "defaultAction"),
    "capability": ("{capabilities: {add: [FLY]}}", "there is no capability FLY"),
    "given": ("{seccompProfile: {type: Localhost, localhostProfile: all.json}}", ""),
}


def waiting(pod: dict[str, Any]) -> dict[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses", [{}])
    found: dict[str, Any] = statuses[0].get("state", {}).get("waiting", {})
    return found


def test_the_reason_is_in_the_pods_status(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (node.state / "seccomp").mkdir(parents=True)
    (node.state / "seccomp" / "all.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    (node.state / "seccomp" / "broken.json").write_text("{}")
    for name, (context, _) in ASKED.items():
        (node.manifests / f"{name}.yaml").write_text(MANIFEST.format(name=name, context=context))
    refused = ASKED.keys() - {"given"}
    with node.agent("--stop-pods-on-exit") as agent:
        wait_for(lambda: node.containers().keys() == {"given"})
        for name in refused:
            wait_for(lambda name=name: ASKED[name][1] in str(waiting(node.pods().get(name, {}))))  # type: ignore[misc]
            assert waiting(node.pods()[name])["reason"] == "CreateContainerError"
        agent.stop()

"""The machine reboots while its API server cannot be reached: everything runs again as it did before, and soon."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from kit.agent_process import NODE_NAME, Node
from kit.api_server import LoopbackApi, loopback_api
from kit.containerd import Containerd
from kit.inventory import inventory, take_away_pods
from kit.reboot import another_boot, wipe
from kit.waiting import wait_for

STATIC: Final = tuple(f"static{number}" for number in range(6))
SERVED: Final = tuple(f"served{number}" for number in range(14))
SOON: Final = 10.0
LOOKS: Final = (
    "cat /etc/config/greeting; ls -A /scratch; cat /run/token/token; echo $PASSWORD $BACK_END_SERVICE_PORT; "
    "touch /scratch/left; exec sleep 100000"
)
AGAIN: Final = ["hello", "tsesame 8080"]


def pod(name: str) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", "exec sleep 100000"],
    }
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def served_pod(name: str) -> dict[str, Any]:
    """One that needs what only an API server has: a label of the node, a config map, a secret, a token, a service."""
    made = pod(name)
    made["metadata"] |= {"uid": f"{name}-uid", "creationTimestamp": "2026-01-01T00:00:00Z"}
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    made["spec"] |= {
        "nodeName": NODE_NAME,
        "nodeSelector": {"where": "edge"},
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "volumes": [
            {"name": "config", "configMap": {"name": "greeting"}},
            {"name": "scratch", "emptyDir": {"medium": "Memory"}},
            {"name": "token", "projected": {"sources": [token]}},
        ],
    }
    made["spec"]["containers"][0] |= {
        "command": ["sh", "-c", LOOKS],
        "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}}],
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config"},
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "token", "mountPath": "/run/token"},
        ],
    }
    return made


def fill(api: LoopbackApi, node: Node) -> None:
    """The node is given its label once it is there; pods that are for it come after that."""
    wait_for(lambda: api.condition(NODE_NAME)[0] == "True", otherwise=node.told)
    shown = api.node(NODE_NAME)
    labels = {**shown["metadata"].get("labels", {}), "where": "edge"}
    api.apply({**shown, "metadata": {**shown["metadata"], "labels": labels}}, "nodes")
    meta = {"namespace": "default", "uid": "u1"}
    api.apply({"metadata": {**meta, "name": "greeting"}, "data": {"greeting": "hello\n"}}, "configmaps")
    password = base64.b64encode(b"sesame").decode()
    api.apply({"metadata": {**meta, "name": "login"}, "data": {"password": password}}, "secrets")
    spec = {"clusterIP": "10.0.0.10", "ports": [{"port": 8080}]}
    api.apply({"metadata": {**meta, "name": "back-end"}, "spec": spec}, "services")
    for name in SERVED:
        api.apply(served_pod(name))


@contextmanager
def runtime_of(kind: str, request: pytest.FixtureRequest) -> Iterator[Containerd | None]:
    if kind == "embedded":
        yield None
        return
    containerd: Containerd = request.getfixturevalue("containerd")
    before = inventory(containerd)
    try:
        yield containerd
    finally:
        if containerd.inside:
            containerd.lose_power()
            containerd.inside = ()
            containerd.start()
        take_away_pods(containerd, before)


def has_said(node: Node, name: str) -> bool:
    return "sesame" in log_of(node, name, 1)


def log_of(node: Node, name: str, attempt: int) -> str:
    lines = (node.state / f"logs/default_{name}_{name}-uid/c/{attempt}.log").read_text().splitlines()
    return "\n".join(line.split(" ", 3)[3] for line in lines)


def told(api: LoopbackApi, name: str) -> dict[str, Any]:
    """What the API server shows of the pod's container."""
    statuses = api.pods()[name].get("status", {}).get("containerStatuses") or [{}]
    return dict(statuses[0])


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["embedded", "containerd"])
def test_a_node_that_comes_up_without_its_api_server_runs_all_its_pods_within_ten_seconds(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with ExitStack() as stack:
        containerd = stack.enter_context(runtime_of(kind, request))
        api = stack.enter_context(loopback_api(tmp_path / "kubeconfig"))
        flags = ["--container-runtime-endpoint", containerd.endpoint] if containerd else []
        node = Node(tmp_path, "--kubeconfig", str(tmp_path / "kubeconfig"), "--keep-secrets", *flags)
        for name in STATIC:
            (node.manifests / f"{name}.json").write_text(json.dumps(pod(name)))
        with node.agent() as agent:
            fill(api, node)
            wait_for(lambda: all(map(is_ready, api.pods().values())) and len(api.pods()) == 20, otherwise=node.told)
            before = {name: told(api, name)["containerID"] for name in api.pods()}
            agent.kill()
        api.speak(False)
        if containerd is not None:
            containerd.lose_power()
        wipe(node)

        node.inside, boot = stack.enter_context(another_boot(tmp_path))
        if containerd is not None:
            containerd.inside = node.inside
            containerd.start()
        began = time.monotonic()
        with node.agent():
            wait_for(lambda: len(node.containers()) == 20, seconds=SOON, otherwise=node.told)
            print(f"20 pods on {kind} after {time.monotonic() - began:.1f} s")
            for name in SERVED:
                wait_for(partial(has_said, node, name), otherwise=node.told)
                assert log_of(node, name, 1).splitlines() == AGAIN

            api.speak(True)
            wait_for(lambda: ("Rebooted", f"Node {NODE_NAME} has been rebooted, boot id: {boot}") in api.events())
            assert api.node(NODE_NAME)["status"]["nodeInfo"]["bootID"] == boot
            wait_for(
                lambda: all(told(api, name)["containerID"] != before[name] for name in before), otherwise=node.told
            )
            for name in before:
                shown = told(api, name)
                assert (shown["restartCount"], [*shown["state"]]) == (1, ["running"]), shown
                ended = shown["lastState"]["terminated"]
                assert ended["containerID"] == before[name], shown
            assert all(map(is_ready, api.pods().values()))
        node.remove_pods()

"""Probes of real containers, on containerd and on the embedded runtime: ready when they say so, restarted when they
fail, and left alone by an agent that was restarted."""

import json
from pathlib import Path
from typing import Any

from kit.agent_process import Node
from kit.containerd import Containerd
from kit.ports import free_port
from kit.waiting import wait_for


def write_pod(node: Node, shared: Path, container: dict[str, Any], port: int) -> None:
    """Its probes look at files in a folder that the test has too."""
    often = {"periodSeconds": 1, "timeoutSeconds": 5}
    probes = {
        "startupProbe": {"tcpSocket": {"port": "web"}, "failureThreshold": 60, **often},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "web"}, "failureThreshold": 1, **often},
        "livenessProbe": {"exec": {"command": ["test", "!", "-e", "/shared/sick"]}, "failureThreshold": 1, **often},
    }
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    ports = [{"name": "web", "containerPort": port}]
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "ports": ports, "volumeMounts": mounts, **container, **probes}],
            "volumes": [{"name": "shared", "hostPath": {"path": str(shared)}}],
        },
    }
    shared.mkdir()
    (node.manifests / "web.json").write_text(json.dumps(made))


def live_through(node: Node, shared: Path) -> None:
    def status() -> dict[str, Any]:
        pods = node.pods()
        found: list[dict[str, Any]] = pods["web"]["status"].get("containerStatuses", []) if "web" in pods else []
        return found[0] if found else {}

    with node.agent() as first:
        wait_for(lambda: status().get("started"), otherwise=node.told)
        assert not status()["ready"]
        (shared / "ready").touch()
        wait_for(lambda: status()["ready"], otherwise=node.told)
        (shared / "ready").unlink()
        wait_for(lambda: not status()["ready"], otherwise=node.told)
        assert "Readiness probe failed: HTTP probe failed with statuscode: 404" in node.told()
        (shared / "ready").touch()
        wait_for(lambda: status()["ready"], otherwise=node.told)
        (shared / "sick").touch()
        wait_for(lambda: status()["restartCount"] == 1, otherwise=node.told)
        (shared / "sick").unlink()
        wait_for(lambda: status()["ready"] and status()["state"].get("running"), otherwise=node.told)
        before = node.containers()
        first.stop()
    with node.agent("--stop-pods-on-exit") as second:
        wait_for(lambda: status().get("ready"), otherwise=node.told)
        assert node.containers() == before
        second.stop()
    node.remove_pods()


def test_containers_on_containerd_are_probed(tmp_path: Path, containerd: Containerd) -> None:
    node = Node(tmp_path, "--container-runtime-endpoint", containerd.endpoint)
    server = {"command": ["httpd", "-f", "-p", "8080", "-h", "/shared"]}
    image = {"image": "busybox:1.36", "imagePullPolicy": "IfNotPresent"}
    write_pod(node, tmp_path / "shared", image | server, 8080)
    live_through(node, tmp_path / "shared")


def test_containers_on_the_embedded_runtime_are_probed(tmp_path: Path) -> None:
    port = free_port("")
    node = Node(tmp_path)
    # The machine's own Python: the one that runs the tests may lie where containers cannot see it.
    command = ["python3", "-m", "http.server", "--directory", "/shared", str(port)]
    write_pod(node, tmp_path / "shared", {"image": "this-machine", "command": command}, port)
    live_through(node, tmp_path / "shared")

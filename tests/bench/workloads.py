"""A Deployment of a hundred replicas: how many writes the controllers make of it for each pod.

The parts of the scheduler and the kubelet are played here: pods are bound, said to be ready, and taken away when they
are to go. The scheduler's own are one write for each pod, and an event.
"""

import json
import time
from typing import Any, Final

from bench.api import Row, served, show
from kit.apiserver_process import ApiServerProcess, request
from kit.waiting import wait_for

REPLICAS: Final = 100
MORE: Final = 150
_PODS: Final = "/api/v1/namespaces/default/pods"
_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
_SETS: Final = "/apis/apps/v1/namespaces/default/replicasets"
_MERGE: Final = b"application/merge-patch+json"


def run() -> None:
    print(f"workloads: a Deployment of {REPLICAS} replicas, which is made, scaled and deleted")
    print(f"\n{'step':<56} {'ours':>8} {'':<10} {'goal':>6} {'ratio':>6}")
    with served("--controllers=*,-kube-scheduler") as server:
        show(_Cluster(server).rows())
    print()


class _Cluster:
    """With one node, on which pods are ready at once and go when they are told to."""

    def __init__(self, server: ApiServerProcess) -> None:
        self._server = server
        self._own = 0
        """Writes that are not the controllers'."""

    def rows(self) -> list[Row]:
        self._node()
        before, cpu, began = self._revision(), self._server.cpu(), time.perf_counter()
        own = self._own
        labels = {"app": "web"}
        spec = {"containers": [{"name": "web", "image": "registry.example/web:1"}], "terminationGracePeriodSeconds": 1}
        template = {"metadata": {"labels": labels}, "spec": spec}
        wanted = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
        self._ask(b"POST", _DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": wanted})
        wait_for(lambda: self._is_run(REPLICAS), seconds=300)
        self._ask(b"PATCH", f"{_DEPLOYMENTS}/web", {"spec": {"replicas": MORE}}, _MERGE)
        wait_for(lambda: self._is_run(MORE), seconds=300)
        self._ask(b"DELETE", f"{_DEPLOYMENTS}/web")
        wait_for(lambda: self._is_run(0) and not self._items(_SETS), seconds=300)
        seconds, cpu = time.perf_counter() - began, self._server.cpu() - cpu
        writes = self._revision() - before - (self._own - own)
        return [
            Row("writes of the controllers for each pod", writes / MORE, "", 4),
            Row("  CPU of the server for each pod, with all that asked", cpu / MORE * 1e3, "ms"),
            Row("  seconds in all", seconds, "s"),
        ]

    def _node(self) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        self._ask(b"POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
        self._ask(b"PATCH", "/api/v1/nodes/n1/status", {"status": {"conditions": [ready]}}, _MERGE)

    def _is_run(self, count: int) -> bool:
        """One look of the kubelet at its pods; whether there are so many, and all of them are ready."""
        pods = self._items(_PODS)
        for pod in pods:
            path, is_ready = f"{_PODS}/{pod['metadata']['name']}", pod["status"].get("phase") == "Running"
            if "deletionTimestamp" in pod["metadata"]:
                self._ask(b"DELETE", f"{path}?gracePeriodSeconds=0")
                self._own += 1  # it is written that it goes at once, and then it goes
            elif not pod["spec"].get("nodeName"):
                self._ask(b"POST", f"{path}/binding", {"target": {"kind": "Node", "name": "n1"}})
            elif not is_ready:
                conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
                self._ask(
                    b"PATCH", f"{path}/status", {"status": {"phase": "Running", "conditions": conditions}}, _MERGE
                )
        return len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods)

    def _revision(self) -> int:
        return int(self._ask(b"GET", _SETS)["metadata"]["resourceVersion"])

    def _items(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask(b"GET", path)["items"]
        return found

    def _ask(self, method: bytes, path: str, body: Any = None, kind: bytes = b"application/json") -> dict[str, Any]:
        self._own += method != b"GET"
        data = json.dumps(body).encode() if body is not None else b""
        with self._server.connected() as connection:
            connection.sendall(request(method, path, data, kind).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            answer = b"".join(iter(lambda: connection.recv(1 << 20), b""))
        found: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
        if found.get("status") == "Failure" and found["code"] != 404:
            raise RuntimeError(f"{method!r} {path}: {found}")
        return found

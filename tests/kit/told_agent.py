"""An agent's socket that says what a test tells it to say."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class ToldAgent:
    """`answers`: by the first word of a question."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, Any] = {"ping": "pong"}
        self.questions: list[str] = []
        self._server: socketserver.ThreadingUnixStreamServer | None = None

    def start(self) -> None:
        agent = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                question = self.rfile.readline().decode().strip()
                agent.questions.append(question)
                answer = agent.answers.get(question.partition(" ")[0], {"error": "there is no such thing"})
                self.wfile.write(json.dumps(answer).encode() + b"\n")

        self._server = socketserver.ThreadingUnixStreamServer(str(self.path), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
            self.path.unlink()


@contextmanager
def told_agent(state: Path) -> Iterator[ToldAgent]:
    agent = ToldAgent(state / "pykubelet.sock")
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()


def pod_row(name: str, **more: Any) -> dict[str, Any]:
    """As the agent tells of one."""
    row = {
        "uid": f"uid-{name}", "namespace": "default", "name": name, "source": "api", "state": "Running",
        "isWell": True, "sentence": f"{name} runs for 60s; all is well.", "phase": "Running", "reason": "Running",
        "ready": 1, "total": 1, "restarts": 0, "ip": "", "createdAt": "2026-01-02T15:00:00Z",
        "startedAt": "2026-01-02T15:00:05Z", "qos": "BestEffort", "cpuLimit": None, "memoryLimit": None,
        "containers": [{"name": "app", "kind": "container", "image": "x", "state": "running"}],
    }  # fmt: skip
    return {**row, **more}


def node_state(*pods: dict[str, Any], usage: dict[str, Any] | None = None, **node: Any) -> dict[str, Any]:
    about = {"name": "n1", "isReady": True, "cpus": 2.0, "memory": 4 << 30, **node}
    used = {"": {"cpu": 0.5, "memory": 1 << 30}, **(usage or {})}
    return {
        "version": 1,
        "kind": "NodeState",
        "at": "2026-01-02T15:04:05Z",
        "node": about,
        "pods": list(pods),
        "usage": used,
    }

"""Where `top` has its values from: an agent's socket, or an API server with nodes that tell more or less."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from kit.told_agent import node_state, pod_row, told_agent
from pykubelet.base.errors import NotFound, Retry
from pykubelet.cli.screen.pod_lines import node_line, pod_lines
from pykubelet.cli.screen.sources import Source
from pykubelet.cli.screen.view import Open
from pykubelet.cli.stories import Places

pytestmark = pytest.mark.asyncio

ENDED = {
    "name": "app", "ready": False, "restartCount": 3, "image": "x", "imageID": "",
    "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}},
}  # fmt: skip
META = {"name": "far", "namespace": "prod", "uid": "uid-far", "creationTimestamp": "2026-01-02T15:00:00Z"}
POD: dict[str, Any] = {
    "metadata": {**META, "managedFields": [{}]},
    "spec": {"nodeName": "n2", "restartPolicy": "Always", "containers": [{"name": "app", "image": "x"}]},
    "status": {"phase": "Running", "containerStatuses": [ENDED]},
}
EVENT = {"metadata": {}, "lastTimestamp": "2026-01-02T15:04:05Z", "count": 4, "reason": "BackOff", "message": "again"}


class Server:
    """An API server with a node of ours, and one with another agent."""

    answers: dict[str, Any] = {
        "/api/v1/nodes": {"items": [{"metadata": {"name": "n2"}}, {"metadata": {"name": "n1"}}]},
        "/api/v1/nodes/n1/proxy/page/state": node_state(pod_row("web")),
        "/api/v1/pods": {"items": [POD, {**POD, "spec": {**POD["spec"], "nodeName": "n1"}}]},
        "/api/v1/namespaces/prod/pods/far": POD,
        "/api/v1/namespaces/prod/events": {"items": [EVENT]},
    }

    async def request(self, _: str, path: str, *, params: object = None) -> bytes:
        if path not in self.answers:
            raise NotFound(f"{path}: the server could not find the requested resource")
        return json.dumps(self.answers[path]).encode()


def source(node: str = "") -> Source:
    made = Source(Places(kubeconfig="unused"), node)
    made._server = cast(Any, Server())
    return made


async def test_a_node_with_another_agent_is_told_from_the_status_of_its_pods() -> None:
    look = await source().look()
    assert [node_line(each).name for each in look.states] == ["n1", "n2"]
    lines = [line for state in look.states for line in pod_lines(state)]
    assert [(each.name, each.node, each.status, each.restarts) for each in lines] == [
        ("web", "n1", "Running", 0), ("far", "n2", "CrashLoopBackOff", 3)
    ]  # fmt: skip
    assert not lines[1].is_well
    assert lines[1].sentence.startswith("far keeps crashing: app exited 4 times with code 1")
    assert look.complaint.startswith("n2 tells no more than the pods' status: ")


async def test_one_node_alone_can_be_asked() -> None:
    look = await source("n1").look()
    assert [node_line(each).name for each in look.states] == ["n1"]
    assert look.complaint == ""


async def test_events_and_the_pod_itself_come_from_the_api_server() -> None:
    (line,) = [line for state in (await source("n2").look()).states for line in pod_lines(state)]
    assert await source().lines(Open("events", line)) == ["2026-01-02 15:04:05  BackOff: again (4 times)"]
    shown = await source().lines(Open("yaml", line))
    assert "  name: far" in shown
    assert not any("managedFields" in each for each in shown)


async def test_an_agent_without_a_server_says_so(tmp_path: Path) -> None:
    with told_agent(tmp_path):
        with pytest.raises(Retry, match="without its server"):
            await Source(Places(state=tmp_path)).look()
        with pytest.raises(Retry, match="give --kubeconfig"):
            await Source(Places(state=tmp_path)).server()

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from kit.loopback import Asked, Handler, always, client_of
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.node import Node, NodeStatus
from pykubelet.api.quantity import Quantity
from pykubelet.base.errors import Conflict, Invalid, NotFound, Retry
from pykubelet.kube.node import KubeNodes
from pykubelet.pod.ports.node import NodeApi

NODE = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "n1", "uid": "u1", "managedFields": [{"manager": "kubectl"}]},
    "status": {"capacity": {"cpu": "4"}},
}


@asynccontextmanager
async def nodes_of(handler: Handler) -> AsyncIterator[NodeApi]:
    async with client_of(handler) as server:
        yield KubeNodes(server)


def refusing(code: int, reason: str = "") -> Handler:
    async def answer(request: web.BaseRequest) -> web.Response:
        status = {"kind": "Status", "status": "Failure", "message": "no", "code": code, "reason": reason}
        return web.json_response(status, status=code)

    return answer


async def test_a_node_is_read_without_its_managed_fields() -> None:
    asked: Asked = []
    async with nodes_of(always(NODE, asked)) as nodes:
        node = await nodes.get("n1")
    assert node.metadata == ObjectMeta(name="n1", uid="u1")
    assert node.status.capacity == {"cpu": Quantity.of(4)}
    assert asked[0][:2] == ("GET", "/api/v1/nodes/n1")


async def test_a_node_is_created_with_its_status() -> None:
    asked: Asked = []
    node = Node(kind="Node", metadata=ObjectMeta(name="n1"), status=NodeStatus(capacity={"cpu": Quantity.of(4)}))
    async with nodes_of(always(NODE, asked)) as nodes:
        created = await nodes.create(node)
    assert created.metadata.uid == "u1"
    [(method, path, _, body)] = asked
    assert (method, path) == ("POST", "/api/v1/nodes")
    assert body["status"]["capacity"] == {"cpu": "4"}


async def test_the_status_is_patched_at_its_own_address() -> None:
    asked: Asked = []
    async with nodes_of(always(NODE, asked)) as nodes:
        await nodes.patch_status("n1", {"status": {"capacity": {"cpu": Quantity.of(2), "gone": None}}})
        await nodes.patch("n1", {"metadata": {"labels": {"a": "b"}}})
    strategic = "application/strategic-merge-patch+json"
    assert asked == [
        ("PATCH", "/api/v1/nodes/n1/status", strategic, {"status": {"capacity": {"cpu": "2", "gone": None}}}),
        ("PATCH", "/api/v1/nodes/n1", strategic, {"metadata": {"labels": {"a": "b"}}}),
    ]


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [(404, "NotFound", NotFound), (409, "AlreadyExists", Conflict), (403, "Forbidden", Invalid), (503, "", Retry)],
)
async def test_refusals_mean_what_the_port_says(code: int, reason: str, error: type[Exception]) -> None:
    async with nodes_of(refusing(code, reason)) as nodes:
        with pytest.raises(error):
            await nodes.create(Node(metadata=ObjectMeta(name="n1")))

import asyncio

import pytest

from kit.virtual_time import virtual_time
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.node import Node, NodeSpec
from pykubelet.base.errors import Retry
from pykubelet.node.pod_cidr import tell_pod_cidr


class Runtime:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_down = False

    async def tell(self, cidr: str) -> None:
        if self.is_down:
            raise Retry("it is down")
        self.told.append(cidr)


def node(*cidrs: str) -> Node:
    return Node(metadata=ObjectMeta(name="n1"), spec=NodeSpec(pod_cidrs=cidrs))


@virtual_time
async def test_the_runtime_is_told_what_the_node_object_says_once_it_says_something() -> None:
    runtime, known = Runtime(), [node()]
    task = asyncio.create_task(tell_pod_cidr(runtime.tell, lambda: known[0]))
    await asyncio.sleep(60)
    assert runtime.told == []
    known[0] = node("10.244.3.0/24", "fd00::/64")
    await asyncio.sleep(60)
    assert runtime.told == ["10.244.3.0/24,fd00::/64"]
    known[0] = node("10.244.4.0/24")
    await asyncio.sleep(1)
    assert runtime.told[1:] == ["10.244.4.0/24"]
    task.cancel()


@virtual_time
async def test_without_a_node_object_what_is_configured_counts() -> None:
    runtime = Runtime()
    task = asyncio.create_task(tell_pod_cidr(runtime.tell, lambda: None, "10.88.0.0/16"))
    await asyncio.sleep(60)
    assert runtime.told == ["10.88.0.0/16"]
    task.cancel()


@virtual_time
async def test_a_runtime_that_does_not_listen_is_told_again_and_complained_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runtime = Runtime()
    runtime.is_down = True
    task = asyncio.create_task(tell_pod_cidr(runtime.tell, lambda: node("10.244.3.0/24")))
    await asyncio.sleep(60)
    assert caplog.text.count("it is down") == 1
    runtime.is_down = False
    await asyncio.sleep(1)
    assert runtime.told == ["10.244.3.0/24"]
    task.cancel()

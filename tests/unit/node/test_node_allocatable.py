"""The bound on all pods is tried until it holds, and people are told either way."""

import asyncio
from collections.abc import Collection

from kit.virtual_time import virtual_time
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Retry
from pykubelet.host.cgroups import NoPodCgroups
from pykubelet.node.node_allocatable import enforce_node_allocatable


class Groups(NoPodCgroups):
    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    async def limit_node(self) -> None:
        self.failures -= 1
        if self.failures >= 0:
            raise Retry("more than that is in use")

    async def balance(self, pods: Collection[Pod]) -> None:
        raise AssertionError


class Recorder:
    def __init__(self) -> None:
        self.told: list[tuple[float, str, str, str]] = []

    def node_event(self, kind: str, reason: str, message: str) -> None:
        self.told.append((asyncio.get_running_loop().time(), kind, reason, message))


@virtual_time
async def test_a_bound_that_does_not_hold_yet_is_told_of_and_tried_every_minute() -> None:
    recorder = Recorder()
    began = asyncio.get_running_loop().time()
    task = asyncio.create_task(enforce_node_allocatable(Groups(2), '["kubepods"]', recorder))
    await asyncio.sleep(600)
    task.cancel()
    failed = 'Failed to update Node Allocatable Limits ["kubepods"]: more than that is in use'
    assert [(at - began, *rest) for at, *rest in recorder.told] == [
        (0, "Warning", "FailedNodeAllocatableEnforcement", failed),
        (60, "Warning", "FailedNodeAllocatableEnforcement", failed),
        (120, "Normal", "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods"),
    ]

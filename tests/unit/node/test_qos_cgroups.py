"""The control groups of the QoS classes follow the pods."""

import asyncio
from collections.abc import Collection
from typing import cast

import pytest

from kit.pods import make_pod
from kit.virtual_time import virtual_time
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Retry
from pykubelet.node.qos_cgroups import QosCgroups
from pykubelet.pod.ports.machine import PodCgroups


class Cgroups:
    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.failure: Exception | None = None

    async def balance(self, pods: Collection[Pod]) -> None:
        self.asked.append([pod.metadata.name for pod in pods])
        if self.failure is not None:
            raise self.failure


@virtual_time
async def test_every_minute_they_are_given_what_the_pods_ask_for_also_after_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cgroups, pods = Cgroups(), [make_pod("a")]
    running = asyncio.create_task(QosCgroups(cast(PodCgroups, cgroups), lambda: pods).run())
    await asyncio.sleep(1)
    cgroups.failure = Retry("the kernel is busy")
    pods.append(make_pod("b"))
    await asyncio.sleep(60)
    cgroups.failure = None
    await asyncio.sleep(60)
    running.cancel()
    assert cgroups.asked == [["a"], ["a", "b"], ["a", "b"]]
    assert "the kernel is busy" in caplog.text

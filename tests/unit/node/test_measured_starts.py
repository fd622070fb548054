"""How long a pod takes to start, as a whole agent and its API server show it to monitoring."""

import asyncio
from datetime import timedelta

from kit.node import World
from kit.pod_api import MemoryPods
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.struct import changed
from pykubelet.server.metrics.metrics import Metrics
from pykubelet.web.exposition import text


def values(metrics: Metrics, *names: str) -> list[float]:
    lines = dict(line.rsplit(" ", 1) for line in text(metrics.meters.families()).decode().splitlines())
    return [float(lines[name]) for name in names]


@virtual_time
async def test_the_start_of_a_pod_is_measured_from_its_creation_and_pulls_are_excused() -> None:
    api = MemoryPods()
    world = World(api)
    metrics = Metrics("n1", now=world.now)
    world.journal.read_by(metrics.read)
    pull = world.runtime.pull_image

    async def slow_pull(*arguments: object) -> object:
        await asyncio.sleep(20)
        return await pull(*arguments)  # type: ignore[arg-type]

    world.runtime.pull_image = slow_pull  # type: ignore[method-assign, assignment]
    made = make_pod()
    async with world.agent():
        await asyncio.sleep(5)
        created = changed(made, metadata=changed(made.metadata, creation_timestamp=world.now() - timedelta(seconds=3)))
        world.pods.apply(api.put(created))
        await eventually(lambda: api.status("web").phase == "Running", seconds=60)
        await asyncio.sleep(1)
    total, sli, first, seen = values(
        metrics,
        "kubelet_pod_start_total_duration_seconds_sum",
        "kubelet_pod_start_sli_duration_seconds_sum",
        "kubelet_first_network_pod_start_sli_duration_seconds",
        "kubelet_pod_start_duration_seconds_sum",
    )
    assert 23 <= total < 25
    assert 3 <= sli < 5
    assert first == sli
    assert 20 <= seen < 22

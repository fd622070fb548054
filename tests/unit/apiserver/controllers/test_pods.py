"""Pods that nobody will ever end."""

import asyncio

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.pods import PodGarbageCollector


@virtual_time
async def test_pods_of_a_node_that_is_gone_are_cleared_away_after_a_while() -> None:
    async with cluster() as c, running(PodGarbageCollector(c)):
        await c.node("n1")
        await c.pod("stays", {"nodeName": "n1"})
        await c.pod("goes", {"nodeName": "n2", "terminationGracePeriodSeconds": 30})
        await asyncio.sleep(30)
        assert await c.get("pods", "goes") is not None

        await asyncio.sleep(60)
        assert await c.get("pods", "goes") is None
        assert await c.get("pods", "stays") is not None

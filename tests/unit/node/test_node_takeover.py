"""Machines of one name: the node object belongs to the one that is alive."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, Retry
from pykubelet.node.node_status import NodeReporter
from pykubelet.pod.node.node_object import NodeSettings
from pykubelet.pod.ports.node import MachineFacts
from unit.node.memory_nodes import FACTS, START, MemoryNodes, Runtime

FIRST = changed(FACTS, machine_id="m1", system_uuid="s1", boot_id="b1")
SECOND = changed(FACTS, machine_id="m2", system_uuid="s2", boot_id="b2")


class Cluster:
    """An API server with one node object and its lease."""

    def __init__(self) -> None:
        self.api = MemoryNodes()
        self.lease: datetime | None = None
        self.fault: Exception | None = None

    async def renewed(self) -> datetime | None:
        if self.fault is not None:
            raise self.fault
        return self.lease

    def now(self) -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    @property
    def machine(self) -> str:
        return self.api.node.status.node_info.machine_id if self.api.node else ""

    @asynccontextmanager
    async def agent(
        self, facts: MachineFacts, *, renews: bool = True, register: bool = True, **options: Any
    ) -> AsyncIterator[NodeReporter]:
        """A machine that reports, and renews the lease while the node is its own."""

        async def look() -> MachineFacts:
            return facts

        async def renew() -> None:
            while True:
                self.lease = self.now()
                await asyncio.sleep(10)

        reporter = NodeReporter(
            self.api,
            NodeSettings(name="n1", register=register),
            facts=look,
            runtime=Runtime(),
            lease_renewed=self.renewed,
            **{"now": self.now, "seen": lambda: self.api.node, **options},
        )
        tasks = [asyncio.create_task(reporter.run())]
        if renews:
            tasks.append(asyncio.create_task(reporter.ownership.while_ours(renew)))
        try:
            yield reporter
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@virtual_time
async def test_the_node_of_a_living_machine_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    async with cluster.agent(FIRST) as first:
        await eventually(lambda: first.ownership.is_ours)
        await asyncio.sleep(200)  # longer than the first report is news: only the lease still tells of it
        with caplog.at_level(logging.WARNING):
            async with cluster.agent(SECOND) as second:
                await asyncio.sleep(100)
                assert not second.ownership.is_ours
                assert second.node is not None  # pods of its own files can run all the same
                assert second.complaint.startswith(
                    "node n1 is in use by another machine (system uuid s1, last heard of"
                )
        assert cluster.machine == "m1"
        assert not any("m2" in str(patch) for patch in cluster.api.patches)
        assert first.ownership.is_ours
    assert len(caplog.messages) == 2  # at once, and after a minute
    assert caplog.messages[0].endswith(
        "s ago); choose another name with --hostname-override, or delete that node object"
    )


@virtual_time
async def test_a_machine_that_was_made_anew_takes_its_node_once_the_old_one_is_silent() -> None:
    cluster = Cluster()
    async with cluster.agent(FIRST) as first:
        await eventually(lambda: first.ownership.is_ours)
    async with cluster.agent(SECOND) as second:
        await asyncio.sleep(30)
        assert (cluster.machine, second.ownership.is_ours) == ("m1", False)
        await eventually(lambda: second.ownership.is_ours, seconds=20)
        assert cluster.machine == "m2"
        assert second.complaint == ""
        await asyncio.sleep(100)
        assert second.ownership.is_ours


@virtual_time
async def test_a_node_that_is_long_silent_is_taken_at_once() -> None:
    cluster = Cluster()
    async with cluster.agent(changed(FIRST, hostname="old")) as first:
        await eventually(lambda: first.ownership.is_ours)
    await asyncio.sleep(41)
    async with cluster.agent(SECOND) as second:
        await eventually(lambda: second.ownership.is_ours, seconds=1)
    assert cluster.api.node is not None
    assert cluster.api.node.metadata.labels["kubernetes.io/hostname"] == "n1"


@virtual_time
async def test_the_same_machine_has_its_node_back_at_once_also_after_a_reboot() -> None:
    cluster = Cluster()
    async with cluster.agent(FIRST) as first:
        await eventually(lambda: first.ownership.is_ours)
    async with cluster.agent(changed(FIRST, boot_id="b7")) as again:
        await eventually(lambda: again.ownership.is_ours, seconds=1)
        assert cluster.api.node is not None
        assert cluster.api.node.status.node_info.boot_id == "b7"


@virtual_time
async def test_a_clone_is_another_machine() -> None:
    cluster = Cluster()
    async with cluster.agent(FIRST) as first:
        await eventually(lambda: first.ownership.is_ours)
        for clone in (changed(FIRST, system_uuid="s2"), changed(FIRST, machine_id="m2")):
            async with cluster.agent(clone) as second:
                await asyncio.sleep(60)
                assert not second.ownership.is_ours


@virtual_time
async def test_of_two_that_come_at_the_same_moment_one_has_the_node() -> None:
    cluster = Cluster()
    async with cluster.agent(FIRST) as first, cluster.agent(SECOND) as second:
        await asyncio.sleep(120)
        assert [first.ownership.is_ours, second.ownership.is_ours].count(True) == 1


@virtual_time
async def test_a_machine_that_comes_back_late_finds_its_name_taken() -> None:
    cluster = Cluster()
    async with cluster.agent(FIRST) as first:
        await eventually(lambda: first.ownership.is_ours)
        assert cluster.api.node is not None
        theirs = changed(cluster.api.node.status.node_info, machine_id="m2", system_uuid="s2")
        cluster.lease = cluster.now()
        cluster.api.put(changed(cluster.api.node, status=changed(cluster.api.node.status, node_info=theirs)))
        await eventually(lambda: not first.ownership.is_ours, seconds=15)
        assert cluster.machine == "m2"


@virtual_time
async def test_a_watch_that_shows_the_past_does_not_take_the_node_away() -> None:
    cluster = Cluster()
    async with cluster.agent(FIRST) as first:
        await eventually(lambda: first.ownership.is_ours)
    past = cluster.api.node
    await asyncio.sleep(41)
    shown = [past]
    async with cluster.agent(SECOND, seen=lambda: shown[0]) as second:
        await eventually(lambda: second.ownership.is_ours)
        assert past is not None
        shown[0] = changed(past, metadata=changed(past.metadata, resource_version="0"))
        for _ in range(200):
            await asyncio.sleep(0.1)
            assert second.ownership.is_ours
    assert cluster.machine == "m2"


@virtual_time
async def test_a_clock_that_is_ahead_keeps_nobody_out_for_ever() -> None:
    cluster = Cluster()
    ahead = timedelta(hours=5)
    async with cluster.agent(FIRST, now=lambda: cluster.now() + ahead) as first:
        await eventually(lambda: first.ownership.is_ours)
    async with cluster.agent(SECOND) as second:
        await asyncio.sleep(35)
        assert not second.ownership.is_ours
        await eventually(lambda: second.ownership.is_ours, seconds=15)


@virtual_time
async def test_a_node_whose_lease_cannot_be_asked_for_waits_and_one_that_may_not_be_asked_goes_by_the_report() -> None:
    cluster = Cluster()
    async with cluster.agent(FIRST) as first:
        await eventually(lambda: first.ownership.is_ours)
    await asyncio.sleep(41)
    cluster.fault = Retry("away")
    async with cluster.agent(SECOND) as second:
        await asyncio.sleep(60)
        assert not second.ownership.is_ours
        cluster.fault = Invalid("forbidden")
        await eventually(lambda: second.ownership.is_ours, seconds=15)


@virtual_time
async def test_a_node_that_others_register_is_not_taken_from_a_living_machine_either() -> None:
    cluster = Cluster()
    async with cluster.agent(FIRST) as first:
        await eventually(lambda: first.ownership.is_ours)
        async with cluster.agent(SECOND, register=False, seen=lambda: None) as second:
            await asyncio.sleep(60)
            assert not second.ownership.is_ours
            assert cluster.machine == "m1"

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from kit.last_known import Remembered
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api import codec
from pykubelet.api.node import Node, NodeStatus
from pykubelet.api.quantity import Quantity
from pykubelet.api.struct import changed
from pykubelet.base.errors import Conflict, Invalid, Retry
from pykubelet.node.node_status import NodeReporter
from pykubelet.pod.moments import Journal, NodeStage
from pykubelet.pod.node.node_object import NodeSettings
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.ports.runtime import Image, RuntimeHandler, RuntimeStatus
from unit.node.memory_nodes import FACTS, START, MemoryNodes, Runtime


class World:
    def __init__(self) -> None:
        self.api = MemoryNodes()
        self.runtime = Runtime()
        self.facts = FACTS
        self.seen: Node | None = None
        self.pressures: list[Any] = []
        self.troubles: list[str] = []
        self.events: list[tuple[str, str, str]] = []

    async def look(self) -> MachineFacts:
        return self.facts

    def node_event(self, kind: str, reason: str, message: str) -> None:
        self.events.append((kind, reason, message))

    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events]

    @asynccontextmanager
    async def reporting(
        self, *, alone: bool = False, register: bool = True, **options: Any
    ) -> AsyncIterator[NodeReporter]:
        loop = asyncio.get_running_loop()
        reporter = NodeReporter(
            None if alone else self.api,
            NodeSettings(name="n1", labels={"mine": "x"}, register=register),
            facts=self.look,
            runtime=self.runtime,
            recorder=self,
            seen=lambda: self.seen,
            pressures=lambda: self.pressures,
            troubles=lambda: self.troubles,
            now=lambda: START + timedelta(seconds=loop.time()),
            **options,
        )
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(reporter.run())
            try:
                yield reporter
            finally:
                task.cancel()


# --- volumes


@virtual_time
async def test_volumes_in_use_are_told_as_soon_as_there_are_any() -> None:
    world, used = World(), ["b"]

    def in_use(shown: NodeStatus) -> tuple[str, ...]:
        return tuple(used)

    async with world.reporting(volumes_in_use=in_use) as reporter:
        await asyncio.sleep(1)
        assert world.api.volumes_in_use() == ("b",)
        used.append("c")
        reporter.changed()
        await asyncio.sleep(1)
        assert world.api.volumes_in_use() == ("b", "c")
        used.clear()
        reporter.changed()
        await asyncio.sleep(1)
        assert world.api.volumes_in_use() == ()


# --- registration


@virtual_time
async def test_a_node_is_registered_with_its_status_and_then_left_in_peace() -> None:
    world = World()
    async with world.reporting():
        await asyncio.sleep(140)
    assert world.api.verbs() == ["create"]
    assert world.api.condition("Ready").status == "True"
    assert world.reasons() == ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]
    assert world.events[0] == ("Normal", "NodeHasSufficientMemory", "Node n1 status is now: NodeHasSufficientMemory")


@virtual_time
async def test_a_server_that_drops_the_status_of_a_new_node_is_told_it_at_once() -> None:
    world = World()
    world.api.keeps_status_on_create = False
    async with world.reporting():
        await asyncio.sleep(5)
    assert world.api.verbs() == ["create", "patch_status"]
    assert world.api.condition("Ready").status == "True"


@virtual_time
async def test_registration_is_tried_until_it_works_and_less_and_less_often() -> None:
    world = World()
    world.api.away = Retry("away")
    async with world.reporting():
        await asyncio.sleep(120)
        world.api.away = None
        await eventually(lambda: world.api.node, seconds=8)
    times = [at for verb, at in world.api.calls if verb == "create"]
    pauses = [later - sooner for sooner, later in pairwise(times)]
    assert 0.1 <= pauses[0] <= 0.3
    assert max(pauses) <= 7.1
    assert len(times) < 60


@virtual_time
async def test_a_server_that_names_a_time_is_not_asked_before_it() -> None:
    world = World()
    world.api.faults.append(Retry("too much to do", after=30.0))
    async with world.reporting():
        await eventually(lambda: world.api.node, seconds=60)
    assert world.api.calls[1][1] >= 30


@virtual_time
async def test_the_same_failure_is_complained_of_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.api.away = Retry("the server is away")
    with caplog.at_level(logging.WARNING):
        async with world.reporting():
            await asyncio.sleep(60)
    assert caplog.messages == ["node n1 cannot be reported: the server is away"]


@virtual_time
async def test_an_existing_node_gets_its_default_labels_and_status_and_keeps_the_rest() -> None:
    world = World()
    async with world.reporting():
        await eventually(lambda: world.api.node)
    assert world.api.node is not None
    old = world.api.node
    labels = {**old.metadata.labels, "kubernetes.io/hostname": "old", "mine": "by hand", "theirs": "y"}
    world.api.put(changed(old, metadata=changed(old.metadata, labels=labels)))
    world.api.calls.clear()
    world.facts = changed(FACTS, cpus=8)
    async with world.reporting():
        await asyncio.sleep(5)
    assert world.api.verbs() == ["create", "get", "patch", "patch_status"]
    assert world.api.node.metadata.labels == {**labels, "kubernetes.io/hostname": "n1"}
    assert world.api.node.status.capacity["cpu"] == Quantity.of(8)


@virtual_time
async def test_an_agent_that_starts_anew_reports_although_nothing_has_changed() -> None:
    world = World()
    async with world.reporting():
        await eventually(lambda: world.api.node)
    world.api.calls.clear()
    await asyncio.sleep(60)
    async with world.reporting():
        await asyncio.sleep(5)
    assert world.api.verbs() == ["create", "get", "patch_status"]
    assert world.api.condition("Ready").last_heartbeat_time == START + timedelta(seconds=60)
    assert world.api.condition("Ready").last_transition_time == START


@virtual_time
async def test_one_that_may_not_create_nodes_uses_the_one_that_is_there() -> None:
    world = World()
    world.api.put(Node(metadata=changed(Node().metadata, name="n1")))
    world.api.faults.append(Invalid("forbidden"))
    async with world.reporting():
        await asyncio.sleep(5)
    assert world.api.condition("Ready").status == "True"


@virtual_time
async def test_one_that_may_not_create_nodes_and_finds_none_says_why(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.api.faults.append(Invalid("creating nodes is forbidden"))
    async with world.reporting():
        await eventually(lambda: world.api.node)
    assert caplog.messages[0] == "node n1 cannot be reported: creating nodes is forbidden"


@virtual_time
async def test_a_node_that_others_register_is_only_reported() -> None:
    world = World()
    async with world.reporting(register=False):
        await asyncio.sleep(30)
        assert set(world.api.verbs()) == {"get"}
        world.api.put(Node(metadata=changed(Node().metadata, name="n1")))
        await asyncio.sleep(8)
    assert world.api.verbs()[-3:] == ["get", "patch", "patch_status"]
    assert world.api.node is not None
    assert set(world.api.node.metadata.labels) == {"kubernetes.io/os", "kubernetes.io/arch"}


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_node_that_is_deleted_is_registered_again(is_watched: bool) -> None:
    @virtual_time
    async def tell() -> None:
        world = World()
        async with world.reporting():
            await eventually(lambda: world.api.node)
            world.seen = world.api.node if is_watched else None
            await asyncio.sleep(20)
            world.api.node = world.seen = None
            await asyncio.sleep(11 if is_watched else 460)
        assert world.api.verbs().count("create") == 2
        assert world.api.condition("Ready").status == "True"

    tell()


# --- reports


@virtual_time
async def test_heartbeats_are_sent_about_every_five_minutes() -> None:
    world = World()
    async with world.reporting():
        await asyncio.sleep(3600)
    times = [at for verb, at in world.api.calls if verb == "patch_status"]
    assert 150 <= times[0] <= 461
    assert all(300 <= later - sooner <= 311 for sooner, later in pairwise(times))
    assert all(set(patch["status"]) == {"conditions"} for patch in world.api.patches)
    assert world.api.condition("Ready").last_transition_time == START


@virtual_time
async def test_a_change_is_reported_with_the_next_look() -> None:
    world = World()
    async with world.reporting():
        await asyncio.sleep(15)
        world.runtime.said = RuntimeStatus(ready=True, network_ready=False, network_message="no cni")
        await asyncio.sleep(6)
        assert world.api.condition("Ready").message == "container runtime network not ready: no cni"
        world.runtime.said = RuntimeStatus(ready=True, network_ready=True)
        await asyncio.sleep(10)
    assert world.api.condition("Ready").status == "True"
    assert world.api.condition("Ready").last_transition_time == START + timedelta(seconds=30)
    assert world.reasons()[3:] == ["NodeNotReady", "NodeReady"]


@virtual_time
async def test_a_change_that_is_told_is_reported_at_once() -> None:
    world = World()
    async with world.reporting() as reporter:
        await asyncio.sleep(15)
        world.troubles.append("the node is shutting down")
        world.pressures.append("DiskPressure")
        reporter.changed()
        await asyncio.sleep(0.1)
    assert world.api.condition("Ready").message == "the node is shutting down"
    assert world.api.condition("DiskPressure").status == "True"


@virtual_time
async def test_a_change_during_a_report_is_not_forgotten() -> None:
    world = World()
    async with world.reporting() as reporter:
        await asyncio.sleep(0.0005)
        world.troubles.append("the node is shutting down")
        reporter.changed()
        await asyncio.sleep(0.1)
    assert world.api.condition("Ready").status == "False"


@virtual_time
async def test_a_runtime_that_does_not_answer_makes_the_node_unready_and_takes_nothing_else_away() -> None:
    world = World()
    world.runtime.pulled = (Image(id="i", names=("busybox:1",), size=5),)
    async with world.reporting():
        await asyncio.sleep(5)
        world.runtime.fault = Retry("connection refused")
        await asyncio.sleep(10)
        assert world.api.condition("Ready").message == "container runtime not ready: connection refused"
        assert world.api.condition("pykubelet.dev/FullIsolation").status == "True"
        assert world.api.node is not None
        assert world.api.node.status.node_info.container_runtime_version == "fake://1"
        assert world.api.node.status.images[0].names == ("busybox:1",)
        world.runtime.fault, world.runtime.image_fault = None, Retry("busy")
        await asyncio.sleep(10)
    assert world.api.condition("Ready").status == "True"
    assert world.api.node.status.images


@virtual_time
async def test_a_runtime_that_hangs_makes_the_node_unready_and_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    async with world.reporting():
        await asyncio.sleep(5)
        world.runtime.answers.clear()
        await asyncio.sleep(30)
        silence = "the runtime has not said how it is for 15 s"
        assert world.api.condition("Ready").message == f"container runtime not ready: {silence}"
        await asyncio.sleep(300)
        assert [record.getMessage() for record in caplog.records].count(silence) == 1
        world.runtime.answers.set()
        await asyncio.sleep(10)
    assert world.api.condition("Ready").status == "True"


@virtual_time
async def test_a_failed_report_is_tried_again_soon_from_what_the_server_has() -> None:
    world = World()
    async with world.reporting():
        await asyncio.sleep(5)
        world.facts = changed(FACTS, cpus=8)
        world.api.faults.append(Conflict("somebody was faster"))
        await asyncio.sleep(6)
    assert world.api.verbs() == ["create", "patch_status", "get", "patch_status"]
    assert world.api.node is not None
    assert world.api.node.status.capacity["cpu"] == Quantity.of(8)


@virtual_time
async def test_a_report_whose_answer_is_lost_is_told_in_an_event_all_the_same() -> None:
    world = World()
    async with world.reporting():
        await asyncio.sleep(5)
        world.troubles.append("PLEG is not healthy")
        world.api.faults.append(world.api.LOST)
        await asyncio.sleep(6)
    assert world.api.verbs() == ["create", "patch_status", "get"]
    assert world.reasons()[3:] == ["NodeNotReady"]


@virtual_time
async def test_what_others_changed_is_put_right_when_a_watch_shows_it() -> None:
    world = World()
    async with world.reporting():
        await asyncio.sleep(5)
        assert world.api.node is not None
        conditions = tuple(
            changed(each, status="Unknown", reason="NodeStatusUnknown") for each in world.api.node.status.conditions
        )
        lost = changed(world.api.node, status=changed(world.api.node.status, conditions=conditions))
        labels = {**lost.metadata.labels, "kubernetes.io/arch": "wrong"}
        world.seen = world.api.put(changed(lost, metadata=changed(lost.metadata, labels=labels)))
        await asyncio.sleep(10)
    assert world.api.verbs() == ["create", "patch", "patch_status"]
    assert world.api.condition("Ready").status == "True"
    assert world.api.node.metadata.labels["kubernetes.io/arch"] == "amd64"
    assert "NodeReady" in world.reasons()


@virtual_time
async def test_a_label_holds_from_the_moment_a_watch_shows_it() -> None:
    world = World()
    async with world.reporting() as reporter:
        await asyncio.sleep(5)
        node = world.api.node
        assert node is not None
        assert reporter.node is not None
        labels = {**node.metadata.labels, "disk": "ssd"}
        world.seen = changed(node, metadata=changed(node.metadata, labels=labels))
        assert reporter.node.metadata.labels["disk"] == "ssd"
        assert reporter.node is reporter.node


@virtual_time
async def test_a_watch_that_lags_behind_our_own_report_is_not_believed() -> None:
    world = World()
    async with world.reporting() as reporter:
        await asyncio.sleep(5)
        world.seen = world.api.node
        await asyncio.sleep(10)
        for cpus in (8, 4):  # as the watch still shows it
            world.facts = changed(FACTS, cpus=cpus)
            reporter.changed()
            await asyncio.sleep(0.1)
    assert world.api.node is not None
    assert world.api.node.status.capacity["cpu"] == Quantity.of(4)


@virtual_time
async def test_a_reboot_is_told_once() -> None:
    world = World()
    async with world.reporting():
        await asyncio.sleep(5)
    world.facts = changed(FACTS, boot_id="b2")
    async with world.reporting():
        await asyncio.sleep(60)
    told = [event for event in world.events if event[1] == "Rebooted"]
    assert told == [("Warning", "Rebooted", "Node n1 has been rebooted, boot id: b2")]


# --- the node, for others in the agent


@virtual_time
async def test_the_node_is_known_before_the_server_is() -> None:
    world = World()
    world.api.away = Retry("away")
    async with world.reporting() as reporter:
        await asyncio.sleep(1)
        assert reporter.node is not None
        assert reporter.node.status.allocatable["cpu"] == Quantity.of(4)


@virtual_time
async def test_the_node_is_replaced_only_when_more_than_a_heartbeat_has_changed() -> None:
    world = World()
    async with world.reporting() as reporter:
        await asyncio.sleep(5)
        node = reporter.node
        await asyncio.sleep(900)
        assert "patch_status" in world.api.verbs()
        assert reporter.node is node
        world.facts = changed(FACTS, cpus=8)
        await asyncio.sleep(11)
        assert reporter.node is not None
        assert reporter.node.status.capacity["cpu"] == Quantity.of(8)


@virtual_time
async def test_without_a_server_the_node_is_kept_up_to_date_all_the_same() -> None:
    world = World()
    async with world.reporting(alone=True) as reporter:
        await asyncio.sleep(15)
        node = reporter.node
        assert node is not None
        world.troubles.append("PLEG is not healthy")
        await asyncio.sleep(10)
        assert reporter.node is not node
        assert reporter.node is not None
        ready = reporter.node.status.conditions[-1]
        assert (ready.type, ready.status, ready.last_transition_time) == (
            "Ready",
            "False",
            START + timedelta(seconds=20),
        )
        assert reporter.node.status.conditions[0].last_transition_time == START
    assert world.api.calls == []


@virtual_time
async def test_the_ways_to_run_pods_are_reported_and_kept_while_the_runtime_is_silent() -> None:
    world = World()
    handlers = (RuntimeHandler(), RuntimeHandler(name="runsc", user_namespaces=True))
    world.runtime.said = changed(world.runtime.said, handlers=handlers, supplemental_groups_policy=True)
    async with world.reporting():
        await asyncio.sleep(5)
        world.runtime.fault = Retry("connection refused")
        await asyncio.sleep(10)
        assert world.api.condition("Ready").status == "False"
        assert world.api.node is not None
        status = codec.to_builtins(world.api.node.status)
    no, yes = {"recursiveReadOnlyMounts": False}, {"userNamespaces": True}
    assert status["runtimeHandlers"] == [
        {"name": "", "features": {**no, "userNamespaces": False}},
        {"name": "runsc", "features": {**no, **yes}},
    ]
    assert status["features"] == {"supplementalGroupsPolicy": True}


@virtual_time
async def test_a_new_node_says_how_far_it_is_each_stage_once() -> None:
    world, journal, stages = World(), Journal(), []
    journal.read_by(lambda noted: stages.append(noted.moment))
    world.api.faults.append(Retry("not yet"))
    world.troubles = ["the network is not ready"]
    async with world.reporting(journal=journal):
        await asyncio.sleep(60)
        assert stages == [NodeStage("registering"), NodeStage("registered")]
        world.troubles = []
        await asyncio.sleep(140)
    assert stages == [NodeStage("registering"), NodeStage("registered"), NodeStage("ready")]


@virtual_time
async def test_of_a_node_that_was_registered_before_no_start_is_told() -> None:
    world, journal, stages = World(), Journal(), []
    async with world.reporting():
        await asyncio.sleep(20)
    journal.read_by(lambda noted: stages.append(noted.moment))
    async with world.reporting(journal=journal):
        await asyncio.sleep(140)
    assert NodeStage("ready") not in stages


@virtual_time
async def test_a_node_that_takes_no_more_pods_is_told_of_and_so_is_its_return() -> None:
    world = World()
    async with world.reporting():
        await asyncio.sleep(5)
        for unschedulable in (True, True, False):
            assert world.api.node is not None
            node = world.api.node
            world.seen = world.api.put(changed(node, spec=changed(node.spec, unschedulable=unschedulable)))
            await asyncio.sleep(20)
    told = [(kind, reason, message) for kind, reason, message in world.events if "Schedulable" in reason]
    assert told == [
        ("Normal", "NodeNotSchedulable", "Node n1 status is now: NodeNotSchedulable"),
        ("Normal", "NodeSchedulable", "Node n1 status is now: NodeSchedulable"),
    ]


@virtual_time
async def test_a_node_that_cannot_ask_its_server_has_the_labels_and_addresses_that_it_had() -> None:
    world, known = World(), Remembered()
    async with world.reporting(before=known) as reporter:
        await asyncio.sleep(5)
        node = world.api.node
        assert node is not None
        labels = {**node.metadata.labels, "disk": "ssd"}
        spec = changed(node.spec, pod_cidrs=("10.1.0.0/24",))
        world.seen = changed(node, metadata=changed(node.metadata, labels=labels), spec=spec)
        assert reporter.node is not None
    later = World()
    later.api.away = Retry("away")
    async with later.reporting(before=Remembered(known.saved)) as reporter:
        await asyncio.sleep(1)
        assert reporter.node is not None
        assert reporter.node.metadata.labels["disk"] == "ssd"
        assert reporter.node.spec.pod_cidrs == ("10.1.0.0/24",)


@virtual_time
async def test_what_cannot_be_read_of_an_earlier_node_is_no_reason_not_to_be_one() -> None:
    world = World()
    world.api.away = Retry("away")
    async with world.reporting(before=Remembered({("node",): b"spoilt"})) as reporter:
        await asyncio.sleep(1)
        assert reporter.node is not None

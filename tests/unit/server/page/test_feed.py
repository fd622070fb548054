"""What listeners are told: everything at first, then what changes; and who does not read is cut off."""

import asyncio
import json
from contextlib import ExitStack
from typing import Any

import pytest

from kit.pods import make_pod
from kit.virtual_time import virtual_time
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Retry
from pykubelet.base.journal import About, Noted
from pykubelet.pod import moments as m
from pykubelet.pod.stats.loop_picture import LoopPicture, StatusQueue
from pykubelet.pod.story.story import Story, story
from pykubelet.server.page.feed import Feed, Listener
from pykubelet.server.page.node_state import NodeRow
from pykubelet.server.page.usage import UsageHistory
from unit.pod.story.broken_pods import NOW


class Node:
    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.looks = 0
        self.inbox = 0
        self.feed = Feed(
            lambda: tuple(self.pods.values()), self._told, self._row, self._picture, UsageHistory(None), now=lambda: NOW
        )

    async def _told(self, pod: Pod) -> Story:
        self.looks += 1
        return story(pod, (), now=NOW)

    def _row(self) -> NodeRow:
        return NodeRow(name="n1")

    def _picture(self) -> LoopPicture:
        return LoopPicture(
            sources=(),
            inbox=self.inbox,
            inbox_size=1000,
            handled={},
            lateness=0.0,
            workers={},
            work=(),
            calls=(),
            statuses=StatusQueue(),
        )

    def set(self, name: str, phase: str) -> None:
        pod = self.pods[name] = make_pod(name, phase=phase)
        self.feed.read(Noted(NOW, m.about(pod), m.StatusSet(phase, "", False, None)))


def heard(listener: Listener) -> list[tuple[str, dict[str, Any]]]:
    found = []
    while not listener.messages.empty():
        event, data, *_ = listener.messages.get_nowait().decode().split("\n")
        found.append((event.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


@virtual_time
async def test_everything_at_first_then_only_what_changes() -> None:
    node = Node()
    node.set("a", "Running")
    node.set("b", "Pending")
    running = asyncio.create_task(node.feed.run())
    with node.feed.listen("anna") as listener:
        await node.feed.greet(listener)
        ((name, whole),) = heard(listener)
        assert (name, whole["kind"]) == ("state", "NodeState")
        assert {each["name"]: each["phase"] for each in whole["pods"]} == {"a": "Running", "b": "Pending"}
        assert whole["node"]["name"] == "n1"
        await asyncio.sleep(5)
        assert heard(listener) == [], "nothing has changed"
        node.set("b", "Running")
        await asyncio.sleep(2)
        ((name, change),) = heard(listener)
        assert name == "change"
        assert [each["name"] for each in change["pods"]] == ["b"]
        assert "node" not in change
        assert "loop" not in change
        del node.pods["a"]
        await asyncio.sleep(2)
        ((_, change),) = heard(listener)
        assert change["gone"] == ["uid-a"]
    running.cancel()


@virtual_time
async def test_a_pod_that_changes_all_the_time_is_told_once_a_second() -> None:
    node = Node()
    running = asyncio.create_task(node.feed.run())
    with node.feed.listen("anna") as listener:
        await node.feed.greet(listener)
        heard(listener)
        before, told = node.looks, 0
        for number in range(100):
            node.set("a", ("Pending", "Running")[number % 2])
            await asyncio.sleep(0.1)
            told += len(heard(listener))
        assert node.looks - before <= 11
        assert told <= 11
    running.cancel()


@virtual_time
async def test_all_listeners_share_one_look() -> None:
    node = Node()
    running = asyncio.create_task(node.feed.run())
    with ExitStack() as stack:
        listeners = [stack.enter_context(node.feed.listen(f"n{number}")) for number in range(20)]
        node.set("a", "Running")
        await asyncio.sleep(2)
        assert node.looks == 1
        assert all(heard(each) for each in listeners)
    running.cancel()


@virtual_time
async def test_nobody_listens_and_nothing_is_done() -> None:
    node = Node()
    node.set("a", "Running")
    running = asyncio.create_task(node.feed.run())
    with node.feed.listen("anna"):
        await asyncio.sleep(1)
    before = node.looks
    for _ in range(100):
        node.set("a", "Pending")
        await asyncio.sleep(1)
    assert node.looks <= before + 1
    running.cancel()


@virtual_time
async def test_who_does_not_read_is_cut_off_and_others_are_not() -> None:
    node = Node()
    running = asyncio.create_task(node.feed.run())
    with node.feed.listen("lazy") as lazy, node.feed.listen("keen") as keen:
        cut: list[str] = []
        lazy.on_cut_off = lambda: cut.append("lazy")
        keen.on_cut_off = lambda: cut.append("keen")
        for number in range(60):
            node.inbox = number
            await asyncio.sleep(1)
            heard(keen)
        assert cut == ["lazy"], "once"
        assert lazy.messages.qsize() <= 8
    running.cancel()


@virtual_time
async def test_there_are_never_more_than_a_few_listeners() -> None:
    node = Node()
    with ExitStack() as stack:
        for _ in range(32):
            stack.enter_context(node.feed.listen("anna"))
        with pytest.raises(Retry, match="too many pages"), node.feed.listen("anna"):
            pass
        for number in range(32):
            stack.enter_context(node.feed.listen(f"n{number}"))
        with pytest.raises(Retry), node.feed.listen("another"):
            pass
    with node.feed.listen("anna"):
        pass


@virtual_time
async def test_who_comes_later_misses_nothing_and_hears_nothing_twice() -> None:
    node = Node()
    running = asyncio.create_task(node.feed.run())
    with node.feed.listen("first") as first:
        await node.feed.greet(first)
        heard(first)
        node.set("a", "Running")
        with node.feed.listen("second") as second:
            await node.feed.greet(second)
            await asyncio.sleep(3)
            assert [name for name, _ in heard(second)] == ["state"]
        assert [[each["name"] for each in change["pods"]] for _, change in heard(first)] == [["a"]]
    running.cancel()


@virtual_time
async def test_a_month_without_listeners_leaves_nothing_behind() -> None:
    node = Node()
    for number in range(20_000):
        node.feed.read(Noted(NOW, About(f"uid-{number}", "default", "x"), m.PodDeleted()))
    assert len(node.feed._changed) <= 4096
    node.pods["a"] = make_pod("a")
    assert [row.name for row in (await node.feed.state()).pods] == ["a"]

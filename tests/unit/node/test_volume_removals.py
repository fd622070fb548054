"""Folders of volumes that went are taken away when the node is asked to, and the answer loses no other question."""

from collections.abc import Mapping
from typing import Any

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.node import Node
from pykubelet.api.rules.well_known import REMOVED_VOLUMES
from pykubelet.base.errors import Invalid, Retry
from pykubelet.node.volume_removals import VolumeRemovals


class Folders:
    def __init__(self, *there: str) -> None:
        self.there = set(there)
        self.stuck: set[str] = set()

    async def has_any(self) -> bool:
        return bool(self.there)

    async def remove(self, volume: str) -> None:
        if volume in self.stuck:
            raise Retry("something is mounted in it")
        if "/" in volume:
            raise Invalid("no name")
        self.there.discard(volume)


class Api:
    """Of which only patches are wanted."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    async def patch(self, name: str, patch: Mapping[str, Any]) -> Node:
        metadata = patch["metadata"]
        self.said.append((metadata["resourceVersion"], metadata["annotations"][REMOVED_VOLUMES]))
        return Node()

    async def get(self, name: str) -> Node:
        raise NotImplementedError

    create = patch_status = get


def node(asked: str | None) -> Node:
    annotations = {} if asked is None else {REMOVED_VOLUMES: asked}
    return Node(metadata=ObjectMeta(name="n1", resource_version="7", annotations=annotations))


async def answers(folders: Folders, asked: str | None) -> list[tuple[str, str]]:
    api, shown = Api(), node(asked)
    await VolumeRemovals(api, lambda: shown, folders).look()  # type: ignore[arg-type]
    return api.said


async def test_a_node_that_has_made_folders_can_be_asked() -> None:
    assert await answers(Folders(), None) == []
    assert await answers(Folders("a"), None) == [("7", "")]
    assert await answers(Folders("a"), "") == []


async def test_what_is_gone_is_answered_and_what_is_stuck_stays_asked() -> None:
    folders = Folders("a", "b", "c")
    folders.stuck = {"b"}
    assert await answers(folders, "a,b,unknown,../x") == [("7", "b,../x")]
    assert folders.there == {"b", "c"}
    assert await answers(folders, "b") == []
    folders.stuck = set()
    assert await answers(folders, "b") == [("7", "")]


async def test_nothing_is_done_while_the_node_is_not_ours_or_is_asked_for_far_too_much() -> None:
    api, folders = Api(), Folders("a")
    await VolumeRemovals(api, lambda: None, folders).look()  # type: ignore[arg-type]
    assert api.said == []
    assert await answers(folders, ",".join(["a"] * 101)) == []
    assert folders.there == {"a"}

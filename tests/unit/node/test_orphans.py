"""Pods that nobody knows are ended, each once."""

import asyncio

from kit.node import World
from kit.virtual_time import virtual_time
from pykubelet.node.orphans import clean_up_orphans, is_orphan
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State


def left(uid: str, *graces: int | None) -> ObservedPod:
    containers = tuple(
        ObservedContainer(id=f"{uid}-{number}", name=f"c{number}", state=State.RUNNING, grace_seconds=grace)
        for number, grace in enumerate(graces)
    )
    return ObservedPod(uid=uid, name=uid, namespace="default", containers=containers)


@virtual_time
async def test_an_orphan_has_the_longest_grace_that_was_noted_and_one_worker() -> None:
    world = World()
    async with world.agent() as node:
        workers = node.agent.workers
        for _ in range(2):
            clean_up_orphans(workers, world.journal, [left("a", 5, None, 40), left("b", None), ObservedPod(uid="c")])
        wishes = {uid: worker.wish for uid, worker in workers.workers.items()}
        assert {uid: wish.grace for uid, wish in wishes.items()} == {"a": 40, "b": 2, "c": 0}
        assert all(wish.removed and is_orphan(wish.pod) for wish in wishes.values())
        await asyncio.sleep(1)
        assert node.idle
        assert not node.agent.statuses.get("a")

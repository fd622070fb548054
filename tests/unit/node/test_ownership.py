import asyncio

import pytest

from kit.node import ScriptedSource
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.node.ownership import Ownership, OwnPods
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed


@virtual_time
async def test_work_is_done_only_while_the_node_is_ours() -> None:
    ownership, log = Ownership(), list[str]()

    async def work() -> None:
        log.append("begins")
        try:
            await asyncio.sleep(1000)
        finally:
            log.append("ends")

    task = asyncio.create_task(ownership.while_ours(work))
    await asyncio.sleep(10)
    assert (log, ownership.is_ours) == ([], False)
    for _ in range(2):
        ownership.say(True)
        await asyncio.sleep(10)
        ownership.say(False)
        await asyncio.sleep(10)
    assert log == ["begins", "ends"] * 2
    ownership.say(True)
    await asyncio.sleep(10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert log == ["begins", "ends"] * 3


@virtual_time
async def test_the_end_of_the_work_and_its_failure_are_passed_on() -> None:
    ownership = Ownership()
    ownership.say(True)
    await ownership.while_ours(lambda: asyncio.sleep(1))

    async def fail() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await ownership.while_ours(fail)


@virtual_time
async def test_pods_are_held_back_while_the_node_is_not_ours() -> None:
    source, ownership = ScriptedSource(), Ownership()
    source.apply(make_pod("first"))
    told: list[Listed | Applied | Gone] = []

    async def listen() -> None:
        async for event in OwnPods(source, ownership).watch():
            told.append(event)

    task = asyncio.create_task(listen())
    await asyncio.sleep(100)
    assert told == []
    ownership.say(True)
    await eventually(lambda: told == [Listed((make_pod("first"),))])
    ownership.say(False)
    source.apply(make_pod("second"))
    source.remove("uid-first")
    await asyncio.sleep(100)
    assert len(told) == 1
    ownership.say(True)
    await eventually(lambda: told[1:] == [Applied(make_pod("second")), Gone("uid-first")])
    task.cancel()

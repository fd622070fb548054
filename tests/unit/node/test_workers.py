"""A pod's life, told with a syncer that only takes notes. Time is virtual."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.node.worker import Wish, newer
from pykubelet.node.workers import PodWorkers
from pykubelet.pod.moments import Journal, Phase
from pykubelet.pod.ports.syncer import Synced


class Notes:
    """A Syncer that takes time, fails on demand, and writes down what was asked of it."""

    def __init__(self) -> None:
        self.log: list[tuple[float, str, Any]] = []
        self.takes: dict[str, float] = {"sync": 1.0}
        self.failures: dict[str, int] = {}
        self.again_in: float | None = None
        self.ends = False
        self.active = 0
        self.most_active: dict[str, int] = {}

    async def _do(self, what: str, detail: Any) -> None:
        self.log.append((round(asyncio.get_running_loop().time(), 1), what, detail))
        try:
            await asyncio.sleep(self.takes.get(what, 0.0))
        except asyncio.CancelledError:
            self.log.append((round(asyncio.get_running_loop().time(), 1), f"{what} cancelled", detail))
            raise
        if self.failures.get(what):
            self.failures[what] -= 1
            raise Retry(f"{what} failed for a test")

    async def sync(self, pod: Pod) -> Synced:
        await self._do("sync", pod.spec.containers[0].image)
        return Synced(ended=self.ends, again_in=self.again_in)

    async def stop(self, pod: Pod, grace: float) -> None:
        await self._do("stop", grace)

    async def release(self, pod: Pod) -> None:
        await self._do("release", pod.metadata.uid)

    async def remove(self, uid: str) -> None:
        await self._do("remove", uid)

    def told(self) -> list[tuple[str, Any]]:
        return [(what, detail) for _, what, detail in self.log]


@asynccontextmanager
async def node(resync_period: float = 60.0) -> AsyncIterator[tuple[PodWorkers, Notes]]:
    notes = Notes()
    tasks = asyncio.TaskGroup()
    async with tasks:
        workers = PodWorkers(notes, Journal(), tasks, resync_period=resync_period)
        yield workers, notes
        for task in list(tasks._tasks):
            task.cancel()


def pod(image: str = "v1", uid: str = "u", name: str = "web") -> Pod:
    return make_pod(name, uid=uid, image=image)


def _phase(workers: PodWorkers, uid: str) -> Phase | None:
    worker = workers.workers.get(uid)
    return None if worker is None else worker.phase


async def until(workers: PodWorkers, phase: Phase | None, uid: str = "u") -> None:
    await eventually(lambda: _phase(workers, uid) is phase, seconds=3600)


@virtual_time
async def test_a_pod_is_synced_at_once_and_again_about_every_minute() -> None:
    async with node() as (workers, notes):
        workers.tell(pod())
        await asyncio.sleep(400)
        times = [at for at, what, _ in notes.log if what == "sync"]
        assert times[0] == 0.0
        assert 4 <= len(times) <= 7


@virtual_time
async def test_people_decide_how_often_a_pod_is_looked_at_of_which_there_is_no_news() -> None:
    async with node(resync_period=600.0) as (workers, notes):
        workers.tell(pod())
        await asyncio.sleep(1700)
        assert 2 <= len([at for at, what, _ in notes.log if what == "sync"]) <= 3


@virtual_time
async def test_stopping_releasing_and_removing_follow_each_other() -> None:
    async with node() as (workers, notes):
        workers.tell(pod())
        await asyncio.sleep(5)
        workers.tell(pod(), grace=30, removed=True)
        await until(workers, None)
        assert notes.told() == [("sync", "v1"), ("stop", 30), ("release", "u"), ("remove", "u")]


@virtual_time
async def test_the_newest_wish_wins_and_older_ones_are_skipped() -> None:
    async with node() as (workers, notes):
        notes.takes["sync"] = 10
        for image in ("v1", "v2", "v3", "v4"):
            workers.tell(pod(image))
            await asyncio.sleep(1)
        await asyncio.sleep(20)
        assert notes.told()[:2] == [("sync", "v1"), ("sync", "v4")]


@virtual_time
async def test_a_stop_interrupts_a_running_sync() -> None:
    async with node() as (workers, notes):
        notes.takes["sync"] = 1000
        workers.tell(pod())
        await asyncio.sleep(5)
        workers.tell(pod(), grace=7)
        await until(workers, Phase.RELEASED)
        assert notes.log[:3] == [(0.0, "sync", "v1"), (5.0, "sync cancelled", "v1"), (5.0, "stop", 7)]


@virtual_time
async def test_a_stop_is_never_taken_back() -> None:
    async with node() as (workers, notes):
        notes.takes["stop"] = 5
        workers.tell(pod())
        await asyncio.sleep(2)
        workers.tell(pod(), grace=30)
        await asyncio.sleep(1)
        workers.tell(pod("v2"))
        await until(workers, Phase.RELEASED)
        await asyncio.sleep(500)
        assert [what for what, _ in notes.told()] == ["sync", "stop", "release"]


@virtual_time
async def test_a_shorter_grace_interrupts_the_stop_and_a_longer_one_does_not() -> None:
    async with node() as (workers, notes):
        notes.takes["stop"] = 100
        workers.tell(pod())
        await asyncio.sleep(2)
        workers.tell(pod(), grace=30)
        await asyncio.sleep(2)
        workers.tell(pod(), grace=60)
        await asyncio.sleep(2)
        workers.tell(pod(), grace=3)
        await asyncio.sleep(2)
        assert notes.told()[1:] == [("stop", 30), ("stop cancelled", 30), ("stop", 3)]


@virtual_time
async def test_a_failed_sync_is_tried_again_ever_more_slowly() -> None:
    async with node() as (workers, notes):
        notes.takes["sync"] = 0.0
        notes.failures["sync"] = 6
        workers.tell(pod())
        await asyncio.sleep(55)
        times = [at for at, what, _ in notes.log if what == "sync"]
        assert len(times) == 7
        assert 1.0 <= times[1] <= 1.6
        assert all(6.0 <= later - earlier <= 10.1 for earlier, later in pairwise(times[4:]))


@virtual_time
async def test_news_cuts_the_wait_after_a_failure_short() -> None:
    async with node() as (workers, notes):
        notes.takes["sync"] = 0.0
        notes.failures["sync"] = 4
        workers.tell(pod())
        await asyncio.sleep(20)
        seen = len(notes.log)
        notes.failures["sync"] = 0
        workers.tell(pod("v2"))
        await asyncio.sleep(0.1)
        assert notes.told()[seen:] == [("sync", "v2")]


@virtual_time
async def test_failing_to_stop_or_release_is_never_given_up() -> None:
    async with node() as (workers, notes):
        notes.failures |= {"stop": 5, "release": 5, "remove": 5}
        workers.tell(pod())
        await asyncio.sleep(2)
        workers.tell(pod(), grace=1, removed=True)
        await until(workers, None)
        whats = [what for what, _ in notes.told()]
        assert (whats.count("stop"), whats.count("release"), whats.count("remove")) == (6, 6, 6)


@virtual_time
async def test_a_pod_that_has_ended_goes_the_way_of_a_stopped_one_and_never_starts_again() -> None:
    async with node() as (workers, notes):
        notes.ends = True
        workers.tell(pod())
        await until(workers, Phase.RELEASED)
        workers.tell(pod("v2"))
        workers.wake("u")
        await asyncio.sleep(500)
        assert notes.told() == [("sync", "v1"), ("stop", 30), ("release", "u")]
        workers.tell(pod("v2"), grace=30, removed=True)
        await until(workers, None)
        assert notes.told()[-1] == ("remove", "u")


@virtual_time
async def test_a_pod_that_is_first_seen_stopping_is_never_synced() -> None:
    async with node() as (workers, notes):
        workers.tell(pod(), grace=5)
        await until(workers, Phase.RELEASED)
        assert notes.told() == [("stop", 5), ("release", "u")]


@virtual_time
async def test_what_is_due_sooner_than_the_next_resync_is_done_in_time() -> None:
    async with node() as (workers, notes):
        notes.again_in = 7.0
        workers.tell(pod())
        await asyncio.sleep(17.5)
        assert [at for at, _, _ in notes.log] == [0.0, 8.0, 16.0]


@virtual_time
async def test_a_wake_up_during_a_sync_leads_to_one_more_sync() -> None:
    async with node() as (workers, notes):
        notes.takes["sync"] = 5
        workers.tell(pod())
        await asyncio.sleep(1)
        for _ in range(10):
            workers.wake("u")
        await asyncio.sleep(20)
        assert [at for at, _, _ in notes.log] == [0.0, 5.0]


@virtual_time
async def test_a_pod_waits_until_its_predecessor_of_the_same_name_has_ended() -> None:
    async with node() as (workers, notes):
        notes.takes["stop"] = 20
        workers.tell(pod("old", uid="u1"))
        await asyncio.sleep(2)
        workers.tell(pod("old", uid="u1"), grace=30, removed=True)
        workers.tell(pod("new", uid="u2"))
        await asyncio.sleep(10)
        assert _phase(workers, "u2") is Phase.WAITING
        await until(workers, Phase.RUNNING, "u2")
        order = [what for what in notes.told() if what in (("release", "u1"), ("sync", "new"))]
        assert order == [("release", "u1"), ("sync", "new")]


@virtual_time
async def test_pods_of_one_name_queue_up_in_their_order() -> None:
    async with node() as (workers, notes):
        for uid in ("u1", "u2", "u3"):
            workers.tell(pod(uid, uid=uid))
            await asyncio.sleep(0.1)
            workers.tell(pod(uid, uid=uid), grace=1, removed=True)
        workers.tell(pod("u4", uid="u4"))
        await until(workers, Phase.RUNNING, "u4")
        assert [detail for what, detail in notes.told() if what == "release"] == ["u1", "u2", "u3"]


@virtual_time
async def test_a_pod_that_comes_back_while_it_is_removed_has_to_wait_until_it_is_gone() -> None:
    async with node() as (workers, notes):
        notes.takes["stop"] = 10
        workers.on_gone = lambda uid: workers.tell(pod())
        workers.tell(pod())
        await asyncio.sleep(2)
        workers.tell(pod(), grace=30, removed=True)
        await asyncio.sleep(1)
        assert workers.is_leaving("u")
        await eventually(lambda: notes.told()[-1] == ("sync", "v1"), seconds=60)
        assert [what for what, _ in notes.told()] == ["sync", "stop", "release", "remove", "sync"]


@pytest.mark.parametrize(("policy", "removals"), [("Always", 0), ("OnFailure", 1), ("Never", 1)])
@virtual_time
async def test_what_is_left_of_a_pod_that_comes_back_is_kept_where_restarts_are_counted(
    policy: str, removals: int
) -> None:
    async with node() as (workers, notes):
        again = changed(pod(), spec=changed(pod().spec, restart_policy=policy))
        workers.on_gone = lambda uid: workers.tell(again)
        workers.comes_back = lambda uid: True
        workers.tell(again)
        await asyncio.sleep(2)
        workers.tell(again, grace=30, removed=True)
        await eventually(lambda: notes.told()[-1] == ("sync", "v1") and len(notes.told()) > 2, seconds=60)
        assert [what for what, _ in notes.told()].count("remove") == removals


@virtual_time
async def test_trying_again_to_stop_gives_nobody_more_time() -> None:
    async with node() as (workers, notes):
        notes.takes["stop"] = 8
        notes.failures["stop"] = 3
        workers.tell(pod())
        await asyncio.sleep(2)
        workers.tell(pod(), grace=30)
        await until(workers, Phase.RELEASED)
        graces = [round(grace) for what, grace in notes.told() if what == "stop"]
        assert graces == sorted(graces, reverse=True)
        assert graces[0] == 30
        assert graces[-1] < 10


@virtual_time
async def test_a_pod_that_waits_for_another_can_be_stopped_without_it() -> None:
    async with node() as (workers, notes):
        notes.failures["stop"] = 10**6
        workers.tell(pod("old", uid="u1"))
        await asyncio.sleep(2)
        workers.tell(pod("old", uid="u1"), grace=1, removed=True)
        workers.tell(pod("new", uid="u2"))
        await asyncio.sleep(30)
        assert _phase(workers, "u2") is Phase.WAITING
        notes.failures["stop"] = 0
        notes.takes["stop"] = 10**6
        workers.tell(pod("new", uid="u2"), grace=1)
        await eventually(lambda: _phase(workers, "u2") is Phase.STOPPING)


@virtual_time
async def test_what_is_only_here_to_be_removed_waits_for_nobody_of_its_name() -> None:
    async with node() as (workers, notes):
        workers.tell(pod("new", uid="u2"))
        await asyncio.sleep(2)
        workers.tell(pod("old", uid="u1"), grace=1, removed=True)
        await until(workers, None, "u1")
        assert ("remove", "u1") in notes.told()


@virtual_time
async def test_a_cancellation_that_leaks_out_of_a_step_is_a_failure_like_any_other() -> None:
    async with node() as (workers, notes):
        calls = 0

        async def sync(pod: Pod) -> Synced:
            nonlocal calls
            calls += 1
            raise asyncio.CancelledError

        notes.sync = sync  # type: ignore[method-assign]
        workers.tell(pod())
        await asyncio.sleep(60)
        assert 2 < calls < 20


@virtual_time
async def test_shutting_down_interrupts_steps_and_stops_no_pod() -> None:
    notes_seen: list[Notes] = []
    async with node() as (workers, notes):
        notes.takes["sync"] = 1000
        workers.tell(pod())
        await asyncio.sleep(3)
        notes_seen.append(notes)
    assert notes_seen[0].told() == [("sync", "v1"), ("sync cancelled", "v1")]


@virtual_time
async def test_a_bug_in_one_pods_step_stays_with_that_pod() -> None:
    async with node() as (workers, notes):
        original: Callable[[Pod], Any] = notes.sync

        async def sync(pod: Pod) -> Synced:
            if pod.metadata.uid == "bad":
                raise ZeroDivisionError("a bug")
            return await original(pod)  # type: ignore[no-any-return]

        notes.sync = sync  # type: ignore[method-assign]
        workers.tell(pod(uid="bad", name="bad"))
        workers.tell(pod(uid="good", name="good"))
        await asyncio.sleep(30)
        assert _phase(workers, "good") is _phase(workers, "bad") is Phase.RUNNING
        assert ("sync", "v1") in notes.told()


def test_of_two_wishes_the_newest_pod_and_the_shortest_grace_count() -> None:
    old, new = pod("v1"), pod("v2")
    assert newer(Wish(pod=old), Wish(pod=new)) == Wish(pod=new)
    assert newer(Wish(pod=old, grace=5), Wish(pod=new)) == Wish(pod=new, grace=5)
    assert newer(Wish(pod=old, grace=5), Wish(pod=new, grace=9)) == Wish(pod=new, grace=5)
    assert newer(Wish(pod=old, grace=5), Wish(pod=new, grace=0)) == Wish(pod=new, grace=0)
    assert newer(Wish(pod=old, removed=True), Wish(pod=new)) == Wish(pod=new, removed=True)

"""The last hour, however long the agent runs and however many pods come and go."""

import asyncio

from kit.virtual_time import virtual_time
from pykubelet.base.errors import Retry
from pykubelet.pod.stats.stats import Cpu, Memory, NodeReading, PodReading, Reading
from pykubelet.pod.stats.stats import Usage as Used
from pykubelet.server.page.usage import NODE, UsageHistory


def used(rate: int | None, memory: int) -> Used:
    return Used(at=0, cpu=Cpu(rate=rate), memory=Memory(working_set=memory))


class Machine:
    """With these pods, each with what it uses."""

    def __init__(self) -> None:
        self.pods: dict[str, Used] = {}
        self.is_away = False
        self.looks = 0

    async def read(self, *, details: bool = True) -> Reading:
        assert not details, "nobody needs to measure volumes for this"
        self.looks += 1
        if self.is_away:
            raise Retry("the runtime does not answer")
        pods = tuple(
            PodReading(uid=uid, name=uid, namespace="default", created_at=None, group="", usage=usage)
            for uid, usage in self.pods.items()
        )
        return Reading(at=0, node=NodeReading(usage=used(500_000_000, 1 << 30)), pods=pods)


class Watched:
    def __init__(self) -> None:
        self.machine = Machine()
        loop = asyncio.get_running_loop()
        self.history = UsageHistory(self.machine, now=lambda: 1000 + loop.time())
        self._task = asyncio.create_task(self.history.run())

    async def after(self, seconds: float) -> UsageHistory:
        await asyncio.sleep(seconds)
        return self.history

    def end(self) -> None:
        self._task.cancel()


@virtual_time
async def test_a_point_is_kept_every_half_a_minute() -> None:
    watched = Watched()
    watched.machine.pods["u1"] = used(250_000_000, 4096)
    series = (await watched.after(95)).of("u1")
    assert series.at == [1000, 1030, 1060, 1090]
    assert series.cpu == [0.25] * 4
    assert series.memory == [4096] * 4
    assert watched.history.of(NODE).cpu == [0.5] * 4
    watched.end()


@virtual_time
async def test_what_is_not_known_yet_is_none() -> None:
    watched = Watched()
    watched.machine.pods["u1"] = used(None, 1)
    assert (await watched.after(1)).of("u1").cpu == [None]
    assert watched.history.latest["u1"].cpu is None
    watched.end()


@virtual_time
async def test_the_last_hour_is_all_that_is_kept_of_a_day() -> None:
    watched = Watched()
    watched.machine.pods["u1"] = used(1, 1)
    series = (await watched.after(86_400)).of("u1")
    assert len(series.at) == 120
    assert series.at[-1] - series.at[0] <= 3600
    watched.end()


@virtual_time
async def test_who_is_gone_is_forgotten_after_an_hour() -> None:
    watched = Watched()
    watched.machine.pods["u1"] = used(1, 1)
    await watched.after(10)
    watched.machine.pods.clear()
    assert (await watched.after(1800)).of("u1").at
    assert not (await watched.after(1900)).of("u1").at
    assert watched.history.latest.keys() == {NODE}
    watched.end()


@virtual_time
async def test_a_crowd_of_short_lived_pods_stays_bounded() -> None:
    watched = Watched()
    for turn in range(20):
        watched.machine.pods = {f"{turn}-{number}": used(1, 1) for number in range(100)}
        await watched.after(30)
    assert not watched.history.of("0-0").at
    assert watched.history.of("19-99").at
    assert len(watched.history._series) <= 500
    watched.end()


@virtual_time
async def test_while_somebody_looks_on_it_is_looked_at_more_often_and_kept_as_rarely() -> None:
    watched = Watched()
    await watched.after(1)
    before = watched.machine.looks
    for _ in range(60):
        watched.history.look_on()
        await watched.after(1)
    assert watched.machine.looks - before >= 10
    assert len(watched.history.of(NODE).at) == 3
    before = watched.machine.looks
    await watched.after(300)
    assert watched.machine.looks - before <= 14, "nobody looks on any more"
    watched.end()


@virtual_time
async def test_a_runtime_that_is_away_leaves_a_gap() -> None:
    watched = Watched()
    await watched.after(35)
    watched.machine.is_away = True
    await watched.after(60)
    watched.machine.is_away = False
    assert (await watched.after(30)).of(NODE).at == [1000, 1030, 1120]
    watched.end()


@virtual_time
async def test_a_machine_that_cannot_be_measured_has_nothing_to_show() -> None:
    history = UsageHistory(None)
    task = asyncio.create_task(history.run())
    await asyncio.sleep(100)
    assert not history.latest
    assert not history.of(NODE).at
    task.cancel()

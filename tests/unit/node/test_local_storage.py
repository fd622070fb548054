"""Pods that write more than they may, from the look at their files to what is said of them."""

from collections.abc import Collection, Sequence
from typing import Any

from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.api.volumes import EmptyDirVolumeSource, Volume
from pykubelet.base.errors import Retry
from pykubelet.pod import moments as m
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.stats.stats import Disk, NodeReading, PodReading, Reading, Usage, VolumeUsage

LIMIT = 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". '


class Files:
    """What pods have in their volumes, by uid."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self.asked: list[set[str]] = []
        self.fault: Exception | None = None

    async def storage(self, pods: Sequence[ObservedPod], uids: Collection[str]) -> Reading:
        self.asked.append(set(uids))
        if self.fault is not None:
            raise self.fault
        found = tuple(
            PodReading(
                uid=each.uid,
                name=each.name,
                namespace=each.namespace,
                created_at=None,
                group="",
                usage=Usage(at=1),
                volumes=(VolumeUsage(name="cache", disk=Disk(at=1, used=self.used.get(each.uid, 0))),),
            )
            for each in pods
            if each.uid in uids
        )
        return Reading(at=1, node=NodeReading(usage=Usage(at=1)), pods=found)


def pod(name: str, **spec: Any) -> Pod:
    made = make_pod(name)
    return changed(made, spec=changed(made.spec, restart_policy="Always", **spec))


def limited(name: str, **spec: Any) -> Pod:
    volume = Volume(name="cache", empty_dir=EmptyDirVolumeSource(size_limit=parse("1Mi")))
    return pod(name, volumes=(volume,), **spec)


def measured() -> tuple[World, Files]:
    world, files = World(), Files()
    world.stats = files
    return world, files


@virtual_time
async def test_a_pod_above_its_limit_is_evicted_and_others_go_on() -> None:
    world, files = measured()
    async with world.agent() as node:
        for each in (limited("greedy"), limited("polite"), pod("free")):
            world.pods.apply(each)
        await eventually(lambda: [node.phase(f"uid-{n}") for n in ("greedy", "polite", "free")] == ["Running"] * 3)
        await eventually(lambda: {"uid-greedy", "uid-polite"} in files.asked, seconds=11)
        files.used = {"uid-greedy": (1 << 20) + 1, "uid-polite": 1 << 20, "uid-free": 1 << 40}
        await eventually(lambda: node.phase("uid-greedy") == "Failed", seconds=15)
        await eventually(lambda: node.agent.workers.workers["uid-greedy"].released.is_set(), seconds=15)
        files.asked.clear()
        await eventually(lambda: len(files.asked) == 2, seconds=25)
        assert files.asked == [{"uid-polite"}] * 2, "one that has ended is measured no more"
        status = node.status("uid-greedy")
        assert (status.reason, status.message) == ("Evicted", LIMIT)
        assert "DisruptionTarget" not in {each.type for each in status.conditions}, "it is the pod's own fault"
        assert (node.phase("uid-polite"), node.phase("uid-free")) == ("Running", "Running")
        assert "uid-greedy" not in node.agent.handlers.usage
    assert [each for each in world.events.all if each[1] == "Evicted"] == [("greedy", "Evicted", LIMIT)]
    noted = [each.moment for each in world.journal.of("uid-greedy")]
    assert m.Evicted("emptydirfs.limit", LIMIT) in noted
    assert [(each.by, each.grace) for each in noted if isinstance(each, m.StopAsked)] == [("evicted", 1)]


@virtual_time
async def test_a_pod_that_stops_anyway_keeps_its_reason_and_its_grace() -> None:
    world, files = measured()
    world.runtime.stop_seconds = 25
    async with world.agent() as node:
        greedy = limited("greedy", termination_grace_period_seconds=30)
        world.pods.apply(greedy)
        await eventually(lambda: node.phase("uid-greedy") == "Running")
        leaving = changed(greedy.metadata, deletion_timestamp=world.now(), deletion_grace_period_seconds=30)
        world.pods.apply(changed(greedy, metadata=leaving))
        files.used, looks = {"uid-greedy": 1 << 30}, len(files.asked)
        await eventually(lambda: len(files.asked) > looks + 1, seconds=25)
        assert not node.agent.workers.workers["uid-greedy"].released.is_set()
        await eventually(lambda: node.agent.workers.workers["uid-greedy"].released.is_set(), seconds=40)
    assert "Evicted" not in world.events.reasons("greedy")
    noted = [each.moment for each in world.journal.of("uid-greedy")]
    assert [each for each in noted if isinstance(each, m.StopAsked)] == [m.StopAsked("deleted", 30)]


@virtual_time
async def test_critical_pods_are_spared_static_ones_among_them() -> None:
    world, files = measured()
    files.used = {"uid-critical": 1 << 30, "uid-static": 1 << 30}
    async with world.agent() as node:
        world.pods.apply(limited("critical", priority=2_000_000_000))
        world.files.apply(limited("static"))
        await eventually(lambda: node.phase("uid-critical") == node.phase("uid-static") == "Running")
        world.pods.apply(limited("other"))
        await eventually(lambda: {"uid-other"} in files.asked, seconds=15)
        assert node.phase("uid-critical") == node.phase("uid-static") == "Running"
    assert all(each == {"uid-other"} for each in files.asked)


@virtual_time
async def test_a_look_that_fails_is_tried_again() -> None:
    world, files = measured()
    files.fault, files.used = Retry("the runtime is away"), {"uid-greedy": 1 << 30}
    async with world.agent() as node:
        world.pods.apply(limited("greedy"))
        await eventually(lambda: len(files.asked) >= 2, seconds=25)
        assert node.phase("uid-greedy") == "Running"
        files.fault = None
        await eventually(lambda: node.phase("uid-greedy") == "Failed", seconds=15)

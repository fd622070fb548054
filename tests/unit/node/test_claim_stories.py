"""Whole stories of pods with claims on devices: prepared before anything runs, given back before anybody hears of the
end."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping

from kit.node import World
from kit.pod_api import MemoryPods
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container, ResourceClaim, ResourceRequirements
from pykubelet.api.pod import Pod, PodResourceClaim, ResourceHealth, ResourceStatus
from pykubelet.api.struct import changed
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.moments import Awaiting
from pykubelet.pod.ports.devices import ContainerDevices
from unit.node.test_api_stories import cluster, stored


def pod(name: str = "web", policy: str = "Always") -> Pod:
    made = make_pod(name)
    container = Container(name="c", image="i", resources=ResourceRequirements(claims=(ResourceClaim(name="gpu"),)))
    claim = PodResourceClaim(name="gpu", resource_claim_name="one")
    spec = changed(made.spec, restart_policy=policy, containers=(container,), resource_claims=(claim,))
    return changed(made, spec=spec)


class FakeClaims:
    """Says what was asked for, with what runs at that time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.held: set[str] = set()
        self.asked: list[str] = []
        self.failure: ClaimFailed | None = None
        self.retained: Collection[str] = ()
        self.seconds = 0.1

    def lacks(self, pod: Pod) -> bool:
        return bool(pod.spec.resource_claims) and pod.metadata.uid not in self.held

    async def prepare(self, pod: Pod) -> None:
        if not pod.spec.resource_claims:
            return
        await self._note(f"prepare {pod.metadata.name}")
        self.held.add(pod.metadata.uid)

    async def given(self, pod: Pod, container: Container) -> ContainerDevices:
        return ContainerDevices(cdi_devices=("example.com/gpu=0",))

    async def unprepare(self, uid: str) -> None:
        if uid in self.held:
            await self._note(f"unprepare {uid}")
            self.held.discard(uid)

    def retain(self, uids: Collection[str]) -> None:
        self.retained = uids
        assert not self.world.runtime.running() or self.held <= set(uids), "it would be given back while it is used"

    async def _note(self, what: str) -> None:
        self.asked.append(f"{what} beside {len(self.world.runtime.running())}")
        await asyncio.sleep(self.seconds)
        if self.failure is not None:
            raise self.failure


@virtual_time
async def test_claims_are_ready_before_the_pod_runs_and_given_back_before_its_end_is_told() -> None:
    api = MemoryPods()
    world = World(api)
    world.claims = claims = FakeClaims(world)
    async with cluster(world, api):
        api.put(pod("job", "Never"))
        await eventually(world.runtime.running)
        assert claims.asked == ["prepare job beside 0"]
        (container,) = world.runtime._containers.values()
        assert container.config.cdi_devices == ("example.com/gpu=0",)
        await eventually(lambda: "uid-job" in claims.retained)
        claims.failure = ClaimFailed("NodeUnprepareResources: busy", driver="gpu.example.com")
        world.runtime.exit("uid-job", "c", 0)
        await asyncio.sleep(60)
        assert (found := stored(api, "job")) is not None
        assert found.status.phase == "Running"
        claims.failure = None
        await eventually(lambda: (p := stored(api, "job")) is not None and p.status.phase == "Succeeded")
        assert set(claims.asked[1:]) == {"unprepare uid-job beside 0"}


@virtual_time
async def test_a_pod_whose_claims_are_not_ready_waits_and_tells_for_what() -> None:
    world = World()
    world.claims = claims = FakeClaims(world)
    claims.failure = ClaimFailed("DRA driver gpu.example.com is not registered", driver="gpu.example.com")
    async with world.agent() as node:
        world.pods.apply(pod())
        world.pods.apply(make_pod("other"))
        await eventually(lambda: "FailedPrepareDynamicResources" in world.events.reasons("web"))
        await eventually(lambda: world.runtime.running() == ["other/c"])
        told = "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.example.com is not regis"
        assert any(message.startswith(told) for _, _, message in world.events.all)
        moments = [each.moment for each in world.journal.of("uid-web")]
        assert Awaiting("driver", "gpu.example.com", "DRA driver gpu.example.com is not registered") in moments
        assert node.waiting("uid-web") == "ContainerCreating"
        claims.failure = ClaimFailed("ResourceClaim one: not allocated", claim="one", driver="gpu.example.com")
        await eventually(
            lambda: (
                Awaiting("claim", "one", "ResourceClaim one: not allocated")
                in [each.moment for each in world.journal.of("uid-web")]
            )
        )
        claims.failure = None
        await eventually(lambda: node.phase("uid-web") == "Running")


@virtual_time
async def test_the_next_agent_prepares_nothing_again_but_what_was_forgotten() -> None:
    world = World()
    world.claims = claims = FakeClaims(world)
    async with world.agent():
        world.pods.apply(pod())
        await eventually(world.runtime.running)
    async with world.agent() as node:
        await eventually(lambda: node.phase("uid-web") == "Running")
        await asyncio.sleep(120)
        assert claims.asked == ["prepare web beside 0"]
        world.runtime.exit("uid-web", "c", 1)
        await eventually(lambda: world.runtime.seen("uid-web").containers[0].attempt == 1, seconds=60)
        assert claims.asked == ["prepare web beside 0"]
    claims.held.clear()
    claims.failure = ClaimFailed("DRA driver gpu.example.com is not registered", driver="gpu.example.com")
    async with world.agent() as node:
        await eventually(lambda: len(claims.asked) > 1)
        assert node.phase("uid-web") == "Running"  # it goes on, whatever becomes of it
        claims.failure = None
        await eventually(lambda: "uid-web" in claims.held, seconds=200)
        assert claims.asked[-1] == "prepare web beside 1"


@virtual_time
async def test_a_pod_that_was_removed_while_the_agent_was_away_is_stopped_first() -> None:
    world = World()
    world.claims = claims = FakeClaims(world)
    world.runtime.stop_seconds = 5
    async with world.agent():
        world.pods.apply(pod())
        await eventually(world.runtime.running)
    world.pods.remove("uid-web")
    async with world.agent():
        await eventually(lambda: not claims.held, seconds=60)
        assert claims.asked == ["prepare web beside 0", "unprepare uid-web beside 0"]
        await eventually(lambda: world.runtime.is_empty)


@virtual_time
async def test_who_stops_all_pods_does_not_wait_for_long_for_a_driver() -> None:
    """It may be one of them."""
    for failure, seconds, longest in ((ClaimFailed("gone", driver="gpu.example.com"), 0.1, 10), (None, 3600.0, 40)):
        world = World()
        world.claims = claims = FakeClaims(world)
        async with world.agent() as node:
            world.pods.apply(pod())
            await eventually(world.runtime.running)
            claims.failure, claims.seconds, began = failure, seconds, world.now()
            await node.agent.stop_pods()
            assert (world.now() - began).total_seconds() < longest
        assert not world.runtime.running()
        assert claims.held == {"uid-web"}  # the next agent is told


class FakeHealth:
    def __init__(self) -> None:
        self.health = "Healthy"
        self.news = asyncio.Event()

    def of(self, pod: Pod) -> Mapping[str, tuple[ResourceStatus, ...]]:
        told = ResourceHealth(resource_id="example.com/gpu=0", health=self.health)
        return {"c": (ResourceStatus(name="claim:gpu", resources=(told,)),)}

    async def changes(self) -> AsyncGenerator[frozenset[str], None]:
        while True:
            await self.news.wait()
            self.news.clear()
            yield frozenset({"uid-web"})


@virtual_time
async def test_a_device_that_falls_ill_is_told_at_once() -> None:
    api = MemoryPods()
    world = World(api)
    world.device_health = health = FakeHealth()

    def told() -> str:
        found = stored(api, "web")
        statuses = found.status.container_statuses if found else ()
        return statuses[0].allocated_resources_status[0].resources[0].health if statuses else ""

    async with cluster(world, api):
        api.put(make_pod())
        await eventually(lambda: told() == "Healthy")
        began = world.now()
        health.health = "Unhealthy"
        health.news.set()
        await eventually(lambda: told() == "Unhealthy")
        assert (world.now() - began).total_seconds() < 2

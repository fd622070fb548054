"""Whole stories: the agent on a runtime in memory, in virtual time."""

import asyncio
from datetime import timedelta

from kit.fake_runtime import FakeRuntime
from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.observed import State


def pod(name: str = "web", **fields: object) -> Pod:
    return changed(make_pod(name), spec=changed(make_pod(name).spec, restart_policy="Always", **fields))


def deleted(pod: Pod, world: World, grace: int = 30) -> Pod:
    meta = changed(
        pod.metadata, deletion_timestamp=world.now() + timedelta(seconds=grace), deletion_grace_period_seconds=grace
    )
    return changed(pod, metadata=meta)


@virtual_time
async def test_a_pod_from_the_api_runs_and_is_reported() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(lambda: node.phase("uid-web") == "Running")
        assert world.runtime.running() == ["web/c"]
        assert world.now().timestamp() - world.journal.of("uid-web")[0].at.timestamp() < 1
        status = node.status("uid-web")
        assert status.pod_ip.startswith("10.")
        assert status.host_ip == "192.0.2.1"
        assert {c.type: c.status for c in status.conditions}["Ready"] == "True"
        assert status.container_statuses[0].container_id.startswith("fake://")
        assert world.events.reasons("web") == ["Pulling", "Pulled", "Created", "Started"]


@virtual_time
async def test_a_graceful_deletion_stops_the_pod_and_a_removal_clears_everything_away() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(world.runtime.running)
        world.pods.apply(deleted(pod(), world))
        await eventually(lambda: not world.runtime.running())
        assert not world.runtime.is_empty  # its logs are still of interest
        world.pods.remove("uid-web")
        await eventually(lambda: world.runtime.is_empty and not world.host.folders)
        assert node.idle


@virtual_time
async def test_a_removal_without_a_deletion_stops_the_pod_too() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(world.runtime.running)
        world.pods.remove("uid-web")
        await eventually(lambda: world.runtime.is_empty and node.idle)


@virtual_time
async def test_a_crashing_container_is_restarted_ever_more_slowly() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(world.runtime.running)
        starts = []
        for _ in range(5):
            world.runtime.exit("uid-web", "c", 1)
            ended = world.now()
            await eventually(world.runtime.running, seconds=600)
            starts.append((world.now() - ended).total_seconds())
        assert starts[0] < 0.2
        assert [round(start, -1) for start in starts[1:]] == [10, 20, 40, 80]
        assert node.status("uid-web").container_statuses[0].restart_count == 5


@virtual_time
async def test_a_crash_looping_container_says_so_in_its_status() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        for _ in range(2):
            await eventually(world.runtime.running, seconds=60)
            world.runtime.exit("uid-web", "c", 1)
        await eventually(lambda: node.waiting("uid-web") == "CrashLoopBackOff")
        assert node.status("uid-web").container_statuses[0].last_state.terminated is not None
        assert node.phase("uid-web") == "Running"


@virtual_time
async def test_a_job_that_ends_succeeds_and_never_starts_again() -> None:
    world = World()
    async with world.agent() as node:
        job = changed(pod("job"), spec=changed(pod("job").spec, restart_policy="Never"))
        world.pods.apply(job)
        await eventually(world.runtime.running)
        world.runtime.exit("uid-job", "c", 0)
        await eventually(lambda: node.phase("uid-job") == "Succeeded")
        world.pods.apply(changed(job, metadata=changed(job.metadata, labels={"a": "b"})))
        await asyncio.sleep(300)
        assert not world.runtime.running()
        assert node.phase("uid-job") == "Succeeded"


@virtual_time
async def test_init_containers_run_in_order_and_before_the_main_ones() -> None:
    world = World()
    async with world.agent() as node:
        inits = tuple(Container(name=name, image="i") for name in ("first", "second"))
        world.pods.apply(pod(init_containers=inits))
        await eventually(lambda: world.runtime.running() == ["web/first"])
        assert node.waiting("uid-web", "second") == "PodInitializing"
        world.runtime.exit("uid-web", "first")
        await eventually(lambda: world.runtime.running() == ["web/second"])
        world.runtime.exit("uid-web", "second")
        await eventually(lambda: world.runtime.running() == ["web/c"])


@virtual_time
async def test_sidecars_start_first_and_stop_last() -> None:
    world = World()
    world.runtime.stop_seconds = 3
    async with world.agent():
        sidecar = Container(name="side", image="i", restart_policy="Always")
        helped = pod(init_containers=(sidecar,))
        world.pods.apply(helped)
        await eventually(lambda: world.runtime.running() == ["web/c", "web/side"])
        world.pods.apply(deleted(helped, world))
        await eventually(lambda: world.runtime.running() == ["web/side"])
        await eventually(lambda: not world.runtime.running())


@virtual_time
async def test_a_changed_image_restarts_the_container_in_its_sandbox() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod())
        await eventually(world.runtime.running)
        sandbox = world.runtime.seen("uid-web").sandboxes[0].id
        newer = make_pod("web", image="busybox:2")
        world.pods.apply(changed(newer, spec=changed(newer.spec, restart_policy="Always")))
        await eventually(
            lambda: any(
                c.image == "busybox:2" and c.state is State.RUNNING for c in world.runtime.seen("uid-web").containers
            )
        )
        assert [s.id for s in world.runtime.seen("uid-web").sandboxes] == [sandbox]
        assert world.runtime.running() == ["web/c"]


@virtual_time
async def test_a_lost_sandbox_is_made_again() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod())
        await eventually(world.runtime.running)
        world.runtime.lose_sandbox("uid-web")
        await eventually(world.runtime.running, seconds=120)
        assert sum(s.ready for s in world.runtime.seen("uid-web").sandboxes) == 1


@virtual_time
async def test_a_pod_that_does_not_fit_fails_with_the_reason_and_is_never_started() -> None:
    world = World()
    async with world.agent() as node:
        world.node = changed(world.node, status=changed(world.node.status, allocatable={}))
        world.pods.apply(pod())
        await eventually(lambda: node.phase("uid-web") == "Failed")
        assert node.status("uid-web").reason == "OutOfpods"
        assert "OutOfpods" in world.events.reasons("web")
        await asyncio.sleep(60)
        assert world.runtime.is_empty


@virtual_time
async def test_an_image_that_cannot_be_pulled_shows_in_the_status_and_disturbs_nobody() -> None:
    world = World()
    world.runtime.missing_images.add("nowhere:1")
    async with world.agent() as node:
        bad = make_pod("bad", image="nowhere:1")
        world.pods.apply(changed(bad, spec=changed(bad.spec, restart_policy="Always")))
        world.pods.apply(pod("good"))
        await eventually(lambda: node.phase("uid-good") == "Running")
        await eventually(lambda: node.waiting("uid-bad") == "ErrImagePull")
        await eventually(lambda: node.waiting("uid-bad") == "ImagePullBackOff", seconds=120)
        world.runtime.missing_images.clear()
        await eventually(lambda: node.phase("uid-bad") == "Running", seconds=600)


@virtual_time
async def test_a_restarted_agent_finds_its_pods_and_restarts_nothing() -> None:
    world = World()
    async with world.agent():
        for number in range(5):
            world.pods.apply(pod(f"p{number}"))
        await eventually(lambda: len(world.runtime.running()) == 5)
    before = {p.uid: p for p in await world.runtime.pods()}
    async with world.agent() as node:
        await eventually(lambda: all(node.phase(f"uid-p{n}") == "Running" for n in range(5)))
        await asyncio.sleep(200)
    assert {p.uid: p for p in await world.runtime.pods()} == before


@virtual_time
async def test_what_nobody_asks_for_after_a_restart_is_stopped_and_removed() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod("kept"))
        world.pods.apply(pod("dropped"))
        await eventually(lambda: len(world.runtime.running()) == 2)
    world.pods.remove("uid-dropped")
    async with world.agent():
        await eventually(lambda: world.runtime.running() == ["kept/c"])
        await eventually(lambda: "uid-dropped" not in world.host.folders)


@virtual_time
async def test_every_call_may_fail_once_and_then_twice_and_the_pod_still_runs_and_ends() -> None:
    for method in ("observe", "run_sandbox", "create_container", "start_container", "image", "pull_image"):
        for times in (1, 2):
            world = World()
            world.runtime.failures[method] = [Retry(f"{method} fails") for _ in range(times)]
            async with world.agent() as node:
                world.pods.apply(pod())
                await eventually(lambda n=node: n.phase("uid-web") == "Running", seconds=300)  # type: ignore[misc]
                await eventually(lambda w=world: w.runtime.running() == ["web/c"])  # type: ignore[misc]
                for teardown in ("stop_container", "stop_sandbox", "remove_container", "remove_sandbox"):
                    world.runtime.failures[teardown] = [Retry(f"{teardown} fails") for _ in range(times)]
                world.pods.remove("uid-web")
                await eventually(lambda w=world, n=node: w.runtime.is_empty and n.idle, seconds=600)  # type: ignore[misc]


@virtual_time
async def test_the_agent_may_be_killed_at_every_step_and_no_container_is_doubled_or_lost() -> None:
    steps = 0
    while True:
        world = World()
        for method in ("observe", "run_sandbox", "create_container", "start_container", "image", "pull_image"):
            world.runtime.delays[method] = 1.0
        killed = False
        async with world.agent():
            world.pods.apply(pod())
            await asyncio.sleep(0.5 + steps)
            killed = world.runtime.running() != ["web/c"]
        async with world.agent() as node:
            await eventually(lambda n=node: n.phase("uid-web") == "Running", seconds=300)  # type: ignore[misc]
            assert world.runtime.running() == ["web/c"], steps
            world.pods.remove("uid-web")
            await eventually(lambda w=world: w.runtime.is_empty, seconds=300)  # type: ignore[misc]
        if not killed:
            break
        steps += 1
    assert steps >= 5


@virtual_time
async def test_storms_of_changes_end_in_the_truth() -> None:
    world = World()
    world.runtime.delays |= {"run_sandbox": 0.2, "stop_container": 0.1, "pull_image": 0.3}
    async with world.agent() as node:
        for turn in range(200):
            name = f"p{turn % 7}"
            match turn % 5:
                case 0 | 1 | 2:
                    world.pods.apply(
                        changed(
                            make_pod(name, uid=f"{name}-{turn // 35}", image=f"i{turn}"),
                            spec=changed(make_pod(name, image=f"i{turn}").spec, restart_policy="Always"),
                        )
                    )
                case 3:
                    world.pods.remove(f"{name}-{turn // 35}")
                case 4:
                    world.runtime.exit(f"{name}-{turn // 35}", "c", turn % 2)
            await asyncio.sleep((turn % 4) * 0.3)
        for turn in range(200):
            world.pods.remove(f"p{turn % 7}-{turn // 35}")
        world.pods.apply(pod("last"))
        await eventually(lambda: world.runtime.running() == ["last/c"], seconds=600)
        await eventually(lambda: len(node.agent.workers.workers) == 1, seconds=600)


@virtual_time
async def test_a_deadline_ends_the_pod() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(active_deadline_seconds=30))
        await eventually(lambda: node.phase("uid-web") == "Running")
        await eventually(lambda: node.phase("uid-web") == "Failed", seconds=60)
        assert node.status("uid-web").reason == "DeadlineExceeded"
        await eventually(lambda: not world.runtime.running())


@virtual_time
async def test_while_the_api_server_is_away_an_agent_that_was_restarted_goes_on_with_what_it_had() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod())
        await eventually(world.runtime.running)
    world.pods.reachable.clear()
    async with world.agent() as node:
        await eventually(lambda: node.phase("uid-web") == "Running")
        world.runtime.exit("uid-web", "c", 1)
        await eventually(lambda: not world.runtime.running(), seconds=1)
        await eventually(world.runtime.running)
        await asyncio.sleep(30)
        world.pods.remove("uid-web")
        world.pods.reachable.set()
        await eventually(lambda: world.runtime.is_empty)


@virtual_time
async def test_nothing_is_cleaned_up_before_every_source_has_spoken() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod())
        await eventually(world.runtime.running)
    world.checkpoint.pods.clear()
    world.pods.reachable.clear()
    async with world.agent():
        await asyncio.sleep(600)
        assert world.runtime.running() == ["web/c"]


@virtual_time
async def test_an_image_that_cannot_be_pulled_is_shown_as_waiting_between_two_tries() -> None:
    world = World()
    world.runtime.missing_images.add("busybox:1.36")
    async with world.agent() as node:
        world.pods.apply(pod())
        await asyncio.sleep(25)  # tried at 0 and at 10 s; the next is at 30 s
        waiting = node.status("uid-web").container_statuses[0].state.waiting
        assert waiting is not None
        assert waiting.reason == "ImagePullBackOff"
        pulls = [what for what, _ in world.runtime.calls].count("pull_image")
        world.runtime.missing_images.clear()
        await eventually(world.runtime.running, seconds=30)
        assert pulls == 2


class StartsNothing(FakeRuntime):
    """Its programs are not there: a start ends the container, and no event tells of it."""

    async def start_container(self, container_id: str) -> None:
        self._found(container_id)
        uid = next(uid for uid in self._by_uid if any(c.id == container_id for c in self.seen(uid).containers))
        self.exit(uid, "c", 128, reason="StartError")
        self._changed.clear()
        raise Invalid("exec: no such file")


@virtual_time
async def test_a_program_that_cannot_be_started_is_tried_again_at_once_and_then_waits() -> None:
    world = World()
    world.runtime = StartsNothing()
    async with world.agent() as node:
        world.pods.apply(pod())
        await asyncio.sleep(5)
        status = node.status("uid-web").container_statuses[0]
        assert status.restart_count == 1
        assert status.state.waiting is not None
        assert status.state.waiting.reason == "CrashLoopBackOff"

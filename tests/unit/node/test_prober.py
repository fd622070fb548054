"""Probes, in whole stories: the agent on a runtime in memory, in virtual time. Commands are what is asked here; what
else can be asked is in test_probes.py."""

import asyncio
from datetime import timedelta

from kit.node import Running, World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container
from pykubelet.api.env import EnvVar
from pykubelet.api.handlers import ExecAction, Probe
from pykubelet.api.pod import ContainerStatus, Pod, PodStatus
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.pod.lifecycle.probe_results import NO_PROBES, Result
from pykubelet.pod.moments import Noted, Probed, ProbingEnded

UID = "uid-web"


def probe(command: str, *, period: int = 10, delay: int = 0, failures: int = 3, successes: int = 1) -> Probe:
    return Probe(
        exec=ExecAction(command=(command,)),
        period_seconds=period,
        timeout_seconds=1,
        initial_delay_seconds=delay,
        failure_threshold=failures,
        success_threshold=successes,
    )


def pod(
    *,
    liveness: Probe | None = None,
    readiness: Probe | None = None,
    startup: Probe | None = None,
    init: tuple[Container, ...] = (),
    policy: str = "Always",
) -> Pod:
    made = make_pod("web")
    container = Container(
        name="c", image="i", liveness_probe=liveness, readiness_probe=readiness, startup_probe=startup
    )
    spec = changed(made.spec, containers=(container,), init_containers=init, restart_policy=policy)
    return changed(made, spec=spec)


def asked(world: World, command: str) -> int:
    return sum(words[0] == command for _, words in world.runtime.executed)


def container(node: Running) -> ContainerStatus:
    return node.status(UID).container_statuses[0]


def is_ready(node: Running) -> bool:
    conditions = {condition.type: condition.status for condition in node.status(UID).conditions}
    ready = conditions.get("Ready") == "True"
    assert ready == (conditions.get("ContainersReady") == "True")
    assert not ready or container(node).ready
    return ready


def take_over(world: World, pod: Pod, shown: PodStatus) -> None:
    """The next agent has the API server's word on the pod, and no other."""
    world.checkpoint.pods.clear()
    world.pods.apply(changed(pod, status=shown))


def unhealthy(world: World) -> list[str]:
    return [message for _, reason, message in world.events.all if reason == "Unhealthy"]


@virtual_time
async def test_a_pod_is_ready_when_its_readiness_probe_says_so_and_as_long_as_it_does() -> None:
    world = World()
    world.runtime.exit_codes["ready"] = 1
    async with world.agent() as node:
        world.pods.apply(pod(readiness=probe("ready", failures=2)))
        await eventually(lambda: node.phase(UID) == "Running")
        await asyncio.sleep(35)
        assert not is_ready(node)
        assert container(node).started is True
        assert unhealthy(world)[0] == "Readiness probe failed: ready"
        world.runtime.exit_codes.clear()
        await asyncio.sleep(11)
        assert is_ready(node)
        world.runtime.exit_codes["ready"] = 1
        await asyncio.sleep(10)
        assert is_ready(node)  # one failure is not enough
        await asyncio.sleep(11)
        assert not is_ready(node)
        assert container(node).restart_count == 0


@virtual_time
async def test_a_container_that_has_just_started_is_asked_at_once_whether_it_is_ready() -> None:
    world = World()
    world.runtime.delays["pull_image"] = 7
    async with world.agent() as node:
        world.pods.apply(pod(readiness=probe("ready", period=600)))
        await eventually(lambda: node.phase(UID) == "Running")
        running = world.now()
        await eventually(lambda: is_ready(node))
        assert world.now() - running < timedelta(seconds=1)
        assert asked(world, "ready") == 1


@virtual_time
async def test_a_container_is_left_alone_for_its_initial_delay() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(readiness=probe("ready", delay=30, period=1), liveness=probe("alive", delay=40, period=1)))
        await eventually(lambda: node.phase(UID) == "Running")
        await asyncio.sleep(28)
        assert (asked(world, "ready"), asked(world, "alive"), is_ready(node)) == (0, 0, False)
        await asyncio.sleep(4)
        assert is_ready(node)
        assert asked(world, "alive") == 0
        await asyncio.sleep(10)
        assert asked(world, "alive") > 0


@virtual_time
async def test_a_success_threshold_takes_as_many_successes_in_a_row() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(readiness=probe("ready", successes=3)))
        await eventually(lambda: asked(world, "ready") == 2)
        assert not is_ready(node)
        world.runtime.exit_codes["ready"] = 1
        await eventually(lambda: asked(world, "ready") == 3)
        world.runtime.exit_codes.clear()
        await eventually(lambda: asked(world, "ready") == 5)
        await asyncio.sleep(1)
        assert not is_ready(node)
        await eventually(lambda: is_ready(node))
        assert asked(world, "ready") == 6


@virtual_time
async def test_a_failing_liveness_probe_restarts_the_container_with_its_own_grace_and_then_ever_more_slowly() -> None:
    world = World()
    world.runtime.exit_codes["alive"] = 1
    world.runtime.stop_seconds = 1000
    alive = changed(probe("alive", period=1, failures=2), termination_grace_period_seconds=4)
    async with world.agent() as node:
        world.pods.apply(pod(liveness=alive))
        await eventually(lambda: node.phase(UID) == "Running")
        began = world.now()
        await eventually(lambda: container(node).restart_count == 1)
        assert timedelta(seconds=4) <= world.now() - began <= timedelta(seconds=9)
        killing = [message for _, reason, message in world.events.all if reason == "Killing"]
        assert killing == ["Container c failed liveness probe, will be restarted"]
        assert unhealthy(world) == ["Liveness probe failed: alive"] * 2  # on hold while it is stopped
        await eventually(lambda: node.waiting(UID) == "CrashLoopBackOff", seconds=60)
        await eventually(lambda: container(node).restart_count == 3, seconds=120)
        world.runtime.exit_codes.clear()
        await asyncio.sleep(300)
        assert container(node).restart_count in (3, 4)
        assert container(node).state.running is not None


@virtual_time
async def test_after_a_restart_failures_are_counted_anew() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(liveness=probe("alive", failures=3)))
        await eventually(lambda: node.phase(UID) == "Running")
        world.runtime.exit_codes["alive"] = 1
        await eventually(lambda: len(unhealthy(world)) == 2)
        world.runtime.exit(UID, "c", 1)
        await eventually(lambda: container(node).restart_count == 1)
        await eventually(lambda: len(unhealthy(world)) == 4)
        await asyncio.sleep(1)
        assert container(node).restart_count == 1
        await eventually(lambda: container(node).restart_count == 2)


@virtual_time
async def test_nothing_else_is_asked_before_the_startup_probe_has_succeeded_which_is_then_asked_no_more() -> None:
    world = World()
    world.runtime.exit_codes |= {"up": 1, "alive": 1}
    async with world.agent() as node:
        world.pods.apply(
            pod(startup=probe("up", failures=100), liveness=probe("alive", failures=1), readiness=probe("ready"))
        )
        await asyncio.sleep(95)
        assert asked(world, "up") in (9, 10)
        assert (asked(world, "alive"), asked(world, "ready")) == (0, 0)
        assert container(node).started is False
        world.runtime.exit_codes.clear()
        await eventually(lambda: container(node).started)
        await eventually(lambda: is_ready(node), seconds=2)
        so_far = asked(world, "up")
        await asyncio.sleep(60)
        assert asked(world, "up") == so_far
        assert asked(world, "alive") in (5, 6, 7)
        assert container(node).restart_count == 0


@virtual_time
async def test_a_container_that_does_not_start_up_is_restarted() -> None:
    world = World()
    world.runtime.exit_codes["up"] = 1
    async with world.agent() as node:
        world.pods.apply(pod(startup=probe("up", failures=2), readiness=probe("ready")))
        await eventually(lambda: node.phase(UID) == "Running" and container(node).restart_count == 1, seconds=60)
        world.runtime.exit_codes.clear()
        await eventually(lambda: is_ready(node), seconds=60)
        assert "Container c failed startup probe, will be restarted" in str(world.events.all)


@virtual_time
async def test_a_probed_container_of_a_job_is_not_restarted_when_it_fails() -> None:
    world = World()
    world.runtime.exit_codes["alive"] = 1
    async with world.agent() as node:
        world.pods.apply(pod(liveness=probe("alive", failures=1), policy="Never"))
        await eventually(lambda: node.phase(UID) == "Failed", seconds=60)
        so_far = len(world.runtime.executed)
        await asyncio.sleep(60)
        assert len(world.runtime.executed) == so_far


@virtual_time
async def test_a_sidecar_is_probed_and_the_next_container_waits_for_its_startup() -> None:
    world = World()
    world.runtime.exit_codes["up"] = 1
    sidecar = Container(
        name="s",
        image="i",
        restart_policy="Always",
        startup_probe=probe("up", failures=100),
        liveness_probe=probe("ok"),
    )
    async with world.agent() as node:
        world.pods.apply(pod(init=(sidecar,)))
        await asyncio.sleep(60)
        assert world.runtime.running() == ["web/s"]
        world.runtime.exit_codes.clear()
        await eventually(lambda: world.runtime.running() == ["web/c", "web/s"])
        world.runtime.exit_codes["ok"] = 1
        await eventually(lambda: node.status(UID).init_container_statuses[0].restart_count == 1, seconds=60)
        assert container(node).restart_count == 0


@virtual_time
async def test_a_pod_that_is_being_stopped_is_still_asked_whether_it_is_ready_but_not_whether_it_lives() -> None:
    world = World()
    world.runtime.stop_seconds = 100
    async with world.agent() as node:
        wanted = pod(liveness=probe("alive", period=1), readiness=probe("ready", period=1, failures=1))
        world.pods.apply(wanted)
        await eventually(lambda: is_ready(node))
        grace = {"deletion_timestamp": world.now() + timedelta(seconds=30), "deletion_grace_period_seconds": 30}
        world.pods.apply(changed(wanted, metadata=changed(wanted.metadata, **grace)))
        await asyncio.sleep(2)
        lived = asked(world, "alive")
        world.runtime.exit_codes |= {"ready": 1, "alive": 1}
        await asyncio.sleep(5)
        assert container(node).state.running is not None
        assert not is_ready(node)
        assert asked(world, "alive") == lived
        await eventually(lambda: not world.runtime.running(), seconds=60)
        so_far = len(world.runtime.executed)
        await asyncio.sleep(30)
        assert len(world.runtime.executed) == so_far


@virtual_time
async def test_a_restarted_agent_that_only_has_its_checkpoint_flips_no_readiness_either() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(readiness=probe("ready", delay=30, period=600)))
        await eventually(lambda: node.phase(UID) == "Running" and is_ready(node), seconds=120)
        told = node.agent.statuses.get(UID)
        assert told is not None
        world.pods.apply(changed(pod(readiness=probe("ready", delay=30, period=600)), status=told))
        await eventually(lambda: world.checkpoint.pods[UID].status == told)
    world.runtime.exit_codes["ready"] = 1  # whatever it would say now, nobody has asked yet
    async with world.agent() as again:
        await eventually(lambda: again.phase(UID) == "Running")
        await asyncio.sleep(20)
        assert is_ready(again)


@virtual_time
async def test_an_agent_that_is_restarted_flips_no_readiness_and_restarts_nothing() -> None:
    world = World()
    wanted = pod(startup=probe("up"), readiness=probe("ready"), liveness=probe("alive"))
    async with world.agent() as node:
        world.pods.apply(wanted)
        await eventually(lambda: is_ready(node))
        shown = node.status(UID)
    ups = asked(world, "up")
    take_over(world, wanted, shown)
    async with world.agent() as node:
        await eventually(lambda: node.phase(UID) == "Running")
        for _ in range(300):
            assert is_ready(node)
            assert container(node).started
            await asyncio.sleep(0.1)
        assert container(node).restart_count == 0
        assert asked(world, "up") == ups  # it has started, once and for all
        world.runtime.exit_codes["ready"] = 1
        await eventually(lambda: not is_ready(node), seconds=60)


@virtual_time
async def test_an_agent_that_is_restarted_and_knows_nothing_asks_at_once() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(startup=probe("up", period=600), readiness=probe("ready", period=600)))
        await eventually(lambda: asked(world, "up") and is_ready(node), seconds=700)
    async with world.agent() as node:
        await eventually(lambda: node.phase(UID) == "Running" and is_ready(node), seconds=3)
        assert container(node).restart_count == 0


@virtual_time
async def test_an_agent_that_is_restarted_during_initialization_knows_that_the_sidecar_has_started() -> None:
    world = World()
    sidecar = Container(name="s", image="i", restart_policy="Always", startup_probe=probe("up"))
    wanted = pod(init=(sidecar, Container(name="slow", image="i")))
    async with world.agent() as node:
        world.pods.apply(wanted)
        await eventually(lambda: world.runtime.running() == ["web/s", "web/slow"])
        shown = node.status(UID)
    take_over(world, wanted, shown)
    async with world.agent() as node:
        await asyncio.sleep(20)
        world.runtime.exit(UID, "slow", 0)
        await eventually(lambda: world.runtime.running() == ["web/c", "web/s"], seconds=60)


@virtual_time
async def test_an_attempt_that_goes_wrong_three_times_says_nothing_about_the_container() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(liveness=probe("alive", failures=1)))
        await eventually(lambda: node.phase(UID) == "Running")
        world.runtime.failures["exec_sync"] = [Retry("the runtime is away")] * 5
        await eventually(lambda: not world.runtime.failures["exec_sync"])
        await asyncio.sleep(20)
        assert unhealthy(world) == ["Liveness probe errored and resulted in unknown state: the runtime is away"]
        assert container(node).restart_count == 0


@virtual_time
async def test_a_probe_that_is_changed_is_asked_from_then_on_in_its_new_form() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod(liveness=probe("alive")))
        await eventually(lambda: asked(world, "alive"))
        world.pods.apply(pod(liveness=probe("living")))
        await eventually(lambda: asked(world, "living"))
        so_far = asked(world, "alive")
        await asyncio.sleep(60)
        assert asked(world, "alive") == so_far


@virtual_time
async def test_commands_see_the_fixed_variables_of_the_container() -> None:
    world = World()
    wanted = pod(readiness=Probe(exec=ExecAction(command=("check", "$(PORT)", "$(OTHER)")), period_seconds=1))
    one = changed(wanted.spec.containers[0], env=(EnvVar(name="PORT", value="80"),))
    async with world.agent() as node:
        world.pods.apply(changed(wanted, spec=changed(wanted.spec, containers=(one,))))
        await eventually(lambda: is_ready(node))
        assert world.runtime.executed[0][1] == ("check", "80", "$(OTHER)")


@virtual_time
async def test_each_probe_is_measured_until_its_pod_has_gone() -> None:
    world = World()
    told: list[tuple[object, ...]] = []
    ended: list[tuple[object, ...]] = []

    def read(noted: Noted) -> None:
        about = (noted.about.namespace, noted.about.name, noted.about.uid)
        match noted.moment:
            case Probed(kind, container, result):
                told.append((kind, *about, container, result))
            case ProbingEnded(kind, container):
                ended.append((kind, *about, container))

    world.journal.read_by(read)
    async with world.agent() as node:
        world.runtime.exit_codes["alive"] = 1
        world.pods.apply(pod(readiness=probe("ready"), liveness=probe("alive")))
        await eventually(lambda: len(told) >= 2)
        about = ("default", "web", UID, "c")
        assert set(told) == {("readiness", *about, Result.SUCCESS), ("liveness", *about, Result.FAILURE)}
        assert not ended
        world.pods.remove(UID)
        await eventually(lambda: node.idle)
        assert sorted(ended, key=str) == [("liveness", *about), ("readiness", *about)]


@virtual_time
async def test_results_of_containers_that_are_gone_are_forgotten() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(readiness=probe("ready", period=1), startup=probe("up", period=1)))
        for _ in range(4):
            await eventually(lambda: node.phase(UID) == "Running" and is_ready(node), seconds=600)
            world.runtime.exit(UID, "c", 1)
            await eventually(lambda: not is_ready(node))
        results = node.agent.probe_results.of(UID)
        assert 1 <= len(results.readiness) <= 3
        assert 1 <= len(results.startup) <= 3
        world.pods.remove(UID)
        await eventually(lambda: node.idle)
        assert node.agent.probe_results.of(UID) == NO_PROBES


@virtual_time
async def test_a_command_that_takes_too_long_has_failed() -> None:
    world = World()
    world.runtime.delays["exec_sync"] = 1.0
    world.runtime.failures["exec_sync"] = [Retry("it took too long")]
    async with world.agent():
        world.pods.apply(pod(liveness=probe("slow", period=5)))
        await eventually(lambda: unhealthy(world))
        assert unhealthy(world) == ['Liveness probe failed: command timed out: "slow" timed out after 1s']

"""Containers and their processors: stories in virtual time, on a machine with four cores of two threads."""

import asyncio

from kit.node import Running, World
from kit.pinning import container, guaranteed, made_up
from kit.pods import make_pod
from kit.recorded import Lines, recorded
from kit.virtual_time import VirtualTimeLoop, virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.node.pinning import PinningParts
from pykubelet.node.recording.replay import Replay
from pykubelet.pod.pinning.cpu_state import CpuState
from pykubelet.pod.pinning.memory_state import MemoryState
from pykubelet.pod.pinning.policy_options import CpuOptions
from pykubelet.pod.pinning.settings import PinningSettings
from pykubelet.pod.pinning.state_files import CPU_STATE_FILE, read_cpu_state
from pykubelet.pod.ports.runtime import Capabilities

MACHINE = made_up(cores_per_node=4, threads=2, memory=8 << 30)


class Store:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.failures: list[Retry] = []

    async def write(self, name: str, content: bytes) -> None:
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        self.files[name] = content


class PinnedWorld(World):
    """Whose state files outlive the agent."""

    def __init__(self, options: CpuOptions | None = None) -> None:
        super().__init__()
        self.store = Store()
        self.options = options or CpuOptions()
        self.pinning = self.parts

    def parts(self) -> PinningParts:
        written = self.store.files.get(CPU_STATE_FILE)
        return PinningParts(
            store=self.store,
            settings=PinningSettings(cpu_policy="static", cpu_options=self.options, memory_policy="Static"),
            machine=MACHINE,
            reserved_cpus=frozenset({0}),
            reserved_memory={0: {"memory": 1 << 30}},
            cpus=read_cpu_state("static", written) if written else CpuState(),
            memory=MemoryState(),
        )

    def places(self) -> dict[str, str]:
        """Where each running container was told to run."""
        return {
            each.config.name: each.config.limits.cpuset_cpus
            for each in self.runtime._containers.values()
            if each.state == "running"
        }


def pinned(name: str, cpu: str = "2", *, init: tuple[Container, ...] = ()) -> Pod:
    pod = guaranteed(name, changed(container(name, cpu), image="i"), init=tuple(changed(i, image="i") for i in init))
    return changed(pod, spec=changed(pod.spec, restart_policy="Always"))


def shared(name: str) -> Pod:
    pod = make_pod(name)
    one = changed(pod.spec.containers[0], name=name)
    return changed(pod, spec=changed(pod.spec, containers=(one,), restart_policy="Always"))


def cpus_of(running: Running) -> CpuState:
    assert running.agent.pinning is not None
    assert running.agent.pinning.cpus is not None
    return running.agent.pinning.cpus.state


@virtual_time
async def test_who_shares_processors_leaves_those_that_become_somebodys_own_and_comes_back() -> None:
    world = PinnedWorld()
    async with world.agent():
        world.pods.apply(shared("others"))
        await eventually(lambda: world.places() == {"others": "0-7"})
        world.pods.apply(pinned("own"))
        await eventually(lambda: world.places() == {"others": "0,2-4,6-7", "own": "1,5"}, seconds=1)
        world.pods.remove("own")
        await eventually(lambda: world.places() == {"others": "0-7"}, seconds=60)


@virtual_time
async def test_processors_of_ones_own_have_no_quota_and_shared_ones_have() -> None:
    world = PinnedWorld()
    async with world.agent() as running:
        world.pods.apply(pinned("own"))
        world.pods.apply(pinned("part", "1500m"))
        await eventually(lambda: len(world.places()) == 2)
        quotas = {each.config.name: each.config.limits.cpu_quota for each in world.runtime._containers.values()}
        assert quotas == {"own": -1, "part": 150_000}
        pinning = running.agent.pinning
        assert pinning is not None
        assert pinning.has_exclusive_cpus("own")
        assert not pinning.has_exclusive_cpus("part")
        memory = {each.config.name: each.config.limits.cpuset_mems for each in world.runtime._containers.values()}
        assert memory == {"own": "0", "part": "0"}
        assert running.phase("own") == "Running"


@virtual_time
async def test_nothing_is_restarted_or_moved_by_a_new_agent() -> None:
    world = PinnedWorld()
    async with world.agent():
        world.pods.apply(pinned("own"))
        world.pods.apply(shared("others"))
        await eventually(lambda: world.places() == {"others": "0,2-4,6-7", "own": "1,5"})
    before = {each.id for each in world.runtime._containers.values()}
    async with world.agent() as running:
        await asyncio.sleep(60)
        assert world.places() == {"others": "0,2-4,6-7", "own": "1,5"}
        assert {each.id for each in world.runtime._containers.values()} == before
        assert cpus_of(running).of_pod("own") == {1, 5}


@virtual_time
async def test_a_pod_for_which_there_are_no_processors_fails_with_upstreams_words() -> None:
    world = PinnedWorld(CpuOptions(full_cores_only=True))
    async with world.agent() as running:
        world.pods.apply(pinned("odd", "3"))
        world.pods.apply(pinned("large", "8"))
        await eventually(lambda: running.phase("large") == "Failed" and running.phase("odd") == "Failed")
        assert running.status("odd").reason == "SMTAlignmentError"
        assert "requested 3 cpus not multiple cpus per core = 2" in running.status("odd").message
        assert "SMTAlignmentError" in world.events.reasons("odd")
        assert "not enough free physical CPUs" in running.status("large").message
        assert cpus_of(running).assigned == {}
        assert running.agent.pinning is not None
        assert running.agent.pinning.counts.cpu_errors == 2


@virtual_time
async def test_a_pod_that_is_turned_away_for_another_reason_keeps_nothing() -> None:
    world = PinnedWorld()
    async with world.agent() as running:
        pod = pinned("lost")
        world.pods.apply(changed(pod, spec=changed(pod.spec, node_selector={"disk": "ssd"})))
        await eventually(lambda: running.phase("lost") == "Failed")
        assert cpus_of(running).assigned == {}


@virtual_time
async def test_what_pods_have_that_went_while_no_agent_was_there_goes_back() -> None:
    world = PinnedWorld()
    async with world.agent():
        world.pods.apply(pinned("own"))
        await eventually(lambda: "own" in world.places())
    world.pods.remove("own")
    world.checkpoint.pods.clear()
    async with world.agent():
        await eventually(lambda: not world.places(), seconds=60)
        await eventually(lambda: read_cpu_state("static", world.store.files[CPU_STATE_FILE]).assigned == {}, seconds=60)


@virtual_time
async def test_what_a_container_was_given_is_written_down_before_it_is_made() -> None:
    world = PinnedWorld()
    world.store.failures = [Retry("the disk is full")] * 5
    async with world.agent() as running:
        world.pods.apply(pinned("own"))
        await eventually(lambda: world.store.failures == [], seconds=600)
        assert not world.places() or CPU_STATE_FILE in world.store.files
        await eventually(lambda: running.phase("own") == "Running", seconds=600)
        assert read_cpu_state("static", world.store.files[CPU_STATE_FILE]).of_pod("own") == {1, 5}


@virtual_time
async def test_a_container_that_cannot_be_moved_is_tried_again() -> None:
    world = PinnedWorld()
    async with world.agent():
        world.pods.apply(shared("others"))
        await eventually(lambda: world.places() == {"others": "0-7"})
        world.runtime.failures["update_container"] = [Retry("the kernel is busy"), Retry("the kernel is busy")]
        world.pods.apply(pinned("own"))
        await eventually(lambda: world.places().get("others") == "0,2-4,6-7", seconds=60)


@virtual_time
async def test_a_runtime_that_cannot_move_containers_starts_none_of_them() -> None:
    world = PinnedWorld()
    world.runtime.capabilities = Capabilities()
    async with world.agent() as running:
        world.pods.apply(pinned("own"))
        await eventually(lambda: "CreateContainerConfigError" in str(running.status("own")))
        assert "set cpuManagerPolicy to none" in str(running.status("own"))
        assert not world.places()


@virtual_time
async def test_memory_of_init_containers_is_free_once_they_have_ended() -> None:
    world = PinnedWorld()
    async with world.agent() as running:
        world.pods.apply(pinned("own", init=(container("init", "1", "2Gi"),)))
        await eventually(lambda: "init" in world.places())
        assert running.agent.pinning is not None
        memory = running.agent.pinning.memory
        assert memory is not None
        assert memory.state.of("own", "init") is not None
        world.runtime.exit("own", "init", 0)
        await eventually(lambda: "own" in world.places(), seconds=60)
        assert memory.state.of("own", "init") is None
        assert memory.state.machine[0].tables["memory"].reserved == 1 << 20


@virtual_time
async def test_with_the_policies_none_there_is_no_loop_and_nothing_is_told() -> None:
    world = World()
    world.pinning = lambda: PinningParts(store=Store())
    async with world.agent() as running:
        world.pods.apply(pinned("own"))
        await eventually(lambda: running.phase("own") == "Running")
        assert "processors and memory" not in running.agent._running
        assert [each.config.limits.cpuset_cpus for each in world.runtime._containers.values()] == [""]
        assert running.agent.pinning is not None
        counts = running.agent.pinning.counts
        assert (counts.admissions, counts.refusals) == (1, 0)
        assert world.runtime.updates == []


async def _session(lines: Lines) -> None:
    world = PinnedWorld()
    async with recorded(world, lines) as running:
        world.pods.apply(shared("others"))
        world.pods.apply(pinned("own"))
        world.pods.apply(pinned("large", "8"))
        await eventually(lambda: world.places() == {"others": "0,2-4,6-7", "own": "1,5"})
        await eventually(lambda: running.phase("large") == "Failed")


def test_what_was_recorded_comes_out_the_same_when_it_is_replayed() -> None:
    lines = Lines()
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(_session(lines))
    replay = Replay(iter(lines.all))
    replay.run()
    assert replay.difference is None
    assert b"pinning.store.write" in b"".join(lines.all)

"""The whole agent over a bad line to a real containerd: whatever call fails, and however, pods come up once, tell what
is in their way, and go without a trace.

All pods live on one node at the same time, each with a trouble of its own; each test waits for the end of one story.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import pytest_asyncio

from kit.containerd import Containerd
from kit.cri_proxy import CriProxy, Fault, Kind, cri_proxy
from kit.node import Events, RememberedPods, ScriptedSource, make_node
from kit.oci import make_image
from kit.pod_api import MemoryPods
from kit.pods import make_pod
from pykubelet.api.container import Container
from pykubelet.api.handlers import ExecAction, Lifecycle, LifecycleHandler
from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.rules.pod_kinds import API_SOURCE
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.host.dirs import PodDirs
from pykubelet.host.local import LocalHost
from pykubelet.node.agent import Agent
from pykubelet.node.dependencies import Dependencies, NodeInfo
from pykubelet.pod.moments import Journal
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.status.pod_status import NodeFacts
from pykubelet.runtime.cri.runtime import CriRuntime

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

DEADLINE: Final = 3.0
"""Seconds that the agent gives the runtime for an answer."""
PATIENCE: Final = 90.0
PACE: Final = 0.25
"""Seconds between two pods: the machine may be small."""
PROGRAM: Final = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done")
BUSYBOX: Final = "busybox:1.36"

STARTING: Final = (
    "ListPodSandbox",
    "ListContainers",
    "PodSandboxStatus",
    "ContainerStatus",
    "RunPodSandbox",
    "CreateContainer",
    "StartContainer",
    "ImageStatus",
    "PullImage",
    "ExecSync",
)
RESTARTING: Final = ("ListPodSandbox", "ListContainers", "ContainerStatus", "CreateContainer", "StartContainer")
STOPPING: Final = ("StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox", "ExecSync")
TOLD: Final[Mapping[tuple[str, Kind], str]] = {
    ("RunPodSandbox", Kind.BEFORE): "FailedCreatePodSandBox",
    ("RunPodSandbox", Kind.AFTER): "FailedCreatePodSandBox",
    ("RunPodSandbox", Kind.HANG): "FailedCreatePodSandBox",
    ("CreateContainer", Kind.BEFORE): "CreateContainerError",
    ("CreateContainer", Kind.HANG): "CreateContainerError",
    ("StartContainer", Kind.BEFORE): "RunContainerError",
    ("StartContainer", Kind.HANG): "RunContainerError",
    ("ImageStatus", Kind.BEFORE): "ImageInspectError",
    ("ImageStatus", Kind.AFTER): "ImageInspectError",
    ("ImageStatus", Kind.HANG): "ImageInspectError",
    ("PullImage", Kind.BEFORE): "ErrImagePull",
    ("PullImage", Kind.AFTER): "ErrImagePull",
    ("ExecSync", Kind.BEFORE): "FailedPostStartHook",
    ("PullImage", Kind.HANG): "Pulling",
    ("ExecSync", Kind.AFTER): "FailedPostStartHook",
}
"""What people are told, in the pod's status or by an event. Answers that get lost after the work was done are found out
by looking, where that is possible, and told to nobody."""
ONCE: Final = ("RunPodSandbox", "CreateContainer", "StartContainer")
"""What these have made is found when their answer is lost, and nothing is made twice."""
ENDLESS: Final = ("PullImage", "ExecSync")
"""Nobody knows how long these may take. They end with the pod."""


async def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """As `eventually`, but on a machine that is busy: look seldom."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def story_name(method: str, kind: Kind) -> str:
    return f"{method.lower()}-{kind}"


class Server(MemoryPods):
    """An API server whose changes are watched, and which remembers what it was told of each pod."""

    def __init__(self) -> None:
        self.source = ScriptedSource()
        self.reasons: dict[str, list[str]] = defaultdict(list)
        super().__init__()

    def put(self, pod: Pod) -> Pod:
        pod = super().put(pod)
        for status in pod.status.container_statuses:
            if status.state.waiting is not None:
                self.reasons[pod.metadata.name].append(status.state.waiting.reason)
        self.source.apply(pod)
        return pod

    async def delete(self, namespace: str, name: str, uid: str, grace: int) -> None:
        await super().delete(namespace, name, uid, grace)
        self.source.remove(uid)


class Node:
    """The agent, and everything around it."""

    def __init__(self, containerd: Containerd, proxy: CriProxy, agent: Agent, server: Server, events: Events) -> None:
        self.containerd = containerd
        self.proxy = proxy
        self.agent = agent
        self.server = server
        self.events = events
        self.direct = CriRuntime(containerd.endpoint)
        """Another line to the same runtime, a good one."""

    def create(self, name: str, *, host_network: bool = True, **fields: Any) -> None:
        """A pod with one container; `fields` are the container's. The host's network costs less."""
        made = make_pod(name)
        container = {"name": "c", "image": BUSYBOX, "image_pull_policy": "IfNotPresent", "command": PROGRAM, **fields}
        spec = changed(
            made.spec,
            host_network=host_network,
            restart_policy="Always",
            termination_grace_period_seconds=3,
            containers=(Container(**container),),
        )
        self.server.put(changed(made, spec=spec))

    def status(self, name: str) -> PodStatus:
        return self.server.status(name)

    def is_up(self, name: str, restarts: int = 0) -> bool:
        """Its container runs, after at least so many restarts."""
        status = self.status(name)
        up = [each for each in status.container_statuses if each.state.running and each.restart_count >= restarts]
        return status.phase == "Running" and bool(up)

    async def seen(self, name: str) -> ObservedPod:
        return await self.direct.observe(f"uid-{name}")

    async def up(self, name: str, *, restarts: int = 0, seconds: float = PATIENCE) -> ObservedPod:
        """Runs, exactly once: the API server and the runtime agree on that."""
        async with asyncio.timeout(seconds):
            while True:
                await until(lambda: self.is_up(name, restarts))
                seen = await self.seen(name)
                running = [each for each in seen.containers if each.state is State.RUNNING]
                ready = [each for each in seen.sandboxes if each.ready]
                assert max(len(running), len(ready)) <= 1, seen
                if running and ready and running[0].attempt >= restarts:
                    return seen
                await asyncio.sleep(0.1)

    async def end(self, pod: ObservedPod) -> None:
        """Its program ends by itself."""
        running = next(each.id for each in pod.containers if each.state is State.RUNNING)
        await self.direct.exec_sync(running, ("kill", "-TERM", "1"), 10.0)

    async def delete(self, name: str) -> None:
        """Goes, from the runtime and from the API server."""
        self.server.ask_to_delete(name)
        await until(lambda: ("default", name) not in self.server.pods)
        await until(lambda: f"uid-{name}" not in self.agent.workers.workers)
        assert (await self.seen(name)).is_gone

    def told(self, name: str) -> set[str]:
        return {*self.server.reasons[name], *self.events.reasons(name)}

    def push(self, name: str) -> str:
        """An image that only one pod uses. -> its name"""
        image = make_image(f"docker.io/faults/{name}:1", self.containerd.layer)
        self.containerd.registry.push(image, f"faults/{name}", "1")
        return image.name


@asynccontextmanager
async def running_node(containerd: Containerd, folder: Path) -> AsyncIterator[Node]:
    """An agent on a bad line; at the end it is gone."""
    server, events, node = Server(), Events(), make_node()
    machine = NodeInfo(
        facts=NodeFacts(host_ips=("192.0.2.1",), runtime_name="containerd"), log_root=str(folder / "logs")
    )
    async with cri_proxy(containerd.endpoint, folder / "proxy.sock") as proxy:
        runtime = CriRuntime(proxy.endpoint, deadline=DEADLINE)
        async with asyncio.TaskGroup() as tasks:
            outside = Dependencies(
                sources={API_SOURCE: server.source},
                runtime=runtime,
                host=LocalHost(PodDirs(str(folder / "state"), str(folder / "logs")), memory=1 << 30),
                recorder=events,
                journal=Journal(),
                node=lambda: node,
                node_info=lambda: machine,
                api=server,
                api_node=lambda: node,
                checkpoint=RememberedPods(),
            )
            agent = Agent(tasks, outside)
            work = agent.start()
            around = Node(containerd, proxy, agent, server, events)
            try:
                yield around
            finally:
                for task in (*work, *agent.worker_tasks()):
                    task.cancel()
        await runtime.close()
        await around.direct.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    async with running_node(containerd, tmp_path_factory.mktemp("faults")) as running:
        yield running


async def test_what_hangs_for_one_pod_holds_up_no_other(node: Node) -> None:
    node.create("steady")
    steady = await node.up("steady")
    for method in ("PodSandboxStatus", "ContainerStatus"):
        node.proxy.spoil(method, Kind.HANG, about="stuck", left=None)
    hanging = node.proxy.spoil("RunPodSandbox", Kind.HANG, about="waiting", left=None)
    node.create("stuck")
    await until(lambda: "PodSandboxStatus" in node.proxy.open)
    node.create("waiting")
    await until(lambda: hanging.hits)
    node.create("free")
    await node.up("free")
    await node.end(steady)
    await node.up("steady", restarts=1)
    assert hanging.hits == 1  # all that while the first call was still waiting for its answer
    await until(lambda: hanging.hits > 1)
    assert node.proxy.open.count("RunPodSandbox") == 1  # it was given up before it was tried again
    node.proxy.mend()
    node.proxy.cut()  # what hangs is given up at once
    await asyncio.gather(*(node.up(name) for name in ("stuck", "waiting")))
    await asyncio.gather(*(node.delete(name) for name in ("stuck", "waiting", "free", "steady")))


async def test_deaths_are_seen_without_the_runtimes_events_and_events_are_heard_again(node: Node) -> None:
    await until(lambda: "Subscribe" in node.proxy.open)
    node.create("mortal")
    seen = await node.up("mortal")
    missing = [
        node.proxy.spoil(method, Kind.BEFORE, left=None, code=grpc.StatusCode.UNIMPLEMENTED)
        for method in ("Subscribe", "GetContainerEvents")
    ]
    node.proxy.cut()
    await until(lambda: "Subscribe" not in node.proxy.open)
    await node.end(seen)
    seen = await node.up("mortal", restarts=1, seconds=6.0)
    node.proxy.mend(*missing)
    await until(lambda: "Subscribe" in node.proxy.open)
    await node.end(seen)  # perhaps before anybody listens
    await until(lambda: "CrashLoopBackOff" in node.told("mortal"), 6.0)  # it ended twice: this time it has to wait
    await node.delete("mortal")


@pytest.mark.parametrize(
    ("method", "kind"), [("Status", Kind.BEFORE), ("ListPodSandbox", Kind.HANG), ("ListContainers", Kind.CUT)]
)
async def test_a_runtime_that_does_not_answer_is_told_of_until_it_does(method: str, kind: Kind, node: Node) -> None:
    fault = node.proxy.spoil(method, kind, left=None)
    node.proxy.cut()  # without events, the next look comes soon
    await until(lambda: node.agent.pleg.trouble)
    node.proxy.mend(fault)
    await until(lambda: not node.agent.pleg.trouble)


@pytest.mark.parametrize("kind", [Kind.BEFORE, Kind.AFTER, Kind.HANG, Kind.CUT])
async def test_a_runtime_that_does_not_say_who_it_is_may_be_asked_again(kind: Kind, node: Node) -> None:
    runtime = CriRuntime(node.proxy.endpoint, deadline=0.5)
    node.proxy.spoil("Version", kind)
    with pytest.raises(Retry):
        await runtime.version()
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(Retry):
                assert (await runtime.version()).name == "containerd"
                break
            await asyncio.sleep(0.1)
    await runtime.close()


# --- the stories


class Story:
    """One pod that has trouble with one call as it starts, with another as it restarts, with a third as it stops."""

    def __init__(self, node: Node, kind: Kind, starting: str, restarting: str, stopping: str) -> None:
        self.kind, self.starting, self.restarting, self.stopping = kind, starting, restarting, stopping
        self.name = story_name(starting, kind)
        self.node = node
        self.told: set[str] = set()
        """What people knew when it came up for the first time."""
        self.came_up = asyncio.Event()

    async def tell(self) -> None:
        node, name = self.node, self.name
        trouble = self._spoil(self.starting, left=2 if self.starting == "RunPodSandbox" else 1)
        node.create(name, **await self._container())
        if self.kind is Kind.HANG and self.starting in ENDLESS:
            await until(lambda: trouble.hits)
            self._note()
            await node.delete(name)
            return
        first = await node.up(name)
        self._note()
        assert trouble.hits
        if self.kind is Kind.AFTER and self.starting in ONCE:
            assert node.proxy.count(self.starting, name) == 1
            assert first.containers[0].attempt == 0
        if self.restarting:
            trouble = self._spoil(self.restarting)
            await node.end(first)
            await node.up(name, restarts=first.containers[0].attempt + 1)
            assert trouble.hits
        trouble = self._spoil(self.stopping)
        await node.delete(name)
        assert trouble.hits

    def _note(self) -> None:
        self.told = self.node.told(self.name)
        self.came_up.set()

    def _spoil(self, method: str, left: int = 1) -> Fault:
        code = grpc.StatusCode.UNAVAILABLE if self.kind is Kind.AFTER else grpc.StatusCode.UNKNOWN
        # An exec that is cut off at the wrong moment makes containerd's shim hang for half a minute.
        seconds = 0.0 if method == "ExecSync" else 0.03
        return self.node.proxy.spoil(method, self.kind, about=self.name, left=left, code=code, seconds=seconds)

    async def _container(self) -> dict[str, Any]:
        hook = LifecycleHandler(exec=ExecAction(command=("true",)))
        fields: dict[str, Any] = {}
        if "ExecSync" in (self.starting, self.stopping):
            fields["lifecycle"] = Lifecycle(
                post_start=hook if self.starting == "ExecSync" else None,
                pre_stop=hook if self.stopping == "ExecSync" else None,
            )
        if self.starting in ("ImageStatus", "PullImage"):
            fields["image"] = await asyncio.to_thread(self.node.push, self.name)
        return fields


async def unseen(node: Node) -> None:
    trouble = node.proxy.spoil("StartContainer", Kind.BEFORE, about="unseen", left=None)
    node.create("unseen")
    await until(lambda: trouble.hits)
    container = (await node.seen("unseen")).containers[0]
    await asyncio.to_thread(node.containerd.ctr, "tasks", "start", "--detach", container.id)
    assert (await node.seen("unseen")).containers[-1].state is State.CREATED
    await node.delete("unseen")
    assert container.id not in await asyncio.to_thread(node.containerd.ctr, "tasks", "ls", "--quiet")


async def slow(node: Node) -> None:
    methods = {*STARTING, *STOPPING}
    faults = [node.proxy.spoil(method, Kind.DELAY, about="slow", left=None, seconds=0.15) for method in methods]
    hook = LifecycleHandler(exec=ExecAction(command=("true",)))
    image = await asyncio.to_thread(node.push, "slow")
    node.create("slow", image=image, lifecycle=Lifecycle(post_start=hook, pre_stop=hook))
    seen = await node.up("slow")
    assert seen.containers[0].attempt == 0
    await node.delete("slow")
    assert all(fault.hits for fault in faults)
    assert not [reason for reason in node.told("slow") if "Fail" in reason or "Err" in reason]


async def halfway(node: Node, seconds: float) -> None:
    name = f"halfway-{int(seconds * 1000)}"
    fault = node.proxy.spoil("RunPodSandbox", Kind.CUT, about=name, seconds=seconds)
    node.create(name, host_network=False)
    await node.up(name)
    assert fault.hits
    await node.delete(name)


KINDS: Final = (Kind.BEFORE, Kind.AFTER, Kind.HANG)
CASES: Final = [
    (kind, starting, "" if starting == "ExecSync" else RESTARTING[number % 5], STOPPING[number % 5])
    for kind in KINDS
    for number, starting in enumerate(STARTING)
]
CUTS: Final = [(Kind.CUT, starting, "", STOPPING[number % 5]) for number, starting in enumerate(STARTING)]
HALFWAY: Final = (0.06, 0.12, 0.2)


class Campaign:
    """All stories at once; the cuts, which hit everybody, come when the others have come up once."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.stories = {story.name: story for story in (Story(node, *case) for case in (*CASES, *CUTS))}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        first = [story for story in self.stories.values() if story.kind is not Kind.CUT]
        await self._begin({story.name: story.tell() for story in first})
        await self._begin({"unseen": unseen(self._node), "slow": slow(self._node)})
        await until(lambda: all(story.came_up.is_set() or self.tasks[story.name].done() for story in first))
        await self._begin({story.name: story.tell() for story in self.stories.values() if story not in first})
        await self._begin({f"halfway-{seconds}": halfway(self._node, seconds) for seconds in HALFWAY})

    async def _begin(self, stories: Mapping[str, Coroutine[Any, Any, None]]) -> None:
        for name, story in stories.items():
            self.tasks[name] = asyncio.create_task(story)
            await asyncio.sleep(PACE)

    async def end(self, name: str) -> None:
        """Of one story: it comes, and raises what was wrong."""
        await until(lambda: name in self.tasks)
        await self.tasks[name]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def campaign(node: Node) -> AsyncIterator[Campaign]:
    campaign = Campaign(node)
    running = asyncio.create_task(campaign.run())
    yield campaign
    for task in (running, *campaign.tasks.values()):
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize(("kind", "starting", "restarting", "stopping"), [*CASES, *CUTS])
async def test_a_pod_comes_up_once_and_goes_whatever_call_fails(
    kind: Kind, starting: str, restarting: str, stopping: str, campaign: Campaign
) -> None:
    name = story_name(starting, kind)
    await campaign.end(name)
    told = campaign.stories[name].told
    assert TOLD.get((starting, kind), "Started") in told
    assert kind is Kind.CUT or "CrashLoopBackOff" not in told  # a start that was cut off counts as a crash


async def test_a_program_that_the_runtime_has_lost_sight_of_goes_with_its_pod(campaign: Campaign) -> None:
    """As a start that was cut off can leave it behind: a task, of which containerd's CRI side knows nothing."""
    await campaign.end("unseen")


async def test_a_pod_comes_up_over_a_slow_line(campaign: Campaign) -> None:
    await campaign.end("slow")


@pytest.mark.parametrize("seconds", HALFWAY)
async def test_a_sandbox_whose_maker_was_cut_off_in_the_middle_is_made_again(
    seconds: float, campaign: Campaign
) -> None:
    """Containerd notices, and takes back what it has begun. Until it has done so, the name stays taken."""
    await campaign.end(f"halfway-{seconds}")


async def test_nothing_is_left_in_the_runtime(node: Node) -> None:
    await until(lambda: not node.agent.workers.workers)
    assert await node.direct.pods() == ()

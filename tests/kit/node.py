"""A whole node agent on fakes: scripted sources, a runtime in memory, a host without files. Only time is missing."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from kit.fake_runtime import FakeRuntime
from pykubelet.api.container import Container
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.node import Node, NodeStatus
from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.quantity import parse
from pykubelet.api.rules.pod_kinds import API_SOURCE, FILE_SOURCE
from pykubelet.base.errors import Retry
from pykubelet.node.agent import Agent
from pykubelet.node.dependencies import Dependencies, NodeInfo, ShutdownParts
from pykubelet.node.eviction import EvictionParts
from pykubelet.node.pinning import PinningParts
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.lifecycle.pod_features import PodFeatures
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed
from pykubelet.pod.moments import Journal
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.api import PodApi, PodObjects
from pykubelet.pod.ports.claims import Claims, DeviceHealth
from pykubelet.pod.ports.probing import Asking
from pykubelet.pod.ports.runtime import ContainerMounts
from pykubelet.pod.resize.actions import MemoryUse
from pykubelet.pod.resize.allocation import Allocations
from pykubelet.pod.resize.feasibility import ResizeRules
from pykubelet.pod.stats.stats import StorageStats
from pykubelet.pod.status.pod_status import NodeFacts

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def loop_clock() -> Callable[[], datetime]:
    """A wall clock that goes with the loop's time."""
    loop = asyncio.get_running_loop()
    return lambda: EPOCH + timedelta(seconds=loop.time())


class ScriptedSource:
    """Says what the test says. Keeps the truth, so that a second watch begins with it."""

    def __init__(self) -> None:
        self._truth: dict[str, Pod] = {}
        self._events: asyncio.Queue[Listed | Applied | Gone] = asyncio.Queue()
        self.reachable = asyncio.Event()
        self.reachable.set()

    async def watch(self) -> AsyncGenerator[Listed | Applied | Gone, None]:
        self._events = asyncio.Queue()
        await self.reachable.wait()
        yield Listed(tuple(self._truth.values()))
        while True:
            yield await self._events.get()

    def apply(self, pod: Pod) -> None:
        self._truth[pod.metadata.uid] = pod
        self._events.put_nowait(Applied(pod))

    def remove(self, uid: str) -> None:
        self._truth.pop(uid, None)
        self._events.put_nowait(Gone(uid))


class FakeHost:
    """Folders that exist only in name."""

    def __init__(self) -> None:
        self.folders: set[str] = set()
        self.mounted: set[str] = set()
        self.failures: dict[str, list[Exception]] = {}

    async def _may_fail(self, what: str) -> None:
        await asyncio.sleep(0)
        if self.failures.get(what):
            raise self.failures[what].pop(0)

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        await self._may_fail("set_up")
        self.folders.add(pod.metadata.uid)
        self.mounted.add(pod.metadata.uid)
        return {volume.name: f"/volumes/{volume.name}" for volume in pod.spec.volumes}

    async def mounts(
        self,
        pod: Pod,
        container: Container,
        attempt: int,
        volumes: Mapping[str, str],
        env: tuple[tuple[str, str], ...],
        pod_ips: tuple[str, ...],
    ) -> ContainerMounts:
        await self._may_fail("mounts")
        return ContainerMounts()

    async def id_mappings(self, pod: Pod) -> tuple[IdMapping, ...]:
        return ()

    async def tear_down(self, uid: str) -> None:
        await self._may_fail("tear_down")
        self.mounted.discard(uid)

    async def remove(self, uid: str) -> None:
        await self._may_fail("remove")
        self.folders.discard(uid)

    async def uids(self) -> frozenset[str]:
        return frozenset(self.folders)


class RememberedPods:
    """A checkpoint that needs no disk."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}

    def save(self, pod: Pod) -> None:
        self.pods[pod.metadata.uid] = pod

    def drop(self, uid: str) -> None:
        self.pods.pop(uid, None)


class RememberedAllocations:
    """What is on disk is what was there when somebody waited for it, or when nothing went wrong."""

    def __init__(self) -> None:
        self.on_disk = self._wanted = Allocations()
        self.is_full = False

    def load(self) -> Allocations:
        return self.on_disk

    def save(self, allocations: Allocations) -> None:
        self._wanted = allocations

    async def saved(self) -> None:
        if self.is_full:
            raise Retry("no space left on device")
        self.on_disk = self._wanted

    def settle(self) -> None:
        """A while later."""
        self.on_disk = self._wanted


class Events:
    """A Recorder that remembers."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str, str]] = []
        self.paths: dict[str, set[str]] = {}
        """By reason: the parts of pods that events were about."""
        self.annotations: dict[tuple[str, str], Mapping[str, str]] = {}
        """By pod and reason."""

    def event(
        self,
        pod: Pod,
        kind: str,
        reason: str,
        message: str,
        *,
        field_path: str = "",
        annotations: Mapping[str, str] = {},
    ) -> None:
        self.annotations |= {(pod.metadata.name, reason): annotations}
        self.all.append((pod.metadata.name, reason, message))
        self.paths.setdefault(reason, set()).add(field_path)

    def node_event(self, kind: str, reason: str, message: str) -> None:
        self.all.append(("", reason, message))

    def reasons(self, name: str) -> list[str]:
        return [reason for pod, reason, _ in self.all if pod == name]


def make_node(**allocatable: str) -> Node:
    resources = {"cpu": "8", "memory": "16Gi", "pods": "1000", "ephemeral-storage": "100Gi"} | allocatable
    quantities = {name: parse(text) for name, text in resources.items()}
    return Node(
        metadata=ObjectMeta(name="n1", uid="node-uid", labels={"kubernetes.io/hostname": "n1"}),
        status=NodeStatus(capacity=quantities, allocatable=quantities),
    )


class World:
    """What outlives the agent: the runtime, the host, the sources, the API server."""

    def __init__(self, api: PodApi | None = None) -> None:
        self.features = PodFeatures()
        self.now = loop_clock()
        self.journal = Journal(rule, now=self.now)
        self.runtime = FakeRuntime(now=self.now, journal=self.journal)
        self.host = FakeHost()
        self.files = ScriptedSource()
        self.pods = ScriptedSource()
        self.events = Events()
        self.node = make_node()
        self.is_registered = True
        self.api = api
        self.checkpoint = RememberedPods()
        self.objects: PodObjects | None = None
        self.asking: Asking | None = None
        self.claims: Claims | None = None
        self.device_health: DeviceHealth | None = None
        self.stats: StorageStats | None = None
        self.shutdown: ShutdownParts | None = None
        self.eviction: EvictionParts | None = None
        self.allocations = RememberedAllocations()
        self.resize_rules = ResizeRules()
        self.pinning: Callable[[], PinningParts] | None = None
        """Made for each agent."""
        self.memory_use = MemoryUse(pod=1 << 20, containers={"c": 1 << 20})

    async def _memory_use(self, pod: ObservedPod) -> MemoryUse:
        return self.memory_use

    def outside(self) -> Dependencies:
        machine = NodeInfo(facts=NodeFacts(host_ips=("192.0.2.1",), runtime_name="fake"), memory=16 << 30)
        return Dependencies(
            features=self.features,
            sources={FILE_SOURCE: self.files, API_SOURCE: self.pods},
            runtime=self.runtime,
            host=self.host,
            recorder=self.events,
            journal=self.journal,
            node=lambda: self.node,
            node_info=lambda: machine,
            api=self.api,
            objects=self.objects,
            asking=self.asking,
            claims=self.claims,
            device_health=self.device_health,
            stats=self.stats,
            eviction=self.eviction,
            pinning=self.pinning() if self.pinning is not None else None,
            api_node=lambda: self.node if self.is_registered else None,
            memory_use=self._memory_use,
            allocations=self.allocations,
            resize_rules=self.resize_rules,
            shutdown=self.shutdown,
            checkpoint=self.checkpoint,
            restored=tuple(self.checkpoint.pods.values()),
            now=self.now,
        )

    @asynccontextmanager
    async def agent(self) -> AsyncIterator["Running"]:
        """Start the agent; at the end it is killed, and the world stays as it is."""
        tasks = asyncio.TaskGroup()
        async with tasks:
            agent = Agent(tasks, self.outside())
            agent.start()
            try:
                yield Running(agent)
            finally:
                for task in list(tasks._tasks):
                    task.cancel()


class Running:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def status(self, uid: str) -> PodStatus:
        return self.agent.statuses.get(uid) or PodStatus()

    def phase(self, uid: str) -> str:
        return self.status(uid).phase

    def waiting(self, uid: str, container: str = "c") -> str:
        status = self.status(uid)
        for each in (*status.init_container_statuses, *status.container_statuses):
            if each.name == container and each.state.waiting is not None:
                return each.state.waiting.reason
        return ""

    @property
    def idle(self) -> bool:
        return not self.agent.workers.workers

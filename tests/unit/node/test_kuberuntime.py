"""Doing what the plan says: what the runtime is told, and what happens when a runtime class is not there."""

from kit.fake_runtime import FakeRuntime
from kit.node import Events, FakeHost, loop_clock
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.api.volumes import EmptyDirVolumeSource, Volume
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.node.dependencies import Dependencies, NodeInfo
from pykubelet.node.kuberuntime import KubeRuntime, PodSetup
from pykubelet.node.pod_killer import PodKiller
from pykubelet.node.resizes import PodResizes
from pykubelet.pod.container.dns import DnsSettings
from pykubelet.pod.lifecycle.plan import plan
from pykubelet.pod.lifecycle.probe_results import ProbeResults
from pykubelet.pod.moments import Journal
from pykubelet.pod.observed import ObservedSandbox
from pykubelet.pod.ports.runtime import ContainerConfig, SandboxConfig


class Listening(FakeRuntime):
    def __init__(self) -> None:
        super().__init__()
        self.handlers: list[str] = []

    async def run_sandbox(self, config: SandboxConfig) -> ObservedSandbox:
        self.handlers.append(config.runtime_handler)
        return await super().run_sandbox(config)

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> str:
        assert config.sandbox is not None
        self.handlers.append(config.sandbox.runtime_handler)
        return await super().create_container(sandbox_id, config)


class Classes:
    def __init__(self, **handlers: str) -> None:
        self.handlers = handlers
        self.fault: PykubeletError | None = None

    async def handler(self, name: str) -> str:
        if self.fault is not None:
            raise self.fault
        if name not in self.handlers:
            raise NotFound(f'runtimeclass.node.k8s.io "{name}" not found')
        return self.handlers[name]


class Node:
    def __init__(
        self,
        classes: Classes | None,
        class_name: str | None = "sandboxed",
        *,
        refuse_unenforced: bool = False,
        domain: str = "",
    ) -> None:
        now = loop_clock()
        self.runtime = Listening()
        self.events = Events()
        outside = Dependencies(
            sources={},
            runtime=self.runtime,
            host=FakeHost(),
            recorder=self.events,
            journal=Journal(),
            node=lambda: None,
            node_info=lambda: NodeInfo(dns=DnsSettings(cluster_domain=domain)),
            classes=classes,
            refuse_unenforced=refuse_unenforced,
            now=now,
        )
        self.kuberuntime = KubeRuntime(outside, PodKiller(outside), PodResizes(None, self.events, Journal(), now=now))
        pod = make_pod("web")
        self.pod = changed(pod, spec=changed(pod.spec, runtime_class_name=class_name, restart_policy="Always"))

    async def sync(self) -> str:
        """-> why it did not work"""
        observed = self.runtime.seen(self.pod.metadata.uid)
        try:
            await self.kuberuntime.act(self.pod, observed, plan(self.pod, observed, ProbeResults()), PodSetup())
        except PykubeletError as error:
            return str(error)
        return ""


@virtual_time
async def test_sandbox_and_containers_are_told_the_handler_of_the_class() -> None:
    node = Node(Classes(sandboxed="runsc"))
    assert await node.sync() == ""
    assert node.runtime.handlers == ["runsc", "runsc"]


@virtual_time
async def test_a_pod_without_a_class_has_the_default_and_needs_no_server() -> None:
    for name in (None, ""):
        node = Node(None, name)
        assert await node.sync() == ""
        assert node.runtime.handlers == ["", ""]


@virtual_time
async def test_a_class_that_is_not_there_is_waited_for() -> None:
    classes = Classes()
    node = Node(classes)
    said = 'runtimeclass.node.k8s.io "sandboxed" not found'
    assert await node.sync() == said
    assert node.events.all == [("web", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {said}")]
    assert node.runtime.is_empty
    classes.handlers["sandboxed"] = "runsc"
    assert await node.sync() == ""
    assert node.runtime.running() == ["web/c"]


@virtual_time
async def test_without_a_server_a_class_means_nothing_and_the_pod_says_so() -> None:
    node = Node(None)
    said = await node.sync()
    assert said == "runtime class sandboxed is not known: this node has no API server; leave runtimeClassName out"
    assert node.events.all == [("web", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {said}")]


@virtual_time
async def test_a_container_is_restarted_although_its_class_cannot_be_looked_up_any_more() -> None:
    for fault in (NotFound("gone"), Retry("away"), Invalid("forbidden")):
        classes = Classes(sandboxed="runsc")
        node = Node(classes)
        await node.sync()
        node.runtime.exit(node.pod.metadata.uid, "c", 1)
        classes.fault = fault
        assert await node.sync() == ""
        assert node.runtime.running() == ["web/c"]
        assert node.runtime.handlers == ["runsc", "runsc", ""]


UNENFORCED = "Not enforced on this node: memory limits of c: for a reason; sizeLimit of emptyDir cache"


def with_limits(*, refuse: bool) -> Node:
    """A node on a runtime that cannot limit memory, and a pod that asks for it."""

    async def unenforced(pod: Pod) -> tuple[str, ...]:
        return ("memory limits of c: for a reason",)

    node = Node(None, None, refuse_unenforced=refuse)
    node.runtime.capabilities = changed(node.runtime.capabilities, unenforced=unenforced)
    volume = Volume(name="cache", empty_dir=EmptyDirVolumeSource(size_limit=parse("1Gi")))
    node.pod = changed(node.pod, spec=changed(node.pod.spec, volumes=(volume,)))
    return node


@virtual_time
async def test_what_is_not_enforced_is_told_once_for_the_pod() -> None:
    node = with_limits(refuse=False)
    assert await node.sync() == ""
    assert await node.sync() == ""
    assert [event for event in node.events.all if event[1] == "NotEnforced"] == [("web", "NotEnforced", UNENFORCED)]
    assert node.runtime.running() == ["web/c"]


@virtual_time
async def test_or_the_pod_is_refused_where_that_is_wanted() -> None:
    node = with_limits(refuse=True)
    assert await node.sync() == ""
    said = f"Error: {UNENFORCED}; this node refuses such pods (--refuse-unenforced)"
    assert ("web", "Failed", said) in node.events.all
    assert not [event for event in node.events.all if event[1] == "NotEnforced"]
    assert node.runtime.running() == []


@virtual_time
async def test_ports_that_a_pod_may_not_get_are_told_once_and_it_runs() -> None:
    node = Node(None, None, refuse_unenforced=True)
    node.runtime.capabilities = changed(node.runtime.capabilities, unavailable_ports=lambda pod: "port 80 is taken")
    assert await node.sync() == ""
    assert await node.sync() == ""
    assert [each for each in node.events.all if "port 80" in each[2]] == [
        ("web", "PortsUnavailable", "port 80 is taken")
    ]
    assert node.runtime.running() == ["web/c"]


@virtual_time
async def test_a_pod_that_gets_all_that_it_asks_for_is_not_spoken_of() -> None:
    node = Node(None, None, refuse_unenforced=True)
    assert await node.sync() == ""
    assert not [event for event in node.events.all if event[1] == "NotEnforced"]


@virtual_time
async def test_a_pod_hears_that_the_cluster_has_no_name_server() -> None:
    node = Node(None, None, domain="cluster.local")
    assert await node.sync() == ""
    assert next(reason for _, reason, _ in node.events.all) == "MissingClusterDNS"

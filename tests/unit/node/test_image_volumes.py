"""Images as volumes: pulled before the containers that mount them, with their own policy, and told of as upstream."""

import pytest

from kit.fake_runtime import FakeRuntime
from kit.node import Events, FakeHost, loop_clock
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from pykubelet.api.container import Container, VolumeMount
from pykubelet.api.struct import changed
from pykubelet.api.volumes import ImageVolumeSource, Volume
from pykubelet.base.errors import Invalid
from pykubelet.node.dependencies import Dependencies, NodeInfo
from pykubelet.node.kuberuntime import Acted, KubeRuntime, PodSetup
from pykubelet.node.pod_killer import PodKiller
from pykubelet.node.resizes import PodResizes
from pykubelet.pod.container.mounts import container_mounts
from pykubelet.pod.lifecycle.plan import plan
from pykubelet.pod.lifecycle.probe_results import ProbeResults
from pykubelet.pod.moments import ContainerCreated, Journal, Moment, StartFailed
from pykubelet.pod.ports.runtime import Capabilities, ContainerConfig, ContainerMounts, Image, Mount
from pykubelet.server.metrics.metrics import Metrics
from pykubelet.web.exposition import text

MODEL = "r.example/model:1"


class Runtime(FakeRuntime):
    def __init__(self) -> None:
        super().__init__()
        self.mounted: dict[str, tuple[Mount, ...]] = {}
        self.refusal = ""

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> str:
        if self.refusal:
            raise Invalid(self.refusal)
        self.mounted[config.name] = config.mounts
        return await super().create_container(sandbox_id, config)


class Host(FakeHost):
    async def mounts(self, pod, container, attempt, volumes, env, pod_ips) -> ContainerMounts:  # type: ignore[no-untyped-def]
        made = container_mounts(pod, container, {"m": ""}, sub_paths={}, etc_hosts=None, termination_log=None)
        return ContainerMounts(mounts=made)


class Node:
    def __init__(self, policy: str, *names: str) -> None:
        now = loop_clock()
        self.runtime, self.events, self.journal = Runtime(), Events(), Journal()
        self.moments: list[Moment] = []
        self.journal.read_by(lambda noted: self.moments.append(noted.moment))
        self.used: list[str] = []
        outside = Dependencies(
            sources={},
            runtime=self.runtime,
            host=Host(),
            recorder=self.events,
            journal=self.journal,
            node=lambda: None,
            node_info=NodeInfo,
            image_used=self.used.append,
            now=now,
        )
        self.kuberuntime = KubeRuntime(outside, PodKiller(outside), PodResizes(None, self.events, Journal(), now=now))
        pod = make_pod("web")
        containers = tuple(
            Container(name=name, image="r.example/app:1", image_pull_policy="IfNotPresent", volume_mounts=_MOUNT)
            for name in names or ("c",)
        )
        source = ImageVolumeSource(reference=MODEL, pull_policy=policy)
        self.pod = changed(pod, spec=changed(pod.spec, containers=containers, volumes=(Volume("m", image=source),)))

    async def sync(self) -> Acted:
        observed = self.runtime.seen(self.pod.metadata.uid)
        return await self.kuberuntime.act(self.pod, observed, plan(self.pod, observed, ProbeResults()), PodSetup())

    @property
    def pulls(self) -> list[str]:
        return [name for call, name in self.runtime.calls if call == "pull_image"]


_MOUNT = (VolumeMount(name="m", mount_path="/model"),)


@virtual_time
async def test_an_image_is_pulled_once_for_all_that_mount_it_and_kept_for_them() -> None:
    node = Node("Always", "a", "b")
    assert (await node.sync()).waiting == {}
    assert node.pulls == [MODEL, "r.example/app:1"]
    model = Mount(image=MODEL, image_id=f"sha256:{MODEL}", container_path="/model", read_only=True)
    assert node.runtime.mounted == {"a": (model,), "b": (model,)}
    assert node.used == [f"sha256:{MODEL}", "sha256:r.example/app:1", "sha256:r.example/app:1"]
    assert [each.image_volumes for each in node.moments if isinstance(each, ContainerCreated)] == [1, 1]


TABLE = [  # policy, is here, can be pulled -> pulls, why the container waits, what is told
    ("Always", True, True, 1, "", "Pulled"),
    ("Always", True, False, 1, "ErrImagePull", "Failed"),
    ("IfNotPresent", True, False, 0, "", "Pulled"),
    ("IfNotPresent", False, True, 1, "", "Pulled"),
    ("IfNotPresent", False, False, 1, "ErrImagePull", "Failed"),
    ("Never", True, False, 0, "", "Pulled"),
    ("Never", False, True, 0, "ErrImageNeverPull", "ErrImageNeverPull"),
]


@pytest.mark.parametrize(("policy", "is_here", "can_be_pulled", "pulls", "reason", "told"), TABLE)
@virtual_time
async def test_the_policy_decides(
    policy: str, is_here: bool, can_be_pulled: bool, pulls: int, reason: str, told: str
) -> None:
    node = Node(policy)
    if is_here:
        node.runtime._images[MODEL] = Image(id=f"sha256:{MODEL}", names=(MODEL,))
    if not can_be_pulled:
        node.runtime.missing_images.add(MODEL)
    acted = await node.sync()
    assert node.pulls.count(MODEL) == pulls
    assert [why.reason for why in acted.waiting.values()] == ([reason] if reason else [])
    about = [(kind, message) for _, kind, message in node.events.all if MODEL in message]
    assert about[-1][0] == told, about
    assert bool(node.runtime.running()) is not bool(reason)
    assert (("web", "Failed", f"Error: {reason}") in node.events.all) is bool(reason)


@virtual_time
async def test_who_cannot_have_an_image_waits_longer_and_longer_and_the_others_run() -> None:
    node = Node("IfNotPresent", "a", "b")
    spec = node.pod.spec
    first, second = spec.containers
    node.pod = changed(node.pod, spec=changed(spec, containers=(first, changed(second, volume_mounts=()))))
    node.runtime.missing_images.add(MODEL)
    assert [(name, why.reason) for name, why in (await node.sync()).waiting.items()] == [("a", "ErrImagePull")]
    assert node.runtime.running() == ["web/b"]
    acted = await node.sync()
    assert acted.waiting["a"].reason == "ImagePullBackOff"
    assert f'Back-off pulling image "{MODEL}": ErrImagePull:' in acted.waiting["a"].message
    assert node.pulls.count(MODEL) == 1


@virtual_time
async def test_nothing_stands_in_for_an_image_that_is_a_volume() -> None:
    node = Node("IfNotPresent")

    async def stand_in(container: Container) -> Image:
        return Image(id="machine", built_in=True)

    node.runtime.capabilities = Capabilities(stand_in=stand_in)
    node.runtime.missing_images.add(MODEL)
    assert [why.reason for why in (await node.sync()).waiting.values()] == ["ErrImagePull"]


@virtual_time
async def test_mounts_and_failures_are_counted() -> None:
    node = Node("IfNotPresent")
    metrics = Metrics("n1")
    node.journal.read_by(metrics.read)
    node.runtime.refusal = "ImageVolumeMountFailed: containerd 1.6.20 cannot mount images as volumes"
    acted = await node.sync()
    assert acted.waiting["c"].reason == "CreateContainerError"
    assert any(isinstance(each, StartFailed) for each in node.moments)
    node.runtime.refusal = ""
    await node.sync()
    lines = text(metrics._families()).decode().splitlines()
    names = ("requested", "mounted_succeed", "mounted_errors")
    told = [next(line for line in lines if line.startswith(f"kubelet_image_volume_{name}_total")) for name in names]
    assert [line.split()[-1] for line in told] == ["2", "1", "1"]

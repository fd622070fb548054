# ruff: noqa: ASYNC240 - tests may block
"""What pods use, on a real containerd and this machine's own kernel."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kit.containerd import Containerd
from kit.cri import CriOutside, cleared
from pykubelet.api.container import Container
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.host.dirs import PodDirs
from pykubelet.host.stats import StatsReader, StatsSettings
from pykubelet.pod.container.labels import container_annotations, container_labels
from pykubelet.pod.container.sandbox_config import sandbox_config
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.ports.runtime import ContainerConfig, Limits
from pykubelet.pod.stats.stats import PodReading, Reading
from pykubelet.pod.stats.summary import summary
from pykubelet.runtime.cri.stats import CriPlaces
from pykubelet.server.metrics import cadvisor, resource_metrics
from pykubelet.web.grpc_channel import Channel

UID = "5d9a4b1e-0000-4000-8000-00000000beef"
MI = 2**20
BUSY = "i=0; while :; do i=$((i+1)); done"
WRITER = f"dd if=/dev/zero of=/file bs=1M count=3 2>/dev/null; echo written; {BUSY}"
SLEEPER = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"


class Node:
    def __init__(self, containerd: Containerd, root: Path) -> None:
        self.outside = CriOutside(containerd)
        self.runtime = self.outside.runtime
        self.dirs = PodDirs(str(root / "kubelet"), str(root / "logs"))
        self.group = f"/pykubelet-stats-{secrets.token_hex(4)}"
        self.channel = Channel(containerd.endpoint)
        settings = StatsSettings(fresh=0.0, pods_group=self.group)
        self.reader = StatsReader(self.runtime.pods, CriPlaces(self.channel), self.dirs, settings=settings)

    async def start(self, scripts: dict[str, str], *, own_group: bool = True, limits: Limits | None = None) -> None:
        """A pod with these containers."""
        containers = tuple(Container(name=name, image="busybox:1.36") for name in scripts)
        meta = ObjectMeta(name="web", namespace="default", uid=UID)
        pod = Pod(metadata=meta, spec=PodSpec(containers=containers))
        parent = f"{self.group}/pod{UID}" if own_group else ""
        sandbox = sandbox_config(pod, 0, log_root=self.dirs.log_root, cgroup_parent=parent)
        sandbox_id = (await self.runtime.run_sandbox(sandbox)).id
        for container in containers:
            config = ContainerConfig(
                name=container.name,
                image="busybox:1.36",
                command=("sh", "-c", scripts[container.name]),
                labels=container_labels(pod, container),
                annotations=container_annotations(pod, container, 0),
                limits=limits or Limits(),
                log_path=f"{container.name}/0.log",
                sandbox=sandbox,
            )
            await self.runtime.start_container(await self.runtime.create_container(sandbox_id, config))

    async def read_until(self, condition: Callable[[PodReading], object]) -> Reading:
        """Readings until one of them is as wished: others keep this machine busy, too."""
        async with asyncio.timeout(40):
            while True:
                reading = await self.reader.read()
                if reading.pods and condition(reading.pods[0]):
                    return reading
                await asyncio.sleep(0.3)

    async def close(self) -> None:
        await self.reader.close()
        await self.channel.close()
        await cleared(self.runtime)
        for top in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()):
            for folder in (f"{top}{self.group}/pod{UID}", f"{top}{self.group}"):
                with suppress(OSError):
                    os.rmdir(folder)


@pytest.fixture
async def node(containerd: Containerd, tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(containerd, tmp_path)
    yield node
    await node.close()


async def test_a_busy_pod_is_seen_with_all_that_it_uses(node: Node) -> None:
    await node.start({"busy": WRITER, "idle": SLEEPER}, limits=Limits(memory=64 * MI, cpu_quota=50_000, cpu_shares=100))

    def is_seen(pod: PodReading) -> bool:
        busy = next(each for each in pod.containers if each.name == "busy")
        written = busy.root is not None and (busy.root.used or 0) >= 3 * MI
        return written and busy.usage.cpu is not None and bool(busy.usage.cpu.rate) and busy.usage.cpu.periods > 0

    reading = await node.read_until(is_seen)
    (pod,) = reading.pods
    assert [each.name for each in pod.containers] == ["busy", "idle"]
    busy, idle = pod.containers
    assert busy.usage.cpu is not None
    assert idle.usage.cpu is not None
    assert busy.usage.cpu.total > idle.usage.cpu.total
    assert busy.usage.cpu.quota == 50_000
    assert busy.usage.memory is not None
    assert busy.usage.memory.limit == 64 * MI
    assert 0 < busy.usage.memory.working_set <= busy.usage.memory.usage <= 64 * MI
    assert (busy.usage.processes, idle.usage.processes) == (1, 2)
    assert busy.logs is not None
    assert busy.logs.inodes_used == 1
    assert busy.group == f"{node.group}/pod{UID}/{busy.id}"

    assert pod.group == f"{node.group}/pod{UID}"
    assert pod.usage.cpu is not None
    assert pod.usage.cpu.total >= busy.usage.cpu.total
    assert pod.interfaces is not None
    assert [each.name for each in pod.interfaces] == ["eth0"]
    assert pod.sandbox is not None
    assert "pause" in pod.sandbox.image
    assert pod.ephemeral is not None
    assert pod.ephemeral.used is not None
    assert pod.ephemeral.used >= 3 * MI
    assert reading.node.system["pods"].group == node.group
    assert reading.node.images is not None
    assert reading.node.images.used
    assert reading.node.usage.cpu is not None
    assert reading.node.usage.cpu.total > busy.usage.cpu.total


async def test_what_is_seen_is_told_by_every_endpoint(node: Node) -> None:
    await node.start({"c": SLEEPER})
    reading = await node.read_until(lambda pod: pod.containers and pod.containers[0].usage.memory)
    told = summary(reading, "n1")
    assert told["pods"][0]["containers"][0]["memory"]["workingSetBytes"] > 0
    assert told["pods"][0]["network"]["name"] == "eth0"
    text = cadvisor.exposition(reading, MachineFacts(hostname="n1", ips=(), cpus=2, memory=1))
    container = reading.pods[0].containers[0]
    labels = f'container="c",id="{container.group}",image="{container.image}",name="{container.id}"'
    assert f'container_memory_working_set_bytes{{{labels},namespace="default",pod="web"}} ' in text
    assert 'container_network_receive_bytes_total{container=""' in text
    assert 'pod_memory_working_set_bytes{namespace="default",pod="web"} ' in resource_metrics.exposition(reading)


async def test_a_pod_without_a_group_of_its_own_is_the_sum_of_its_containers(node: Node) -> None:
    await node.start({"one": SLEEPER, "two": SLEEPER}, own_group=False)
    reading = await node.read_until(lambda pod: len(pod.containers) == 2)
    (pod,) = reading.pods
    assert pod.group == ""
    used = [each.usage.memory for each in pod.containers]
    assert pod.usage.memory is not None
    assert pod.usage.memory.working_set == sum(each.working_set for each in used if each is not None) > 0

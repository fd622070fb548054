"""On a real containerd: logs are rotated under the hands of who writes them, and images go that nobody needs."""

import asyncio
import gzip
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contract.runtime import ended
from kit.containerd import Containerd
from kit.cri import cleared, runtime_on
from kit.oci import make_image
from kit.waiting import eventually
from pykubelet.api.container import Container
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.base.errors import Retry
from pykubelet.base.tasks import every, supervise
from pykubelet.host.logs import PodLogs
from pykubelet.node.image_gc import ImageGc
from pykubelet.node.log_rotation import LogRotation, RotationSettings
from pykubelet.pod.container.labels import container_annotations, container_labels
from pykubelet.pod.container.sandbox_config import sandbox_config
from pykubelet.pod.images.image_gc import ImageGcSettings
from pykubelet.pod.observed import State
from pykubelet.pod.ports.runtime import ContainerConfig
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.web.grpc_channel import Channel

UID = "uid-web"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
PAUSE = "pykubelet.test/pause:1"
BUSYBOX = "docker.io/library/busybox:1.36"


class Node:
    def __init__(self, containerd: Containerd, folder: Path) -> None:
        self.containerd = containerd
        self.runtime = runtime_on(containerd)
        self.links = folder / "containers"
        self.root = folder / "pods"
        self.logs = PodLogs(str(self.root), links=str(self.links))
        self._turns = 0

    def now(self) -> datetime:
        """Two rotations never have the same second."""
        self._turns += 1
        return BEGAN + timedelta(seconds=self._turns)

    def rotation(self, **settings: Any) -> LogRotation:
        return LogRotation(self.runtime, self.logs, RotationSettings(**settings), now=self.now)

    async def start(self, script: str, *, image: str = BUSYBOX, image_id: str = "", name: str = "c") -> str:
        container = Container(name=name, image=image)
        pod = Pod(metadata=ObjectMeta(name="web", namespace="default", uid=UID), spec=PodSpec(containers=(container,)))
        sandboxes = (await self.runtime.observe(UID)).sandboxes
        sandbox = sandbox_config(pod, 0, log_root=str(self.root))
        sandbox_id = sandboxes[0].id if sandboxes else (await self.runtime.run_sandbox(sandbox)).id
        config = ContainerConfig(
            name=name,
            image=image,
            image_id=image_id,
            command=("sh", "-c", script),
            log_path=f"{name}/0.log",
            labels=container_labels(pod, container),
            annotations=container_annotations(pod, container, 0),
            sandbox=sandbox,
        )
        container_id = await self.runtime.create_container(sandbox_id, config)
        await self.runtime.start_container(container_id)
        return container_id

    def files(self) -> list[Path]:
        """Of the container `c`, the oldest first."""
        folder = self.root / f"default_web_{UID}" / "c"
        return sorted(folder.iterdir(), key=lambda path: (path.name == "0.log", path.name))

    def lines(self) -> Iterator[str]:
        """What the program said, put together again: where one file ends and the next begins, a line may be cut."""
        line = ""
        for path in self.files():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for entry in data.decode().splitlines():
                _, _, tag, text = entry.split(" ", 3)
                line += text
                if tag == "F":
                    yield line
                    line = ""

    def has_said(self, text: str) -> bool:
        """Lately: it may have been rotated away since, but not yet packed."""
        try:
            return any(f" {text}\n".encode() in path.read_bytes() for path in self.files()[-2:])
        except FileNotFoundError:  # it is being rotated at this moment
            return False


@pytest.fixture
async def node(containerd: Containerd, tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(containerd, tmp_path)
    yield node
    await cleared(node.runtime)


@asynccontextmanager
async def running(node: Node, rotation: LogRotation) -> AsyncIterator[None]:
    async def turn() -> None:
        async for _ in every(0.2):
            await rotation.turn(await node.runtime.pods())

    task = asyncio.create_task(supervise("logs", turn))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def counting(lines: int) -> str:
    """Says so many numbered lines, with a breath now and then, and waits to be ended."""
    breath = "[ $((i % 200)) -ne 0 ] || usleep 10000"
    return f"i=0; while [ $i -lt {lines} ]; do echo line-$i; i=$((i+1)); {breath}; done; echo done; sleep 1000"


# --- logs


async def test_no_line_is_lost_while_logs_are_rotated(node: Node) -> None:
    async with running(node, node.rotation(max_size=32 << 10, max_files=1000)):
        container_id = await node.start(counting(20_000))
        await eventually(lambda: node.has_said("done"), seconds=50)
    files = node.files()
    assert [*node.lines()] == [*(f"line-{number}" for number in range(20_000)), "done"]
    assert len(files) > 3
    assert {path.suffix for path in files[:-2]} == {".gz"}
    assert os.readlink(node.links / f"web_default_c-{container_id}.log") == str(files[-1])


async def test_there_are_never_more_files_than_people_want(node: Node) -> None:
    rotation = node.rotation(max_size=1, max_files=3)
    await node.start("while :; do echo hello; usleep 20000; done")
    for _ in range(6):
        await eventually(lambda: node.files() and node.files()[-1].stat().st_size)
        await rotation.turn(await node.runtime.pods())
        assert len(node.files()) <= 3
    assert [path.suffix == ".gz" for path in node.files()] == [True, False, False]


async def test_a_log_that_was_moved_and_never_reopened_is_mended_by_the_next_agent(node: Node) -> None:
    await node.start("echo before; while [ ! -e /go ]; do usleep 20000; done; echo after; sleep 1000")
    await eventually(lambda: node.files()[-1].stat().st_size)
    await node.logs.move_away(str(node.files()[-1]), "20260101-000000")
    assert len(node.files()) == 1
    rotation = node.rotation()
    await rotation.turn(await node.runtime.pods())
    (container,) = (await node.runtime.observe(UID)).containers
    await node.runtime.exec_sync(container.id, ("touch", "/go"), 10.0)
    await eventually(lambda: node.files()[-1].stat().st_size)
    assert [path.name for path in node.files()] == ["0.log.20260101-000000", "0.log"]
    assert [*node.lines()] == ["before", "after"]


async def test_the_log_of_a_container_that_ends_meanwhile_is_put_back(node: Node) -> None:
    container_id = await node.start("echo hello")
    await ended(node.runtime, UID, container_id)
    pods = await node.runtime.pods()
    rotation = node.rotation(max_size=1)
    with pytest.raises(Retry):
        await rotation._rotate(container_id, str(node.files()[-1]))
    assert pods[0].containers[0].state is State.EXITED
    assert [path.name for path in node.files()] == ["0.log"]
    assert [*node.lines()] == ["hello"]


# --- images


class Clock:
    def __init__(self) -> None:
        self.time = BEGAN

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
async def images(node: Node) -> AsyncIterator[Node]:
    """A node whose images may go: others find theirs as before."""
    yield node
    await asyncio.to_thread(node.containerd.load_defaults)


async def names(node: Node) -> set[str]:
    return {name for image in await node.runtime.images() for name in image.names if "@" not in name}


async def test_unused_images_go_and_those_stay_that_containers_or_sandboxes_are_made_from(images: Node) -> None:
    node, layer, clock = images, images.containerd.layer, Clock()
    unused, dead, named = (f"pykubelet.test/{name}:1" for name in ("unused", "dead", "named"))
    node.containerd.load(*(make_image(name, layer) for name in (unused, dead, named)))
    pulled = await node.runtime.pull_image(BUSYBOX)  # known by its digest, unlike those that were loaded
    await node.start("sleep 1000", image_id=pulled.id)
    await node.start("sleep 1000", image=named, name="other")
    await ended(node.runtime, UID, await node.start("true", image=dead, name="dead"))
    gc = ImageGc(node.runtime, None, ImageGcSettings(high=0, low=0), now=clock)

    with pytest.raises(Retry, match="only found 0 bytes"):  # all are new to this agent
        await gc.collect(node.runtime.pods)
    assert unused in await names(node)
    clock.time += timedelta(seconds=121)
    with pytest.raises(Retry, match="only"):  # the whole disk cannot be freed
        await gc.collect(node.runtime.pods)
    assert await names(node) == {PAUSE, BUSYBOX, named, dead}
    assert (await node.runtime.observe(UID)).is_running

    for sandbox in (await node.runtime.observe(UID)).sandboxes:
        await node.runtime.remove_sandbox(sandbox.id)
    with pytest.raises(Retry, match="only"):
        await gc.collect(node.runtime.pods)
    assert await names(node) == {PAUSE}
    assert [image.pinned for image in await node.runtime.images()] == [True]


async def test_an_image_that_somebody_elses_container_is_made_from_stays(images: Node) -> None:
    node, clock = images, Clock()
    theirs = "pykubelet.test/theirs:1"
    node.containerd.load(make_image(theirs, node.containerd.layer))
    channel = Channel(node.containerd.endpoint)
    sandbox = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="their", namespace="x", uid="uid-their"))
    sandbox.linux.security_context.namespace_options.network = cri.NODE
    service = "runtime.v1.RuntimeService"
    made = await channel.call(
        f"{service}/RunPodSandbox", cri.RunPodSandboxRequest(config=sandbox), cri.RunPodSandboxResponse
    )
    request = cri.CreateContainerRequest(
        pod_sandbox_id=made.pod_sandbox_id,
        config=cri.ContainerConfig(metadata=cri.ContainerMetadata(name="c"), image=cri.ImageSpec(image=theirs)),
        sandbox_config=sandbox,
    )
    await channel.call(f"{service}/CreateContainer", request, cri.CreateContainerResponse)
    await channel.close()
    gc = ImageGc(node.runtime, None, ImageGcSettings(high=0, low=0), now=clock)
    for _ in range(2):
        with pytest.raises(Retry, match="only"):  # the whole disk cannot be freed
            await gc.collect(node.runtime.pods)
        clock.time += timedelta(seconds=121)
    assert await names(node) == {PAUSE, theirs}


async def test_the_runtime_says_where_its_images_are(node: Node) -> None:
    storage = await node.runtime.image_storage()
    found = os.statvfs(node.containerd.root)
    assert storage is not None
    assert storage.capacity == found.f_blocks * found.f_frsize

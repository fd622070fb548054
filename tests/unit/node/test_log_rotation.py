import asyncio
import gzip
import logging
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from contract.runtime import sandbox_config
from kit.fake_runtime import FakeRuntime
from kit.virtual_time import virtual_time
from pykubelet.base.errors import Invalid, Retry
from pykubelet.base.tasks import supervise
from pykubelet.host.logs import PodLogs
from pykubelet.node.log_rotation import LogRotation, RotationSettings
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State
from pykubelet.pod.ports.runtime import ContainerConfig


class WritingRuntime(FakeRuntime):
    """One whose containers write: each into the file that it has open."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.folder = root / "default_web_uid-web" / "c"
        self.folder.mkdir(parents=True)
        self.open = (self.folder / "0.log").open("ab", buffering=0)

    async def reopen_log(self, container_id: str) -> None:
        await super().reopen_log(container_id)
        self.open.close()
        self.open = (self.folder / "0.log").open("ab", buffering=0)

    async def close(self) -> None:
        self.open.close()


class Node:
    def __init__(self, root: Path, **settings: float) -> None:
        loop, began = asyncio.get_running_loop(), datetime(2026, 1, 1, tzinfo=UTC)
        self.runtime = WritingRuntime(root)
        self.folder = self.runtime.folder
        self.container_id = ""
        self.rotation = LogRotation(
            self.runtime,
            PodLogs(str(root), links=str(root.parent / "links")),
            RotationSettings(**{"max_size": 100, "max_files": 4, **settings}),  # type: ignore[arg-type]
            now=lambda: began + timedelta(seconds=loop.time()),
        )

    def write(self, text: str) -> None:
        self.runtime.open.write(text.encode())

    def files(self) -> list[str]:
        return sorted(os.listdir(self.folder))

    def said(self) -> str:
        """Everything that is in its logs, the oldest first."""
        *names, newest = sorted(self.files(), key=lambda name: (name == "0.log", name))
        texts = [(self.folder / name).read_bytes() for name in (*names, newest)]
        return b"".join(gzip.decompress(each) if each[:2] == b"\x1f\x8b" else each for each in texts).decode()


@asynccontextmanager
async def started(root: Path, **settings: float) -> AsyncIterator[Node]:
    node = Node(root / "pods", **settings)
    sandbox_id = (await node.runtime.run_sandbox(sandbox_config())).id
    node.container_id = await node.runtime.create_container(sandbox_id, ContainerConfig(name="c", image="i"))
    await node.runtime.start_container(node.container_id)
    task = asyncio.create_task(supervise("logs", partial(node.rotation.run, lambda: [node.runtime.seen("uid-web")])))
    await asyncio.sleep(1)
    try:
        yield node
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await node.runtime.close()


@virtual_time
async def test_a_log_that_has_grown_too_large_is_rotated_and_a_small_one_is_not(tmp_path: Path) -> None:
    async with started(tmp_path) as node:
        node.write("x" * 99)
        await asyncio.sleep(10)
        assert node.files() == ["0.log"]
        node.write("y")
        await asyncio.sleep(10)
        assert node.files() == ["0.log", "0.log.20260101-000020"]
        node.write("after")
        assert (node.folder / "0.log").read_text() == "after"


@virtual_time
async def test_older_files_are_packed_and_the_oldest_go(tmp_path: Path) -> None:
    async with started(tmp_path) as node:
        for number in range(6):
            node.write(f"{number}" * 100)
            await asyncio.sleep(10)
        names = node.files()
        assert [name.endswith(".gz") for name in names] == [False, True, True, False]
        assert node.said() == "3" * 100 + "4" * 100 + "5" * 100


@virtual_time
async def test_a_log_that_cannot_be_reopened_is_put_back_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with started(tmp_path) as node:
        node.runtime.failures["reopen_log"] = [Retry("busy"), Retry("busy")]
        node.write("a" * 100)
        await asyncio.sleep(20)
        assert node.files() == ["0.log"]
        assert caplog.text.count("busy") == 1
        node.write("b")
        await asyncio.sleep(10)
        assert node.files() == ["0.log", "0.log.20260101-000030"]
        assert node.said() == "a" * 100 + "b"


@virtual_time
async def test_a_log_that_an_agent_moved_away_before_it_was_killed_is_opened_again(tmp_path: Path) -> None:
    async with started(tmp_path) as node:
        (node.folder / "0.log").rename(node.folder / "0.log.20251231-235959")
        node.write("lost? ")
        await asyncio.sleep(10)
        node.write("no")
        assert node.files() == ["0.log", "0.log.20251231-235959"]
        assert node.said() == "lost? no"


@virtual_time
async def test_an_agent_that_is_stopped_while_it_rotates_loses_nothing(tmp_path: Path) -> None:
    async with started(tmp_path) as node:
        node.runtime.delays["reopen_log"] = 60
        node.write("a" * 100)
        await asyncio.sleep(10)
    assert node.files() == ["0.log.20260101-000010"]


@virtual_time
async def test_what_has_ended_is_not_rotated(tmp_path: Path) -> None:
    async with started(tmp_path) as node:
        node.runtime.exit("uid-web", "c")
        node.write("a" * 1000)
        await asyncio.sleep(30)
        assert node.files() == ["0.log"]


@virtual_time
async def test_nothing_is_rotated_where_the_runtime_does_it_but_links_are_kept(tmp_path: Path) -> None:
    async with started(tmp_path, max_size=-1) as node:
        node.write("a" * 1000)
        await asyncio.sleep(30)
        assert node.files() == ["0.log"]
        assert os.listdir(tmp_path / "links") == [f"web_default_c-{node.container_id}.log"]


@virtual_time
async def test_a_container_that_has_gone_since_it_was_seen_is_nothing_to_complain_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(tmp_path) as node:
        seen = [node.runtime.seen("uid-web")]
        await node.runtime.remove_container(node.container_id)
        (node.folder / "0.log").unlink()
        await node.rotation.turn(seen)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize("fields", [{"max_files": 1}, {"period": 0}])
def test_settings_that_make_no_sense_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(Invalid, match="containerLog"):
        RotationSettings(**fields)


class SlowLogs:
    """Twelve logs, all of them too large."""

    def __init__(self) -> None:
        self.now = self.most = self.moved = 0

    def path(self, namespace: str, pod: str, uid: str, container: str, attempt: int) -> str:
        return f"{pod}/{container}"

    async def sizes(self, paths: Iterable[str]) -> dict[str, int | None]:
        return dict.fromkeys(paths, 1000)

    async def make_room(self, path: str, most: int) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(1)
        self.now -= 1

    async def move_away(self, path: str, stamp: str) -> str:
        self.moved += 1
        return f"{path}.{stamp}"

    async def put_back(self, moved: str, path: str) -> None: ...

    async def tidy(self, pods: Iterable[ObservedPod]) -> None: ...


@pytest.mark.parametrize("workers", [1, 3, 20])
@virtual_time
async def test_no_more_logs_are_rotated_at_a_time_than_people_allow(workers: int) -> None:
    logs, runtime = SlowLogs(), FakeRuntime()
    containers = tuple(
        ObservedContainer(id=f"c{number}", name=f"c{number}", state=State.RUNNING, sandbox_id="s")
        for number in range(12)
    )
    pod = ObservedPod(uid="u", name="web", namespace="default", containers=containers)
    rotation = LogRotation(runtime, logs, RotationSettings(max_size=100, max_workers=workers))
    await rotation.turn([pod])
    assert (logs.moved, logs.most) == (12, min(workers, 12))

"""`/containerLogs`: the right container's file, read to its end, and on while it is written to and rotated."""

import asyncio
import gzip
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kit.kubelet_server import OpenToAll
from kit.pods import make_pod
from kit.waiting import eventually
from pykubelet.api.pod import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
)
from pykubelet.api.struct import changed
from pykubelet.pod.container.sandbox_config import log_directory
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State
from pykubelet.server.application import application
from pykubelet.server.logs import log_files
from pykubelet.server.logs.container_logs import ContainerLogs
from pykubelet.server.logs.log_files import LogFile
from pykubelet.web.serving import serving

RUNNING = ContainerState(running=ContainerStateRunning())


def ended(container_id: str) -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(container_id=container_id))


def waiting(reason: str) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason))


class Node:
    """A pod `web` with one container, whose second attempt runs."""

    node_name = "n1"

    def __init__(self, root: Path) -> None:
        self.pod: Pod = make_pod("web")
        self.folder = Path(log_directory(self.pod, str(root)), self.pod.spec.containers[0].name)
        self.folder.mkdir(parents=True)
        self.log = self.folder / "1.log"
        self.state = State.RUNNING
        self.shows(RUNNING, ended("fake://first"))

    def shows(self, state: ContainerState, last: ContainerState | None = None) -> None:
        name = self.pod.spec.containers[0].name
        status = ContainerStatus(
            name=name, container_id="fake://second", state=state, last_state=last or ContainerState()
        )
        self.pod = changed(self.pod, status=changed(self.pod.status, container_statuses=(status,)))

    def pods(self) -> list[Pod]:
        return [self.pod]

    def find_pod(self, namespace: str, name: str, uid: str = "") -> Pod | None:
        return self.pod if (namespace, name) == ("default", "web") else None

    def sandbox_id(self, uid: str) -> str:
        return ""

    def lateness(self) -> float:
        return 0.0

    async def observe(self, uid: str) -> ObservedPod:
        name = self.pod.spec.containers[0].name
        second = ObservedContainer(id="second", name=name, state=self.state, attempt=1)
        first = ObservedContainer(id="first", name=name, state=State.EXITED, attempt=0)
        return ObservedPod(uid=uid, containers=(second, first))

    def write(self, *lines: str) -> None:
        with self.log.open("a") as file:
            file.writelines(f"2026-01-01T12:00:00Z stdout F {line}\n" for line in lines)

    def rotate(self, stamp: str) -> Path:
        moved = self.log.with_name(f"{self.log.name}.{stamp}")
        self.log.rename(moved)
        return moved


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@asynccontextmanager
async def client(node: Node) -> AsyncIterator[aiohttp.ClientSession]:
    logs = ContainerLogs(node, node.observe, str(node.folder.parent.parent))
    async with (
        serving(application(logs.routes(), OpenToAll()), "127.0.0.1", 0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield session


async def get(session: aiohttp.ClientSession, container: str = "", **query: Any) -> tuple[int, str]:
    async with session.get(f"/containerLogs/default/web/{container or 'c'}", params=query) as answer:
        return answer.status, await answer.text()


async def test_the_log_of_the_container_that_runs_or_of_the_one_before(node: Node) -> None:
    node.write("one", "two", "three")
    (node.folder / "0.log").write_text("2026-01-01T11:00:00Z stderr F failed\n")
    async with client(node) as session:
        assert await get(session) == (200, "one\ntwo\nthree\n")
        assert await get(session, tailLines="2") == (200, "two\nthree\n")
        assert await get(session, tailLines="0") == (200, "")
        assert await get(session, tailLines="99", limitBytes="5") == (200, "one\nt")
        assert await get(session, previous="true") == (200, "failed\n")
        assert await get(session, previous="true", timestamps="true") == (200, "2026-01-01T11:00:00Z failed\n")


async def test_who_asks_for_what_is_not_there_is_told_why(node: Node) -> None:
    async with client(node) as session:
        assert (await get(session))[0] == 400  # there is no file
        assert await get(session, container="nobody") == (404, 'container "nobody" not found in pod "web"\n')
        assert await get(session, tailLines="x") == (
            400,
            "Unable to decode query: tailLines: 'x' is not a number\n",
        )
        assert (await get(session, tailLines="-1"))[0] == 422
        async with session.get("/containerLogs/default/nobody/c") as answer:
            assert (answer.status, await answer.text()) == (404, 'pod "nobody" does not exist\n')
        where = 'container "c" in pod "web"'
        node.shows(waiting("ErrImagePull"))
        assert await get(session) == (400, f"{where} is waiting to start: image can't be pulled")
        node.shows(waiting("ContainerCreating"))
        assert await get(session) == (400, f"{where} is waiting to start: ContainerCreating")
        node.shows(RUNNING)
        assert await get(session, previous="true") == (400, f"previous terminated {where} not found")


async def test_a_container_between_two_tries_shows_its_last_words(node: Node) -> None:
    (node.folder / "0.log").write_text("2026-01-01T11:00:00Z stderr F failed\n")
    node.shows(waiting("CrashLoopBackOff"), ended("fake://first"))
    async with client(node) as session:
        assert await get(session) == (200, "failed\n")


async def test_following_goes_on_through_rotations_until_the_container_ends(node: Node) -> None:
    node.write("1")
    async with client(node) as session:  # noqa: SIM117
        async with session.get("/containerLogs/default/web/c", params={"follow": "true"}) as answer:
            read = answer.content.readline
            assert await read() == b"1\n"
            node.write("2")
            assert await read() == b"2\n"
            node.rotate("20260101-120000")
            with (node.folder / "1.log.20260101-120000").open("a") as late:  # the runtime has not noticed yet
                late.write("2026-01-01T12:00:00Z stdout F 3\n")
            assert await read() == b"3\n"
            node.write("4")
            assert await read() == b"4\n"
            node.rotate("20260101-120001")
            node.write("5")
            node.rotate("20260101-120002")
            node.write("6")
            node.state = State.EXITED
            assert [await read(), await read(), await read()] == [b"5\n", b"6\n", b""]


async def test_following_ends_in_good_order_when_the_pod_is_removed_with_its_logs(node: Node) -> None:
    node.write("one")
    async with client(node) as session, session.get("/containerLogs/default/web/c?follow=true") as answer:
        assert await answer.content.readline() == b"one\n"
        node.write("two")
        node.state = State.EXITED
        shutil.rmtree(node.folder)
        assert await answer.content.read() == b"two\n"


async def test_a_client_of_old_gets_the_log_until_the_connection_ends(node: Node) -> None:
    node.write("one", "two")
    async with client(node) as session, session.get("/") as somewhere:
        assert somewhere.url.port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", somewhere.url.port)
        writer.write(b"GET /containerLogs/default/web/c HTTP/1.0\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.0 200")
        assert body == b"one\ntwo\n"
        writer.close()


async def test_who_follows_with_a_limit_gets_no_more(node: Node) -> None:
    node.write("1", "2", "3")
    async with client(node) as session:
        assert await get(session, follow="true", limitBytes="3") == (200, "1\n2")


async def test_a_reader_who_goes_away_leaves_nothing_open(node: Node) -> None:
    node.write("1")
    before = len(os.listdir("/proc/self/fd"))
    async with client(node) as session:
        async with session.get("/containerLogs/default/web/c", params={"follow": "true"}) as answer:
            assert await answer.content.readline() == b"1\n"
            answer.close()
        await eventually(lambda: str(node.log) not in _open_files())
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def _open_files() -> set[str]:
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(os.readlink(descriptor))
    return found


# --- files


def lines_of(file: LogFile) -> list[str]:
    found = b""
    while block := file.read() or file.read_on():
        found += block
    return [line.rpartition(" ")[2] for line in found.decode().splitlines()]


def test_a_slow_reader_finds_files_that_were_packed_meanwhile(node: Node) -> None:
    node.write("1")
    file = LogFile(str(node.log))
    assert lines_of(file) == ["1"]
    node.write("2")
    for stamp, number in (("20260101-120000", "3"), ("20260101-120001", "4"), ("20260101-120002", "5")):
        moved = node.rotate(stamp)
        written = moved.stat().st_mtime_ns
        packed = Path(f"{moved}.gz")
        packed.write_bytes(gzip.compress(moved.read_bytes()))
        os.utime(packed, ns=(written, written))
        moved.unlink()
        node.write(number)
    assert lines_of(file) == ["2", "3", "4", "5"]
    file.close()


def test_a_reader_whose_file_was_removed_goes_on_with_the_oldest_that_is_left(node: Node) -> None:
    node.write("1")
    file = LogFile(str(node.log))
    node.rotate("20260101-120000").unlink()
    node.write("2")
    assert lines_of(file) == ["1", "2"]
    file.close()


@pytest.mark.parametrize("tail", [1, 2, 999, 1000, 5000, 10**9])
def test_the_tail_of_a_file_larger_than_a_block(node: Node, tail: int) -> None:
    texts = [f"{number}{'x' * 500}" for number in range(1000)]
    node.write(*texts)
    file = LogFile(str(node.log), tail=tail)
    assert lines_of(file) == texts[-tail:]
    file.close()


def test_a_last_line_without_an_end_counts_as_one(node: Node) -> None:
    node.log.write_text("a\nb\nc")
    file = LogFile(str(node.log), tail=2)
    assert file.read() == b"b\nc"
    file.close()


@pytest.mark.parametrize("moment", ["before the folder was read", "after the folder was read"])
def test_a_rotation_at_the_moment_of_looking_hides_no_file(
    node: Node, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    node.write("1")
    file = LogFile(str(node.log))
    assert lines_of(file) == ["1"]
    node.rotate("20260101-120000")
    node.write("2")
    real, rotations = os.scandir, iter(["20260101-120001"])

    def rotating(folder: str) -> Any:
        found = real(folder) if moment.startswith("after") else None
        entries = list(found) if found else []
        for stamp in rotations:
            node.rotate(stamp)
            node.write("3")
        return nullcontext(entries if found else list(real(folder)))

    monkeypatch.setattr(os, "scandir", rotating)
    assert lines_of(file) == ["2", "3"]
    file.close()


def test_a_rotation_between_looking_and_opening_hides_no_file(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.write("1")
    file = LogFile(str(node.log))
    assert lines_of(file) == ["1"]
    node.rotate("20260101-120000")
    node.write("2")
    real, rotations = log_files._open, iter(["20260101-120001"])

    def rotating(path: str) -> Any:
        for stamp in rotations:
            node.rotate(stamp)
            node.write("3")
        return real(path)

    monkeypatch.setattr(log_files, "_open", rotating)
    assert lines_of(file) == []  # the next look finds it
    assert lines_of(file) == ["2", "3"]
    file.close()

# ruff: noqa: ASYNC240 - tests may block
import gzip
import os
import shutil
import time
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Retry
from pykubelet.host.logs import PodLogs
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State

STAMP = "20260101-120000"
ID = "0123456789abcdef"


class Machine:
    def __init__(self, root: Path) -> None:
        self.root = root / "pods"
        self.links = root / "containers"
        self.time = time.time()
        self.logs = PodLogs(str(self.root), links=str(self.links), now=lambda: self.time)

    def write(
        self, name: str = "0.log", text: str = "line\n", container: str = "c", pod: str = "default_web_u1"
    ) -> Path:
        path = self.root / pod / container / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def files(self, container: str = "c") -> list[str]:
        return sorted(os.listdir(self.root / "default_web_u1" / container))

    def link_names(self) -> list[str]:
        return sorted(os.listdir(self.links)) if self.links.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def container(attempt: int = 0, state: State = State.RUNNING, name: str = "c", key: str = ID) -> ObservedContainer:
    return ObservedContainer(id=key, name=name, state=state, attempt=attempt)


def pod(*containers: ObservedContainer, name: str = "web") -> ObservedPod:
    return ObservedPod(uid="u1", name=name, namespace="default", containers=containers)


async def test_logs_are_where_upstream_has_them(machine: Machine) -> None:
    path = machine.logs.path("default", "web", "u1", "c", 3)
    assert path == str(machine.root / "default_web_u1" / "c" / "3.log")
    assert await machine.logs.sizes([path]) == {path: None}
    machine.write("3.log", "12345")
    assert await machine.logs.sizes([path]) == {path: 5}


@pytest.mark.parametrize("name", ["..", "a/b", "", "\0"])
def test_a_name_cannot_lead_out_of_the_log_folder(machine: Machine, name: str) -> None:
    with pytest.raises(Invalid):
        machine.logs.path("default", "web", "u1", name, 0)
    if "/" in name or "\0" in name:
        with pytest.raises(Invalid):
            machine.logs.path("default", name, "u1", "c", 0)


# --- rotation


async def test_room_is_made_by_packing_and_by_removing_the_oldest(machine: Machine) -> None:
    path = machine.write()
    for number in range(4):
        machine.write(f"0.log.2026010{number + 1}-000000", f"{number}\n")
    machine.write("10.log.20260101-000000")
    await machine.logs.make_room(str(path), 4)
    assert machine.files() == [
        "0.log",
        "0.log.20260103-000000.gz",
        "0.log.20260104-000000.gz",
        "10.log.20260101-000000",
    ]
    packed = path.with_name("0.log.20260103-000000.gz")
    assert gzip.decompress(packed.read_bytes()) == b"2\n"


async def test_with_two_files_nothing_but_the_newest_rotated_one_stays(machine: Machine) -> None:
    path = machine.write()
    machine.write("0.log.20260101-000000")
    await machine.logs.make_room(str(path), 2)
    assert machine.files() == ["0.log"]


async def test_what_a_killed_agent_left_half_done_is_cleared(machine: Machine) -> None:
    """Killed while packing, and killed between packing and removing what was packed."""
    path = machine.write()
    machine.write("0.log.20260101-000000", "whole\n")
    machine.write("0.log.20260101-000000.tmp", "half")
    machine.write("0.log.20260102-000000", "twice\n")
    path.with_name("0.log.20260102-000000.gz").write_bytes(gzip.compress(b"twice\n"))
    await machine.logs.make_room(str(path), 5)
    assert machine.files() == ["0.log", "0.log.20260101-000000.gz", "0.log.20260102-000000.gz"]
    texts = [gzip.decompress(path.with_name(name).read_bytes()) for name in machine.files()[1:]]
    assert texts == [b"whole\n", b"twice\n"]


async def test_a_log_that_cannot_be_packed_stays_as_it_is(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = machine.write()
    machine.write("0.log.20260101-000000")
    monkeypatch.setattr(shutil, "copyfileobj", full)
    await machine.logs.make_room(str(path), 5)
    assert machine.files() == ["0.log", "0.log.20260101-000000"]
    assert "No space left" in caplog.text


async def test_a_packed_log_is_as_private_as_it_was(machine: Machine) -> None:
    path = machine.write()
    machine.write("0.log.20260101-000000").chmod(0o600)
    await machine.logs.make_room(str(path), 5)
    assert path.with_name("0.log.20260101-000000.gz").stat().st_mode & 0o777 == 0o600


async def test_a_log_is_moved_away_and_put_back(machine: Machine) -> None:
    path = machine.write(text="before\n")
    moved = await machine.logs.move_away(str(path), STAMP)
    assert machine.files() == [f"0.log.{STAMP}"]
    await machine.logs.put_back(moved, str(path))
    assert machine.files() == ["0.log"]
    assert path.read_text() == "before\n"


async def test_what_is_put_back_replaces_no_new_log(machine: Machine) -> None:
    path = machine.write(text="before\n")
    moved = await machine.logs.move_away(str(path), STAMP)
    machine.write(text="after\n")
    await machine.logs.put_back(moved, str(path))
    assert (path.read_text(), Path(moved).read_text()) == ("after\n", "before\n")


@pytest.mark.parametrize("there", [f"0.log.{STAMP}", f"0.log.{STAMP}.gz"])
async def test_a_rotated_log_replaces_no_other(machine: Machine, there: str) -> None:
    path = machine.write()
    machine.write(there, "precious")
    with pytest.raises(Retry):
        await machine.logs.move_away(str(path), STAMP)
    assert machine.files() == ["0.log", there]


async def test_a_log_that_is_gone_cannot_be_moved(machine: Machine) -> None:
    with pytest.raises(Retry, match=r"0\.log"):
        await machine.logs.move_away(str(machine.root / "default_web_u1" / "c" / "0.log"), STAMP)


# --- links


async def test_a_started_container_has_a_link_for_log_collectors(machine: Machine) -> None:
    path = machine.write()
    for _ in range(2):
        await machine.logs.link("default", "web", "u1", "c", 0, ID)
    assert machine.link_names() == [f"web_default_c-{ID}.log"]
    assert os.readlink(machine.links / f"web_default_c-{ID}.log") == str(path)


async def test_a_link_to_somewhere_else_is_put_right_and_a_file_of_that_name_left_alone(machine: Machine) -> None:
    path = machine.write()
    machine.links.mkdir()
    link = machine.links / f"web_default_c-{ID}.log"
    link.symlink_to("/elsewhere")
    await machine.logs.link("default", "web", "u1", "c", 0, ID)
    assert os.readlink(link) == str(path)
    link.unlink()
    link.write_text("not ours")
    await machine.logs.link("default", "web", "u1", "c", 0, ID)
    assert link.read_text() == "not ours"


async def test_there_is_no_link_without_a_log_or_without_a_folder_for_links(machine: Machine) -> None:
    await machine.logs.link("default", "web", "u1", "c", 0, ID)
    assert machine.link_names() == []
    machine.write()
    alone = PodLogs(str(machine.root))
    await alone.link("default", "web", "u1", "c", 0, ID)
    await alone.tidy([pod(container())])
    await alone.forget("default", "web", "u1", "c", 0, ID)
    assert machine.link_names() == []
    assert machine.files() == []


async def test_a_link_that_cannot_be_made_is_no_failure(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.write()
    machine.links.write_text("a file in the way")
    await machine.logs.link("default", "web", "u1", "c", 0, ID)
    for _ in range(3):
        await machine.logs.tidy([pod(container())])
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


async def test_very_long_names_are_cut_short(machine: Machine) -> None:
    name, key = "n" * 200, "a" * 64
    path = machine.write(pod=f"default_{name}_u1")
    seen = pod(container(key=key), name=name)
    await machine.logs.tidy([seen])
    (link,) = machine.link_names()
    assert len(link) == 255
    path.unlink()
    await machine.logs.tidy([seen])
    assert machine.link_names() == [link]  # it runs, and what is left of its id says so
    await machine.logs.tidy([])
    assert machine.link_names() == []


async def test_links_that_lead_nowhere_go_unless_their_container_runs(machine: Machine) -> None:
    machine.links.mkdir()
    for key in ("running1", "exited01", "nobodys1", "x"):
        (machine.links / f"web_default_c-{key}.log").symlink_to(machine.root / "gone")
    (machine.links / "note.txt").symlink_to(machine.root / "gone")
    (machine.links / "file-running.log").write_text("")
    await machine.logs.tidy([pod(container(key="running1"), container(state=State.EXITED, key="exited01"))])
    assert machine.link_names() == ["file-running.log", "note.txt", "web_default_c-running1.log"]


async def test_missing_links_are_made_also_for_containers_of_an_earlier_agent(machine: Machine) -> None:
    machine.write("0.log")
    machine.write("1.log")
    await machine.logs.tidy([pod(container(1, key="newer1"), container(0, State.EXITED, key="older1"))])
    assert machine.link_names() == ["web_default_c-newer1.log", "web_default_c-older1.log"]


# --- leftovers


async def test_logs_of_attempts_that_were_removed_go_with_all_their_rotated_files(machine: Machine) -> None:
    for name in ("0.log", "0.log.20260101-000000.gz", "1.log", "1.log.20260101-000000", "2.log", "3.log", "notes.txt"):
        machine.write(name)
    machine.write("0.log", container="other")
    seen = pod(container(2), container(1, State.EXITED))
    await machine.logs.tidy([seen])
    assert "0.log" in machine.files()  # it was written to just now: perhaps it is new
    machine.time += 61
    await machine.logs.tidy([seen])
    assert machine.files() == ["1.log", "1.log.20260101-000000", "2.log", "3.log", "notes.txt"]  # 3 is about to begin
    assert machine.files("other") == ["0.log"]


async def test_the_logs_of_one_container_can_be_forgotten(machine: Machine) -> None:
    for name in ("0.log", "0.log.20260101-000000.gz", "1.log"):
        machine.write(name)
    await machine.logs.link("default", "web", "u1", "c", 0, ID)
    for _ in range(2):
        await machine.logs.forget("default", "web", "u1", "c", 0, ID)
    assert machine.files() == ["1.log"]
    assert machine.link_names() == []


async def test_pods_that_have_logs_are_known_by_their_folders(machine: Machine) -> None:
    assert await machine.logs.uids() == frozenset()
    machine.write(pod="default_web_u1")
    machine.write(pod="kube-system_dns-1_u2")
    for name in ("lost+found", "a_b", "a_b_c_d", "a_b_"):
        machine.write(pod=name)
    (machine.root / "a_b_file").write_text("")
    assert await machine.logs.uids() == {"u1", "u2"}


async def test_a_pod_without_a_name_is_left_alone(machine: Machine) -> None:
    machine.write()
    await machine.logs.tidy([pod(container(5), name="")])
    assert machine.files() == ["0.log"]


async def test_logs_tell_how_often_a_container_was_started(machine: Machine) -> None:
    async def attempts(container: str = "c") -> int:
        return await machine.logs.attempts("default", "web", "u1", container)

    assert await attempts() == 0
    machine.write("0.log")
    assert await attempts() == 1
    machine.write(f"11.log.{STAMP}.gz")
    machine.write("99.log.d", container="other")
    machine.write("backup-50.log")
    assert await attempts() == 12
    assert await attempts("..") == 0

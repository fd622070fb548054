"""What a folder of manifests holds that is no manifest, a bad one, or one name twice."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.virtual_time import virtual_time
from pykubelet.sources import files
from unit.sources.followed_files import becomes, faults, followed, manifest

# --- what is no manifest


@virtual_time
async def test_files_whose_name_begins_with_a_dot_are_not_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".web.yaml").write_text(manifest("web"))
    (tmp_path / ".broken").write_text("{")
    async with followed(tmp_path) as view:
        assert view.images == {}
        (tmp_path / ".web.yaml.swp").write_text(manifest("other"))
        await view.silence(100)
    assert not caplog.records


@virtual_time
async def test_any_other_name_will_do(tmp_path: Path) -> None:
    for number, name in enumerate(
        ("pod", "pod.txt", "a b.json", "Ö.yaml", "line\nbreak", os.fsdecode(b"\xff\xfe.yaml"))
    ):
        (tmp_path / name).write_text(manifest(f"web{number}"))
    async with followed(tmp_path) as view:
        assert sorted(view.images) == ["web0", "web1", "web2", "web3", "web4", "web5"]


@virtual_time
async def test_folders_in_the_folder_are_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "web.yaml").write_text(manifest("web"))
    async with followed(tmp_path) as view:
        assert view.images == {}
        await asyncio.sleep(100)
    (fault,) = faults(caplog)
    assert fault.startswith(f"{tmp_path}/below: is not a regular file")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def listening_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [fifo, listening_socket, device], ids=lambda make: make.__name__)
@virtual_time
async def test_what_has_no_end_or_no_content_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, make: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    make(Path("strange"))
    async with followed(tmp_path) as view:
        (tmp_path / "web.yaml").write_text(manifest("web"))
        await becomes(view, web="nginx:1")
        await view.silence(100)
    assert len(faults(caplog)) == 1


# --- bad files


@pytest.mark.parametrize(
    "bad", ["", "{", "kind: Service", "\0", manifest("Bad_Name"), manifest("web").replace("containers", "boxes")]
)
@virtual_time
async def test_a_file_that_becomes_bad_keeps_the_pod_of_its_last_good_content(tmp_path: Path, bad: str) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web"))
    (tmp_path / "db.yaml").write_text(manifest("db"))
    async with followed(tmp_path) as view:
        (tmp_path / "web.yaml").write_text(bad)
        await view.silence(100)
        (tmp_path / "db.yaml").write_text(manifest("db", "redis:7"))
        await becomes(view, web="nginx:1", db="redis:7")
        (tmp_path / "web.yaml").write_text(manifest("web", "nginx:2"))
        await becomes(view, web="nginx:2", db="redis:7")


@virtual_time
async def test_a_bad_file_that_is_deleted_takes_its_pod_with_it(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web"))
    async with followed(tmp_path) as view:
        (tmp_path / "web.yaml").write_text("{")
        await view.silence(5)
        (tmp_path / "web.yaml").unlink()
        await becomes(view)


@virtual_time
async def test_a_file_larger_than_the_limit_is_bad(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(1 << 32)
    async with followed(tmp_path) as view:
        assert view.images == {}
    assert faults(caplog) == [f"{tmp_path}/huge.yaml: is larger than 10 MiB"]


@virtual_time
async def test_a_fault_is_reported_once_for_each_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    web = tmp_path / "web.yaml"
    web.write_text(manifest("web"))
    async with followed(tmp_path) as view:
        web.write_text("kind: Service")
        await view.silence(100)
        (tmp_path / "db.yaml").write_text(manifest("db"))
        await becomes(view, web="nginx:1", db="nginx:1")
        first = faults(caplog)
        assert len(first) == 2
        assert first[0].startswith(f"{web}:1:1: is neither a Pod nor a PodList")
        assert first[1] == f"{web}: still running from before: web-n1"

        web.write_text("kind: Other")
        await view.silence(100)
        assert len(faults(caplog)) == 2

        web.write_text(manifest("web"))
        await view.silence(100)
        assert faults(caplog) == []

        web.write_text("kind: Other")
        await view.silence(100)
        assert len(faults(caplog)) == 2

        web.unlink()
        await becomes(view, db="nginx:1")
        web.write_text("kind: Other")
        await view.silence(100)
        assert len(faults(caplog)) == 1


@virtual_time
async def test_a_file_that_cannot_be_read_keeps_its_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("web", "db"):
        (tmp_path / f"{name}.yaml").write_text(manifest(name))
    read = files._read_regular

    def refused(path: str) -> tuple[bytes | None, int]:
        if path.endswith("web.yaml"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path)

    refusal = [f"{tmp_path}/web.yaml: cannot be read: Permission denied"]
    async with followed(tmp_path) as view:
        for _ in range(2):
            monkeypatch.setattr(files, "_read_regular", refused)
            await view.silence(100)
            assert faults(caplog) == refusal
            monkeypatch.setattr(files, "_read_regular", read)
            await view.silence(100)
        monkeypatch.setattr(files, "_read_regular", refused)
        (tmp_path / "db.yaml").unlink()
        await becomes(view, web="nginx:1")


@virtual_time
async def test_a_folder_that_cannot_be_listed_keeps_its_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web"))

    def refused(_: str) -> list[str]:
        raise OSError(errno.EIO, "Input/output error")

    async with followed(tmp_path) as view:
        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", refused)
            await view.silence(100)
        assert faults(caplog) == [f"{tmp_path}: cannot be read: Input/output error"]
        (tmp_path / "web.yaml").unlink()
        await becomes(view)


# --- one name, several files


@virtual_time
async def test_a_name_belongs_to_the_file_that_had_it_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "b.yaml").write_text(manifest("web"))
    ignored = [f"{tmp_path}/a.yaml: pod default/web-n1 is ignored: {tmp_path}/b.yaml defines it already"]
    async with followed(tmp_path) as view:
        (tmp_path / "a.yaml").write_text(manifest("web", "nginx:2"))
        await view.silence(100)
        assert faults(caplog) == ignored

        (tmp_path / "a.yaml").unlink()
        await view.silence(100)
        (tmp_path / "a.yaml").write_text(manifest("web", "nginx:2"))
        await view.silence(100)
        assert faults(caplog) == ignored

        (tmp_path / "b.yaml").unlink()
        await becomes(view, web="nginx:2")
        assert faults(caplog) == []


@virtual_time
async def test_the_same_name_in_another_namespace_is_another_pod(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(manifest("web"))
    (tmp_path / "b.yaml").write_text(manifest("web, namespace: other"))
    async with followed(tmp_path) as view:
        assert len(view.pods) == 2


@virtual_time
async def test_of_two_pods_of_one_name_in_one_file_the_first_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.yaml").write_text(f"{manifest('web')}---\n{manifest('web', 'nginx:2')}")
    async with followed(tmp_path) as view:
        assert view.images == {"web": "nginx:1"}
        await asyncio.sleep(100)
    assert faults(caplog) == [f"{tmp_path}/a.yaml: pod web-n1 is defined twice; the first one counts"]

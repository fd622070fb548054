# ruff: noqa: ASYNC240 - tests may block
import asyncio
from pathlib import Path

import pytest

from kit.pods import make_pod
from kit.waiting import eventually
from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.host.checkpoint import ObjectCheckpoint, PodCheckpoint
from pykubelet.pod.ports.machine import LastKind


async def written(checkpoint: PodCheckpoint, folder: Path, count: int) -> None:
    running = asyncio.create_task(checkpoint.run())
    await eventually(lambda: len(list(folder.glob("*.json"))) == count)
    running.cancel()


async def test_what_was_saved_is_loaded_and_what_was_dropped_is_not(tmp_path: Path) -> None:
    checkpoint = PodCheckpoint(tmp_path, machine="m1")
    for name in ("a", "b"):
        checkpoint.save(make_pod(name, uid=name))
    await written(checkpoint, tmp_path, 2)
    checkpoint.drop("a")
    await written(checkpoint, tmp_path, 1)
    assert [pod.metadata.name for pod in PodCheckpoint(tmp_path, machine="m1").load()] == ["b"]
    assert (tmp_path / "b.json").stat().st_mode & 0o777 == 0o600


async def test_a_copied_disk_does_not_bring_another_machines_pods_to_life(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = PodCheckpoint(tmp_path, machine="m1")
    first.save(make_pod("theirs", uid="theirs"))
    await written(first, tmp_path, 1)
    copy = PodCheckpoint(tmp_path, machine="m2")
    assert copy.load() == ()
    assert "was made by another machine" in caplog.text
    copy.save(make_pod("ours", uid="ours"))
    await eventually_ours(copy, tmp_path)
    assert [pod.metadata.name for pod in PodCheckpoint(tmp_path, machine="m2").load()] == ["ours"]


async def eventually_ours(checkpoint: PodCheckpoint, folder: Path) -> None:
    running = asyncio.create_task(checkpoint.run())
    await eventually(lambda: [path.name for path in folder.glob("*.json")] == ["ours.json"])
    running.cancel()


def test_a_file_that_cannot_be_read_is_told_of_and_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x.json").write_text("{")
    assert PodCheckpoint(tmp_path).load() == ()
    assert "x.json cannot be used" in caplog.text


# --- what pods use


def using(config_map: str, secret: str) -> Pod:
    """A pod with these, which has a token as well."""
    env = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": config_map, "key": "k"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}},
    ]
    spec = {"containers": [{"name": "c", "image": "i", "env": env}]}
    return codec.decode(Pod, codec.encode({"metadata": {"namespace": "default", "uid": "u1"}, "spec": spec}))


async def kept(folder: Path, count: int, *, secrets: bool) -> None:
    """By an agent of before: what that pod uses, and one thing more."""
    checkpoint = ObjectCheckpoint(folder, machine="m1", secrets=secrets)
    for kind, key in ALL:
        checkpoint.save(kind, *key, content=kind.encode)
    running = asyncio.create_task(checkpoint.run())
    await eventually(lambda: len(list(folder.glob("*.json"))) == count)
    running.cancel()


ALL: tuple[tuple[LastKind, tuple[str, ...]], ...] = (
    ("configmap", ("default", "a")),
    ("secret", ("default", "b")),
    ("token", ("u1",)),
    ("services", ()),
    ("configmap", ("default", "of-nobody")),
)


async def test_without_being_asked_to_no_secret_and_no_token_is_kept(tmp_path: Path) -> None:
    await kept(tmp_path, 3, secrets=False)
    assert not [path for path in tmp_path.glob("*.json") if path.read_bytes() in (b"secret", b"token")]


async def test_what_pods_use_is_kept_for_root_alone_and_what_none_uses_goes(tmp_path: Path) -> None:
    await kept(tmp_path, 5, secrets=True)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*.json")} == {0o600}
    later = ObjectCheckpoint(tmp_path, machine="m1", secrets=True)
    later.load([using("a", "b")])
    assert [later.recall(kind, *key) for kind, key in ALL] == [b"configmap", b"secret", b"token", b"services", None]
    running = asyncio.create_task(later.run())
    await eventually(lambda: len(list(tmp_path.glob("*.json"))) == 4)
    running.cancel()


async def test_who_changes_his_mind_finds_no_secret_on_the_disk(tmp_path: Path) -> None:
    await kept(tmp_path, 5, secrets=True)
    later = ObjectCheckpoint(tmp_path, machine="m1", secrets=False)
    later.load([using("a", "b")])
    assert later.recall("secret", "default", "b") is None
    running = asyncio.create_task(later.run())
    await eventually(lambda: len(list(tmp_path.glob("*.json"))) == 2)
    running.cancel()


async def test_an_agent_that_stops_its_pods_leaves_what_is_known_of_them(tmp_path: Path) -> None:
    checkpoint = PodCheckpoint(tmp_path, machine="m1")
    checkpoint.save(make_pod("a", uid="a"))
    await written(checkpoint, tmp_path, 1)
    checkpoint.freeze()
    checkpoint.drop("a")
    running = asyncio.create_task(checkpoint.run())
    await asyncio.sleep(0.05)
    running.cancel()
    assert [pod.metadata.name for pod in PodCheckpoint(tmp_path, machine="m1").load()] == ["a"]

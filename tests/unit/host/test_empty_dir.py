import os
import stat
from pathlib import Path
from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.api.volumes import EmptyDirVolumeSource, Volume
from pykubelet.base.errors import Invalid
from pykubelet.base.huge_pages import page_sizes
from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs
from pykubelet.host.volumes.empty_dir import EmptyDir, memory_size
from pykubelet.pod.container.huge_page_volumes import volume_page_size

MIB = 2**20
GIB = 2**30


def pod_with(**spec: Any) -> Pod:
    return changed(make_pod(uid="u1"), spec=codec.convert(PodSpec, {"containers": [{"name": "c"}], **spec}))


def volume(**source: Any) -> Volume:
    return codec.convert(Volume, {"name": "v", "emptyDir": source})


def is_there(path: str) -> bool:
    return os.path.lexists(path)


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def shared_memory(tmp_path: Path) -> Path:
    path = tmp_path / "shm"
    path.mkdir()
    return path


@pytest.fixture
def empty_dir(dirs: PodDirs, shared_memory: Path) -> EmptyDir:
    return EmptyDir(dirs, 64 * MIB, str(shared_memory))


# --- on disk


async def test_anybody_may_write_into_it(dirs: PodDirs, empty_dir: EmptyDir) -> None:
    path = await empty_dir.set_up(pod_with(), volume())
    assert path == dirs.volume("u1", "kubernetes.io/empty-dir", "v")
    assert mode(path) == 0o777


async def test_upstream_would_find_it_ready(dirs: PodDirs, empty_dir: EmptyDir) -> None:
    await empty_dir.set_up(pod_with(), volume())
    assert os.listdir(dirs.plugin("u1", "kubernetes.io/empty-dir", "v")) == ["ready"]


async def test_what_its_containers_did_to_it_is_left_alone(empty_dir: EmptyDir) -> None:
    path = await empty_dir.set_up(pod_with(), volume())
    os.mkdir(os.path.join(path, "work"))
    os.chmod(path, 0o700)
    assert await empty_dir.set_up(pod_with(), volume()) == path
    assert os.listdir(path) == ["work"]
    assert mode(path) == 0o700


async def test_one_that_was_removed_by_hand_is_made_again(empty_dir: EmptyDir) -> None:
    path = await empty_dir.set_up(pod_with(), volume())
    os.rmdir(path)
    assert await empty_dir.set_up(pod_with(), volume()) == path
    assert mode(path) == 0o777


async def test_its_content_goes_with_it(dirs: PodDirs, empty_dir: EmptyDir) -> None:
    path = await empty_dir.set_up(pod_with(), volume())
    os.makedirs(os.path.join(path, "a", "b"))
    for _ in range(2):
        await empty_dir.tear_down("u1", "v")
    assert not is_there(path)
    assert not is_there(dirs.plugin("u1", "kubernetes.io/empty-dir", "v"))


async def test_an_unknown_medium_is_refused(empty_dir: EmptyDir) -> None:
    with pytest.raises(Invalid, match='no storage medium "Tape"'):
        await empty_dir.set_up(pod_with(), volume(medium="Tape"))


# --- for a group


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder to any group")
async def test_it_belongs_to_the_group_of_the_pod(empty_dir: EmptyDir) -> None:
    path = await empty_dir.set_up(pod_with(securityContext={"fsGroup": 2000}), volume())
    assert os.stat(path).st_gid == 2000
    assert mode(path) == 0o2777


async def test_in_memory_it_belongs_to_the_group_too(mountable: Path, empty_dir: EmptyDir) -> None:
    path = await empty_dir.set_up(pod_with(securityContext={"fsGroup": 2000}), volume(medium="Memory"))
    assert os.stat(path).st_gid == 2000
    assert mode(path) == 0o3777


async def test_who_may_not_give_it_to_the_group_goes_on_without(
    empty_dir: EmptyDir, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    path = await empty_dir.set_up(pod_with(securityContext={"fsGroup": 2000}), volume())
    assert mode(path) == 0o777
    assert "cannot be given to group 2000" in caplog.text


# --- in memory


async def test_memory_is_mounted_once_with_its_limit(mountable: Path, empty_dir: EmptyDir) -> None:
    path = await empty_dir.set_up(pod_with(), volume(medium="Memory", sizeLimit="1Mi"))
    assert await empty_dir.set_up(pod_with(), volume(medium="Memory", sizeLimit="1Mi")) == path
    assert mount.mounts_below(path) == (path,)
    found = os.statvfs(path)
    assert found.f_blocks * found.f_frsize == MIB
    assert mode(path) == 0o1777
    await empty_dir.tear_down("u1", "v")
    assert not is_there(path)


async def test_after_a_restart_of_the_machine_memory_is_mounted_again(mountable: Path, empty_dir: EmptyDir) -> None:
    path = await empty_dir.set_up(pod_with(), volume(medium="Memory"))
    mount.unmount(path)
    assert await empty_dir.set_up(pod_with(), volume(medium="Memory")) == path
    assert mount.is_mount_point(path)


def limited(*limits: str) -> list[dict[str, Any]]:
    return [{"name": f"c{n}", "resources": {"limits": {"memory": each}}} for n, each in enumerate(limits)]


@pytest.mark.parametrize(
    ("spec", "size_limit", "expected"),
    [
        ({}, None, GIB),
        ({}, "10Mi", 10 * MIB),
        ({}, "2Gi", GIB),
        ({}, "0", GIB),
        ({"containers": limited("100Mi", "200Mi")}, None, 300 * MIB),
        ({"containers": limited("100Mi", "200Mi")}, "10Mi", 10 * MIB),
        ({"containers": limited("100Mi", "200Mi")}, "500Mi", 300 * MIB),
        ({"containers": limited("100Mi", "0")}, None, GIB),
        ({"containers": limited("2Gi")}, None, GIB),
        ({"containers": limited("100Mi"), "overhead": {"memory": "20Mi"}}, None, 120 * MIB),
        ({"resources": {"limits": {"memory": "50Mi"}}}, None, 50 * MIB),
    ],
)
def test_it_is_as_large_as_node_pod_and_volume_allow(
    spec: dict[str, Any], size_limit: str | None, expected: int
) -> None:
    source = codec.convert(EmptyDirVolumeSource, {"medium": "Memory", "sizeLimit": size_limit})
    assert memory_size(pod_with(**spec), source, GIB) == expected


def test_a_node_that_does_not_know_its_memory_still_keeps_the_volume_small() -> None:
    source = codec.convert(EmptyDirVolumeSource, {"medium": "Memory", "sizeLimit": "10Mi"})
    assert memory_size(pod_with(), source, 0) == 10 * MIB
    assert memory_size(pod_with(), EmptyDirVolumeSource(medium="Memory"), 0) == 0


# --- in memory, without the right to mount


async def test_an_ordinary_user_gets_a_folder_in_shared_memory_and_is_told_once(
    ordinary_user: None, dirs: PodDirs, empty_dir: EmptyDir, shared_memory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    places = []
    for name in ("a", "b"):
        wanted = codec.convert(Volume, {"name": name, "emptyDir": {"medium": "Memory"}})
        place = await empty_dir.set_up(pod_with(), wanted)
        assert await empty_dir.set_up(pod_with(), wanted) == place
        places.append(Path(place))
    assert [place.parent.parent for place in places] == [shared_memory, shared_memory]
    assert len(os.listdir(shared_memory)) == 2
    assert {mode(place) for place in places} == {0o777}
    assert {mode(place.parent) for place in places} == {0o700}
    assert os.readlink(dirs.volume("u1", "kubernetes.io/empty-dir", "a")) == str(places[0])
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"this user may not mount: emptyDir volumes of medium Memory are folders in {shared_memory}, not limited"
    ]


async def test_shared_memory_is_given_back(
    ordinary_user: None, dirs: PodDirs, empty_dir: EmptyDir, shared_memory: Path
) -> None:
    place = await empty_dir.set_up(pod_with(), volume(medium="Memory"))
    os.mkdir(os.path.join(place, "made"))
    for _ in range(2):
        await empty_dir.tear_down("u1", "v")
    assert os.listdir(shared_memory) == []
    assert not is_there(dirs.volume("u1", "kubernetes.io/empty-dir", "v"))


async def test_shared_memory_that_a_restart_of_the_machine_emptied_is_made_again(
    ordinary_user: None, empty_dir: EmptyDir
) -> None:
    first = await empty_dir.set_up(pod_with(), volume(medium="Memory"))
    os.rmdir(first)
    os.rmdir(os.path.dirname(first))
    second = await empty_dir.set_up(pod_with(), volume(medium="Memory"))
    assert second != first
    assert mode(second) == 0o777


async def test_a_link_to_somewhere_else_is_never_trusted(
    ordinary_user: None, dirs: PodDirs, empty_dir: EmptyDir, tmp_path: Path
) -> None:
    outside = tmp_path / "pykubelet-outside" / "volume"
    outside.mkdir(parents=True)
    (outside / "precious").write_text("x")
    first = await empty_dir.set_up(pod_with(), volume(medium="Memory"))
    link = dirs.volume("u1", "kubernetes.io/empty-dir", "v")
    os.unlink(link)
    os.symlink(outside, link)
    assert await empty_dir.set_up(pod_with(), volume(medium="Memory")) not in (first, str(outside))
    os.unlink(link)
    os.symlink(outside, link)
    await empty_dir.tear_down("u1", "v")
    assert (outside / "precious").exists()


async def test_without_shared_memory_it_is_on_disk(
    ordinary_user: None, dirs: PodDirs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    empty_dir = EmptyDir(dirs, GIB, str(tmp_path / "missing"))
    for _ in range(2):
        path = dirs.volume("u1", "kubernetes.io/empty-dir", "v")
        assert await empty_dir.set_up(pod_with(), volume(medium="Memory")) == path
    assert [record.getMessage() for record in caplog.records] == [
        "this user may not mount: emptyDir volumes of medium Memory are folders on disk, not limited"
    ]


# --- in huge pages


def asking(*names: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": dict.fromkeys(names, "4Mi")}}]}


@pytest.mark.parametrize(
    ("spec", "medium", "expected"),
    [
        (asking("hugepages-2Mi", "memory"), "HugePages", 2 * MIB),
        (asking("hugepages-1Gi"), "HugePages", GIB),
        (asking("hugepages-2Mi", "hugepages-1Gi"), "HugePages-1Gi", GIB),
        (asking("hugepages-2048Ki"), "HugePages-2Mi", 2 * MIB),
        ({"resources": {"requests": {"hugepages-2Mi": "4Mi"}}}, "HugePages", 2 * MIB),
        ({"initContainers": asking("hugepages-2Mi")["containers"]}, "HugePages-2Mi", 2 * MIB),
        (asking("hugepages-2Mi", "hugepages-1Gi"), "HugePages", "can't be used if container requests multiple"),
        (asking("memory"), "HugePages", "there is no resource request for huge pages"),
        (asking("hugepages-2Mi"), "HugePages-1Gi", "there is no resource request for huge pages"),
        (asking("hugepages-2Mi"), "HugePages-lots", "there are no huge pages of size 'lots'"),
    ],
)
def test_its_pages_are_those_that_the_pod_asks_for(spec: dict[str, Any], medium: str, expected: int | str) -> None:
    if isinstance(expected, int):
        assert volume_page_size(pod_with(**spec), medium) == expected
        return
    with pytest.raises(Invalid, match=expected):
        volume_page_size(pod_with(**spec), medium)


async def test_huge_pages_are_mounted_once_with_their_size_and_limit(mountable: Path, empty_dir: EmptyDir) -> None:
    if 2 * MIB not in page_sizes():
        pytest.skip("this kernel has no huge pages of 2Mi")
    pod, wanted = pod_with(**asking("hugepages-2Mi")), volume(medium="HugePages", sizeLimit="6Mi")
    path = await empty_dir.set_up(pod, wanted)
    assert await empty_dir.set_up(pod, wanted) == path
    (point,) = [each for each in mount.mount_points() if each.path == path]
    assert (point.fs_type, "pagesize=2M" in point.options) == ("hugetlbfs", True)
    found = os.statvfs(path)
    assert (found.f_bsize, found.f_blocks) == (2 * MIB, 3)
    assert mode(path) == 0o777
    await empty_dir.tear_down("u1", "v")
    assert not is_there(path)


@pytest.mark.usefixtures("ordinary_user")
async def test_who_may_not_mount_has_no_huge_pages(empty_dir: EmptyDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.host.volumes.empty_dir.page_sizes", lambda: (2 * MIB,))
    with pytest.raises(Invalid, match="run the agent as root"):
        await empty_dir.set_up(pod_with(**asking("hugepages-2Mi")), volume(medium="HugePages"))


async def test_a_machine_without_such_pages_says_which_it_has(
    empty_dir: EmptyDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sizes, there in (((2 * MIB, GIB), "2Mi, 1Gi"), ((), "none at all")):
        monkeypatch.setattr("pykubelet.host.volumes.empty_dir.page_sizes", lambda sizes=sizes: sizes)
        with pytest.raises(Invalid) as raised:
            await empty_dir.set_up(pod_with(**asking("hugepages-16Mi")), volume(medium="HugePages"))
        assert str(raised.value) == f"this machine has no huge pages of 16Mi: its kernel knows {there}"

import os
import stat
from pathlib import Path

import pytest

from kit.pods import make_pod
from pykubelet.base.errors import Invalid, Retry
from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs

POD = make_pod("web", uid="u1", namespace="shop")


def mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_everything_is_where_upstream_has_it() -> None:
    dirs = PodDirs("/var/lib/kubelet")
    assert dirs.pod("u1") == "/var/lib/kubelet/pods/u1"
    assert dirs.volume("u1", "kubernetes.io/empty-dir", "data") == (
        "/var/lib/kubelet/pods/u1/volumes/kubernetes.io~empty-dir/data"
    )
    assert dirs.plugin("u1", "kubernetes.io/empty-dir", "data") == (
        "/var/lib/kubelet/pods/u1/plugins/kubernetes.io~empty-dir/data"
    )
    assert dirs.sub_path("u1", "data", "c", 2) == "/var/lib/kubelet/pods/u1/volume-subpaths/data/c/2"
    assert dirs.container("u1", "c") == "/var/lib/kubelet/pods/u1/containers/c"
    assert dirs.etc_hosts("u1") == "/var/lib/kubelet/pods/u1/etc-hosts"
    assert dirs.logs(POD) == "/var/log/pods/shop_web_u1"
    assert dirs.container_logs(POD, "c") == "/var/log/pods/shop_web_u1/c"


@pytest.mark.parametrize("name", ["", ".", "..", "../u2", "a/b", "a\0b"])
def test_a_name_can_never_lead_out_of_its_folder(name: str) -> None:
    dirs = PodDirs("/var/lib/kubelet")
    for place in (dirs.pod, lambda n: dirs.volume("u1", "p", n), lambda n: dirs.container("u1", n)):
        with pytest.raises(Invalid, match="cannot be the name of a folder"):
            place(name)


def test_a_namespace_can_never_lead_out_of_the_logs() -> None:
    with pytest.raises(Invalid):
        PodDirs("/r").logs(make_pod(namespace="../../etc"))


async def test_a_pods_folders_are_made_for_root_and_its_group_alone(dirs: PodDirs) -> None:
    await dirs.make(POD)
    await dirs.make(POD)
    private = (dirs.root, dirs.pods, dirs.pod("u1"), dirs.volumes("u1"), dirs.plugins("u1"), dirs.log_root)
    assert {mode(path) for path in private} == {0o750}
    assert mode(dirs.logs(POD)) == 0o755


async def test_each_attempt_of_a_container_has_a_file_that_anybody_may_write(dirs: PodDirs) -> None:
    await dirs.make(POD)
    files = [await dirs.make_container(POD, "c", attempt) for attempt in (0, 1)]
    assert len(set(files)) == 2
    assert {os.path.dirname(file) for file in files} == {dirs.container("u1", "c")}
    assert {mode(file) for file in files} == {0o666}
    assert mode(dirs.container("u1", "c")) == 0o750
    assert mode(dirs.container_logs(POD, "c")) == 0o755


async def test_what_an_earlier_try_said_is_not_taken_for_the_words_of_this_one(dirs: PodDirs) -> None:
    file = await dirs.make_container(POD, "c", 0)
    old = os.open(file, os.O_WRONLY)
    assert await dirs.make_container(POD, "c", 0) == file
    os.write(old, b"last words")
    os.close(old)
    assert os.stat(file).st_size == 0


async def test_what_cannot_be_made_is_named(dirs: PodDirs, tmp_path: Path) -> None:
    (tmp_path / "kubelet").write_text("a file in the way")
    with pytest.raises(Retry, match="kubelet cannot be made: File exists"):
        await dirs.make(POD)


async def test_the_pods_that_have_a_folder_are_found(dirs: PodDirs, tmp_path: Path) -> None:
    assert await dirs.uids() == ()
    for uid in ("b", "a"):
        await dirs.make(make_pod(uid=uid))
    (tmp_path / "kubelet" / "pods" / "file").write_text("")
    (tmp_path / "kubelet" / "pods" / "link").symlink_to(dirs.root)
    assert await dirs.uids() == ("a", "b")


async def test_a_pods_folder_and_logs_are_removed_and_no_others(dirs: PodDirs) -> None:
    other = make_pod("web", uid="u2", namespace="shop")
    for pod in (POD, other):
        await dirs.make(pod)
        await dirs.make_container(pod, "c", 0)
    for _ in range(2):
        await dirs.remove("u1")
        await dirs.remove_logs("u1")
    assert await dirs.uids() == ("u2",)
    assert os.listdir(dirs.log_root) == ["shop_web_u2"]


async def test_a_pods_folder_stays_while_anything_is_mounted_in_it(dirs: PodDirs, mountable: Path) -> None:
    await dirs.make(POD)
    place = mountable / "kubelet" / "pods" / "u1" / "volumes" / "kubernetes.io~nfs" / "data"
    place.mkdir(parents=True)
    mount.mount_tmpfs(str(place))
    with pytest.raises(Retry, match=f"still mounted: {place}"):
        await dirs.remove("u1")
    assert await dirs.uids() == ("u1",)

import os
from pathlib import Path
from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs
from pykubelet.host.volumes import Volumes
from pykubelet.pod.container.failures import Unsupported
from pykubelet.pod.container.mounts import VolumePart
from pykubelet.pod.container.volume_moments import VolumeChanged
from pykubelet.pod.moments import Journal

GIB = 2**30


@pytest.fixture
def volumes(dirs: PodDirs) -> Volumes:
    return Volumes(dirs, memory=GIB)


def pod_with(*volumes: dict[str, Any], **mount: Any) -> Pod:
    """A pod that mounts all of its volumes."""
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}", **mount} for each in volumes]
    spec = {"volumes": list(volumes), "containers": [{"name": "c", "volumeMounts": mounts}]}
    return changed(make_pod(uid="u1"), spec=codec.convert(PodSpec, spec))


def is_there(path: str) -> bool:
    return os.path.lexists(path)


def are_same(one: str, other: str) -> bool:
    return os.path.samefile(one, other)


# --- setting up


async def test_each_volume_is_made_and_its_place_is_told(dirs: PodDirs, volumes: Volumes, tmp_path: Path) -> None:
    pod = pod_with(
        {"name": "data", "emptyDir": {}},
        {"name": "plain"},
        {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}},
    )
    for _ in range(2):
        assert await volumes.set_up(pod) == {
            "data": dirs.volume("u1", "kubernetes.io/empty-dir", "data"),
            "plain": dirs.volume("u1", "kubernetes.io/empty-dir", "plain"),
            "host": str(tmp_path),
        }


async def test_images_are_left_to_the_runtime_where_the_gate_is_on(dirs: PodDirs, volumes: Volumes) -> None:
    pod = pod_with({"name": "v", "image": {"reference": "i"}}, subPath="weights")
    with pytest.raises(Invalid, match="the feature gate ImageVolume is off on this node"):
        await volumes.set_up(pod)
    volumes = Volumes(dirs, memory=GIB, images=True)
    places = await volumes.set_up(pod)
    assert places == {"v": ""}
    assert await volumes.prepare_sub_paths(pod, pod.spec.containers[0], places, ()) == {0: VolumePart("", "weights")}
    await volumes.tear_down(pod.metadata.uid)


@pytest.mark.parametrize(
    ("source", "needs"),
    [
        ({"persistentVolumeClaim": {"claimName": "p"}}, "persistentVolumeClaim"),
        ({"csi": {"driver": "d"}}, "csi"),
        (
            {"projected": {"sources": [{"configMap": {"name": "ca"}}, {"clusterTrustBundle": {"path": "t"}}]}},
            "a projected clusterTrustBundle",
        ),
        ({"projected": {"sources": [{"podCertificate": {"keyPath": "k"}}]}}, "a projected podCertificate"),
    ],
)
async def test_a_kind_that_is_not_there_yet_is_named(volumes: Volumes, source: dict[str, Any], needs: str) -> None:
    with pytest.raises(Unsupported) as raised:
        await volumes.set_up(pod_with({"name": "v", **source}))
    assert str(raised.value) == f'volume "v" needs {needs}, which this version cannot provide yet'


@pytest.mark.parametrize(
    ("source", "needs"),
    [
        ({"configMap": {"name": "c"}}, 'config map "c"'),
        ({"secret": {"secretName": "s"}}, 'secret "s"'),
        ({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}, "a service-account token"),
    ],
)
async def test_what_needs_an_api_server_is_named_where_there_is_none(
    volumes: Volumes, source: dict[str, Any], needs: str
) -> None:
    with pytest.raises(Invalid) as raised:
        await volumes.set_up(pod_with({"name": "v", **source}))
    assert str(raised.value) == f'volume "v" needs {needs}, and this node has no API server to get it from'


async def test_nothing_is_made_for_a_pod_that_cannot_have_everything(dirs: PodDirs, volumes: Volumes) -> None:
    pod = pod_with({"name": "a", "emptyDir": {}}, {"name": "b", "secret": {"secretName": "s"}})
    with pytest.raises(Invalid):
        await volumes.set_up(pod)
    assert not is_there(dirs.volumes("u1"))


async def test_a_volume_that_no_container_mounts_is_not_made(volumes: Volumes) -> None:
    spec = {"volumes": [{"name": "v", "secret": {"secretName": "s"}}], "containers": [{"name": "c"}]}
    assert await volumes.set_up(changed(make_pod(), spec=codec.convert(PodSpec, spec))) == {}


async def test_the_first_failure_stops_and_says_which_volume(volumes: Volumes, tmp_path: Path) -> None:
    (tmp_path / "kubelet").write_text("a file in the way")
    with pytest.raises(Retry, match=r'volume "data" cannot be set up: .*kubelet.*: Not a directory'):
        await volumes.set_up(pod_with({"name": "data", "emptyDir": {}}))


# --- parts of volumes


async def test_the_parts_that_a_container_mounts_are_prepared(volumes: Volumes) -> None:
    pod = pod_with({"name": "data", "emptyDir": {}}, subPathExpr="logs/$(POD)")
    paths = await volumes.set_up(pod)
    parts = await volumes.prepare_sub_paths(pod, pod.spec.containers[0], paths, (("POD", "web-0"),))
    assert list(parts) == [0]
    assert are_same(os.path.join(parts[0].host_path, parts[0].sub_path), os.path.join(paths["data"], "logs", "web-0"))
    await volumes.tear_down("u1")


async def test_a_part_of_a_volume_that_is_not_there_is_refused(volumes: Volumes) -> None:
    pod = pod_with({"name": "data", "emptyDir": {}}, subPath="a")
    with pytest.raises(Invalid, match='cannot find volume "data"'):
        await volumes.prepare_sub_paths(pod, pod.spec.containers[0], {}, ())


async def test_who_leads_out_of_the_volume_learns_nothing_of_the_machine(
    volumes: Volumes, caplog: pytest.LogCaptureFixture
) -> None:
    pod = pod_with({"name": "data", "emptyDir": {}}, subPath="link/etc")
    paths = await volumes.set_up(pod)
    os.symlink("/", os.path.join(paths["data"], "link"))
    with pytest.raises(Invalid) as raised:
        await volumes.prepare_sub_paths(pod, pod.spec.containers[0], paths, ())
    assert str(raised.value) == 'failed to prepare subPath for volumeMount "data" of container "c"'
    assert "leads out of the volume" in caplog.text


async def test_trouble_with_the_disk_is_worth_another_try(volumes: Volumes) -> None:
    pod = pod_with({"name": "data", "emptyDir": {}}, subPath="file/below")
    paths = await volumes.set_up(pod)
    os.close(os.open(os.path.join(paths["data"], "file"), os.O_CREAT | os.O_WRONLY))
    with pytest.raises(Retry, match="failed to prepare subPath"):
        await volumes.prepare_sub_paths(pod, pod.spec.containers[0], paths, ())


# --- tearing down


async def test_there_may_be_nothing_to_give_back(volumes: Volumes) -> None:
    await volumes.tear_down("unknown")


async def test_everything_that_was_made_is_given_back(mountable: Path, dirs: PodDirs, volumes: Volumes) -> None:
    pod = pod_with(
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "host", "hostPath": {"path": str(mountable / "mine"), "type": "DirectoryOrCreate"}},
        subPath="part",
    )
    paths = await volumes.set_up(pod)
    parts = await volumes.prepare_sub_paths(pod, pod.spec.containers[0], paths, ())
    for path in (*paths.values(), *(part.host_path for part in parts.values())):
        os.mkdir(os.path.join(path, "made"))
    again = Volumes(dirs, memory=GIB)  # as an agent that has just started, and knows nothing
    for _ in range(2):
        await again.tear_down("u1")
    assert mount.mounts_below(dirs.pod("u1")) == ()
    assert os.listdir(os.path.join(dirs.volumes("u1"), "kubernetes.io~empty-dir")) == []
    assert not is_there(dirs.sub_paths("u1"))
    assert (mountable / "mine" / "made").is_dir()
    await dirs.remove("u1")


async def test_what_another_agent_mounted_is_given_back(mountable: Path, dirs: PodDirs, volumes: Volumes) -> None:
    base = mountable / "kubelet" / "pods" / "u1" / "volumes"
    for plugin in ("kubernetes.io~projected", "kubernetes.io~secret", "kubernetes.io~nfs"):
        (base / plugin / "v").mkdir(parents=True)
        mount.mount_tmpfs(str(base / plugin / "v"))
        (base / plugin / "v" / "file").write_text("x")
    (base / "kubernetes.io~configmap" / "v").mkdir(parents=True)
    (base / "kubernetes.io~configmap" / "v" / "file").write_text("x")
    await volumes.tear_down("u1")
    assert mount.mounts_below(dirs.pod("u1")) == ()
    assert [os.listdir(folder) for folder in base.iterdir()] == [[], [], [], []]


async def test_files_that_may_be_somebodys_data_are_never_removed(volumes: Volumes, tmp_path: Path) -> None:
    data = tmp_path / "kubelet" / "pods" / "u1" / "volumes" / "example.com~disk" / "v" / "sub" / "data"
    data.parent.mkdir(parents=True)
    data.write_text("precious")
    with pytest.raises(Retry, match="Directory not empty"):
        await volumes.tear_down("u1")
    assert data.read_text() == "precious"


async def test_every_step_is_taken_and_all_that_failed_is_told(
    mountable: Path, dirs: PodDirs, volumes: Volumes
) -> None:
    pod = pod_with(*({"name": name, "emptyDir": {"medium": "Memory"}} for name in ("a", "b", "c")))
    paths = await volumes.set_up(pod)
    held = [os.open(os.path.join(paths[name], "busy"), os.O_CREAT | os.O_WRONLY) for name in ("a", "c")]
    with pytest.raises(Retry) as raised:
        await volumes.tear_down("u1")
    assert str(raised.value) == "; ".join(f"{paths[name]}: Device or resource busy" for name in ("a", "c"))
    assert mount.mounts_below(dirs.pod("u1")) == (paths["a"], paths["c"])
    for fd in held:
        os.close(fd)
    await volumes.tear_down("u1")
    assert mount.mounts_below(dirs.pod("u1")) == ()


# --- what is told of them


async def test_a_volume_is_noted_when_it_is_made_when_it_fails_and_when_it_is_given_back(
    dirs: PodDirs, tmp_path: Path
) -> None:
    journal, noted = Journal(), []
    journal.read_by(lambda each: noted.append(each.moment))
    volumes = Volumes(dirs, memory=GIB, journal=journal)
    missing = tmp_path / "later"
    pod = pod_with(
        {"name": "data", "emptyDir": {}}, {"name": "host", "hostPath": {"path": str(missing), "type": "Directory"}}
    )
    with pytest.raises(PykubeletError):
        await volumes.set_up(pod)
    missing.mkdir()
    for _ in range(3):  # syncs of a pod that runs
        await volumes.set_up(pod)
    assert volumes.counts([pod]) == {
        (plugin, state): 1.0
        for plugin in ("kubernetes.io/empty-dir", "kubernetes.io/host-path")
        for state in ("actual_state_of_world", "desired_state_of_world")
    }
    await volumes.tear_down("u1")
    told = [(each.plugin, each.operation, bool(each.error)) for each in noted if isinstance(each, VolumeChanged)]
    assert told == [
        ("kubernetes.io/empty-dir", "volume_mount", False),
        ("kubernetes.io/host-path", "volume_mount", True),
        ("kubernetes.io/host-path", "volume_mount", False),
        ("kubernetes.io/empty-dir", "volume_unmount", False),
    ]
    assert volumes.counts([]) == {}

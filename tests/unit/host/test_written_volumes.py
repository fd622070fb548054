"""Volumes made of config maps, secrets, tokens and the pod itself, on this machine."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from kit.node import Events
from kit.pod_objects import MemoryObjects
from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs
from pykubelet.host.volumes import Volumes
from pykubelet.pod.container.failures import MountFailed

GIB = 2**30
API_ACCESS = {
    "name": "kube-api-access-x7k2p",
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
    },
}


@pytest.fixture
def objects() -> MemoryObjects:
    made = MemoryObjects()
    made.config_maps["conf"] = ConfigMap(data={"a": "1", "b": "2"})
    made.config_maps["kube-root-ca.crt"] = ConfigMap(data={"ca.crt": "PEM"})
    made.secrets["db"] = Secret(data={"password": b"hunter2"})
    return made


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def volumes(dirs: PodDirs, objects: MemoryObjects, events: Events) -> Volumes:
    return Volumes(dirs, memory=GIB, objects=objects, allocatable=lambda: {"cpu": parse("2")}, recorder=events)


def pod_with(*volumes: dict[str, Any], mounts: list[dict[str, Any]] | None = None, **spec: Any) -> Pod:
    default = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    containers = [{"name": "c", "volumeMounts": mounts or default}]
    made = {"volumes": list(volumes), "containers": containers, "serviceAccountName": "builder", **spec}
    return changed(make_pod(uid="u1", labels={"app": "web"}), spec=codec.convert(PodSpec, made))


def config_map(**more: Any) -> dict[str, Any]:
    return {"name": "v", "configMap": {"name": "conf", **more}}


def content(path: str) -> dict[str, str]:
    return {p.name: p.read_text() for p in Path(path).iterdir() if not p.name.startswith("..")}


def is_there(path: str) -> bool:
    return os.path.lexists(path)


def mode(*path: str) -> int:
    return stat.S_IMODE(os.stat(os.path.join(*path)).st_mode)


# --- what is written


async def test_a_config_map_becomes_a_folder_of_files(dirs: PodDirs, volumes: Volumes, objects: MemoryObjects) -> None:
    paths = await volumes.set_up(pod_with(config_map(defaultMode=0o440)))
    assert paths == {"v": dirs.volume("u1", "kubernetes.io/configmap", "v")}
    assert content(paths["v"]) == {"a": "1", "b": "2"}
    assert mode(paths["v"], "a") == 0o440
    assert objects.asked == [("configmap", "conf", True)]
    assert is_there(os.path.join(dirs.plugin("u1", "kubernetes.io/empty-dir", "wrapped_v"), "ready"))


async def test_the_volume_of_an_ordinary_pod_of_a_cluster(
    mountable: Path, dirs: PodDirs, volumes: Volumes, objects: MemoryObjects
) -> None:
    paths = await volumes.set_up(pod_with(API_ACCESS))
    path = paths["kube-api-access-x7k2p"]
    assert path == dirs.volume("u1", "kubernetes.io/projected", "kube-api-access-x7k2p")
    assert content(path) == {"token": "token-1", "ca.crt": "PEM", "namespace": "default"}
    assert {mode(path, name) for name in content(path)} == {0o644}
    assert objects.tokens == [("default", "builder", "", 3607, "u1")]
    assert mount.is_mount_point(path)
    await volumes.tear_down("u1")
    assert mount.mounts_below(dirs.pod("u1")) == ()
    assert not is_there(path)
    await dirs.remove("u1")


async def test_a_token_is_for_the_user_and_the_group_of_the_pod(mountable: Path, volumes: Volumes) -> None:
    context = {"runAsUser": 1234, "fsGroup": 4321}
    path = (await volumes.set_up(pod_with(API_ACCESS, securityContext=context)))["kube-api-access-x7k2p"]
    found = os.stat(os.path.join(path, "token"))
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o640)
    assert (os.stat(path).st_gid, mode(path) & stat.S_ISGID) == (4321, stat.S_ISGID)
    assert os.stat(os.path.join(path, "ca.crt")).st_gid == 4321
    assert mode(path, "ca.crt") == 0o644
    await volumes.tear_down("u1")


async def test_a_secret_is_in_memory_where_that_is_possible(mountable: Path, volumes: Volumes) -> None:
    source = {"secretName": "db", "items": [{"key": "password", "path": "in/p", "mode": 0o400}]}
    path = (await volumes.set_up(pod_with({"name": "v", "secret": source})))["v"]
    assert mount.is_mount_point(path)
    assert (Path(path) / "in" / "p").read_bytes() == b"hunter2"
    assert mode(path, "in", "p") == 0o400
    await volumes.tear_down("u1")


async def test_a_secret_on_disk_is_in_a_folder_that_nobody_else_may_enter(
    ordinary_user: None, dirs: PodDirs, volumes: Volumes
) -> None:
    path = (await volumes.set_up(pod_with({"name": "v", "secret": {"secretName": "db"}})))["v"]
    assert content(path) == {"password": "hunter2"}
    assert mode(os.path.dirname(path)) == 0o700
    await volumes.tear_down("u1")
    assert not is_there(path)
    assert not is_there(dirs.plugin("u1", "kubernetes.io/empty-dir", "wrapped_v"))


async def test_the_downward_api_needs_no_api_server(ordinary_user: None, dirs: PodDirs) -> None:
    item = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    paths = await Volumes(dirs, memory=GIB).set_up(
        pod_with(
            {"name": "v", "downwardAPI": {"items": [item]}},
            {"name": "w", "projected": {"sources": [{"downwardAPI": {"items": [item]}}]}},
        )
    )
    assert content(paths["v"]) == content(paths["w"]) == {"labels": 'app="web"'}


async def test_a_path_that_leads_out_of_the_volume_is_refused(volumes: Volumes, tmp_path: Path) -> None:
    with pytest.raises(MountFailed, match=r"invalid path: must not contain '\.\.'"):
        await volumes.set_up(pod_with(config_map(items=[{"key": "a", "path": "../../a"}])))


async def test_another_volume_may_be_mounted_inside(volumes: Volumes) -> None:
    places = [{"name": "v", "mountPath": "/etc/conf"}, {"name": "e", "mountPath": "/etc/conf/sub"}]
    paths = await volumes.set_up(pod_with(config_map(), {"name": "e", "emptyDir": {}}, mounts=places))
    assert (Path(paths["v"]) / "sub").is_dir()


async def test_one_file_alone_may_be_mounted(volumes: Volumes) -> None:
    pod = pod_with(config_map(), mounts=[{"name": "v", "mountPath": "/a.conf", "subPath": "a"}])
    paths = await volumes.set_up(pod)
    parts = await volumes.prepare_sub_paths(pod, pod.spec.containers[0], paths, ())
    assert await asyncio.to_thread(Path(parts[0].host_path, parts[0].sub_path).read_text) == "1"
    await volumes.tear_down("u1")


# --- what is missing


async def test_a_missing_object_is_told_in_upstreams_words_and_looked_for_again(
    volumes: Volumes, objects: MemoryObjects, dirs: PodDirs
) -> None:
    found = objects.config_maps.pop("conf")
    with pytest.raises(Retry) as raised:
        await volumes.set_up(pod_with(config_map()))
    assert str(raised.value) == 'MountVolume.SetUp failed for volume "v" : configmap "conf" not found'
    assert not is_there(dirs.volume("u1", "kubernetes.io/configmap", "v"))
    objects.config_maps["conf"] = found
    assert content((await volumes.set_up(pod_with(config_map())))["v"]) == {"a": "1", "b": "2"}
    assert all(fresh for _, _, fresh in objects.asked)


async def test_all_that_a_projected_volume_lacks_is_told(volumes: Volumes) -> None:
    sources = [{"configMap": {"name": "x"}}, {"secret": {"name": "y"}}, {"secret": {"name": "z", "optional": True}}]
    with pytest.raises(MountFailed, match=r': \[configmap "x" not found, secret "y" not found\]$'):
        await volumes.set_up(pod_with({"name": "v", "projected": {"sources": sources}}))


async def test_an_optional_object_that_is_missing_is_an_empty_volume_until_it_comes(
    volumes: Volumes, objects: MemoryObjects
) -> None:
    found = objects.config_maps.pop("conf")
    path = (await volumes.set_up(pod_with(config_map(optional=True))))["v"]
    assert content(path) == {}
    objects.config_maps["conf"] = found
    await volumes.set_up(pod_with(config_map(optional=True)))
    assert content(path) == {"a": "1", "b": "2"}


# --- what changes


async def test_a_change_reaches_the_volume_with_the_next_sync(
    ordinary_user: None, volumes: Volumes, objects: MemoryObjects
) -> None:
    pod = pod_with(config_map(), API_ACCESS)
    paths = await volumes.set_up(pod)
    versions = {name: os.readlink(os.path.join(path, "..data")) for name, path in paths.items()}
    await volumes.set_up(pod)
    assert versions == {name: os.readlink(os.path.join(path, "..data")) for name, path in paths.items()}
    objects.config_maps["conf"] = ConfigMap(data={"a": "changed"})
    objects.token = "token-2"
    await volumes.set_up(pod)
    assert content(paths["v"]) == {"a": "changed"}
    assert content(paths["kube-api-access-x7k2p"])["token"] == "token-2"
    assert ("configmap", "conf", False) in objects.asked
    await volumes.tear_down("u1")


async def test_labels_follow_the_pod(ordinary_user: None, volumes: Volumes) -> None:
    item = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    pod = pod_with({"name": "v", "downwardAPI": {"items": [item]}})
    path = (await volumes.set_up(pod))["v"]
    await volumes.set_up(changed(pod, metadata=ObjectMeta(name="web", uid="u1", labels={"app": "db"})))
    assert content(path) == {"labels": 'app="db"'}


async def test_a_running_pod_keeps_what_it_has_when_that_cannot_be_brought_up_to_date(
    volumes: Volumes, objects: MemoryObjects, events: Events
) -> None:
    paths = await volumes.set_up(pod_with(config_map()))
    del objects.config_maps["conf"]
    assert await volumes.set_up(pod_with(config_map())) == paths
    objects.away = Retry("nobody answers")
    assert await volumes.set_up(pod_with(config_map())) == paths
    assert content(paths["v"]) == {"a": "1", "b": "2"}
    assert events.all == [
        ("web", "FailedMount", 'MountVolume.SetUp failed for volume "v" : configmap "conf" not found'),
        ("web", "FailedMount", 'MountVolume.SetUp failed for volume "v" : nobody answers'),
    ]

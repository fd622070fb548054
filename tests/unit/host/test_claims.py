"""Volumes that pods claim are set up by what they are, and cleared away without what is in them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.api.storage import ClaimedVolume
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs
from pykubelet.host.volumes import Volumes
from pykubelet.pod.ports.csi import CsiMounted, CsiVolume

only_root = pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user mounts nothing")


class Claims:
    """Every claim is bound to the one volume that there is."""

    def __init__(self, **volume: Any) -> None:
        given = {
            "claim": {"metadata": {"name": "c", "namespace": "default"}},
            "volume": {"metadata": {"name": "v"}, "spec": volume},
        }
        self.found = codec.convert(ClaimedVolume, given)
        self.asked: list[str] = []

    async def claimed(self, namespace: str, name: str) -> ClaimedVolume:
        self.asked.append(f"{namespace}/{name}")
        return self.found


def pod(*, block: bool = False, **more: Any) -> Pod:
    use = (
        {"volumeDevices": [{"name": "data", "devicePath": "/dev/x"}]}
        if block
        else {"volumeMounts": [{"name": "data", "mountPath": "/x"}]}
    )
    volume = more.pop("volume", {"persistentVolumeClaim": {"claimName": "c"}})
    spec = {"containers": [{"name": "c", "image": "x", **use}], "volumes": [{"name": "data", **volume}], **more}
    return codec.convert(Pod, {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": spec})


@pytest.fixture
def dirs(tmp_path: Path) -> Iterator[PodDirs]:
    made = PodDirs(str(tmp_path / "state"), str(tmp_path / "logs"))
    yield made
    mount.unmount_below(str(tmp_path))


def volumes(dirs: PodDirs, claims: Claims) -> Volumes:
    return Volumes(dirs, memory=1 << 30, claims=claims, node=lambda: ("n1", {"zone": "a"}))


async def test_a_folder_of_the_machine_is_used_as_it_is_and_asked_for_once(dirs: PodDirs, tmp_path: Path) -> None:
    claims = Claims(hostPath={"path": str(tmp_path), "type": "Directory"})
    here = volumes(dirs, claims)
    assert [await here.set_up(pod()) for _ in range(3)] == [{"data": str(tmp_path)}] * 3
    assert claims.asked == ["default/c"]
    await here.tear_down("u")
    await here.set_up(pod())
    assert claims.asked == ["default/c"] * 2


async def test_a_folder_made_for_a_claim_on_another_machine_is_its_pods_alone(dirs: PodDirs, tmp_path: Path) -> None:
    """Whoever they run as may write into it, and nobody else of the machine gets there."""
    path = tmp_path / "volumes" / "pvc-1_default_c"
    claims = Claims(hostPath={"path": str(path), "type": "DirectoryOrCreate"})
    annotations = {"pv.kubernetes.io/provisioned-by": "pykubelet.io/host-path"}
    of = claims.found.volume
    claims.found = changed(claims.found, volume=changed(of, metadata=changed(of.metadata, annotations=annotations)))
    assert await volumes(dirs, claims).set_up(pod()) == {"data": str(path)}
    assert [oct(each.stat().st_mode & 0o777) for each in (path, path.parent)] == ["0o777", "0o700"]


@only_root
@pytest.mark.parametrize(("policy", "again"), [("Always", "0o660"), ("OnRootMismatch", "0o600")])
async def test_a_local_volume_is_mounted_and_given_to_its_group(
    dirs: PodDirs, tmp_path: Path, policy: str, again: str
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "file").write_text("precious")
    context: dict[str, Any] = {"securityContext": {"fsGroup": 4242, "fsGroupChangePolicy": policy}}
    here = volumes(dirs, Claims(local={"path": str(disk)}))
    (path,) = (await here.set_up(pod(**context))).values()
    assert path.endswith("/volumes/kubernetes.io~local-volume/v")
    assert mount.is_mount_point(path)
    assert (disk / "file").stat().st_gid == 4242
    await here.tear_down("u")
    assert not os.path.lexists(path)  # noqa: ASYNC240 - tests may block
    assert (disk / "file").read_text() == "precious"
    (disk / "file").chmod(0o600)
    later = volumes(dirs, Claims(local={"path": str(disk)}))
    await later.set_up(pod(**context))
    assert oct((disk / "file").stat().st_mode & 0o777) == again
    await volumes(dirs, Claims()).tear_down("u")  # by what is on disk, whoever has made it
    assert mount.mounts_below(str(tmp_path)) == ()


async def test_a_disk_is_passed_on_as_it_is(dirs: PodDirs) -> None:
    disks = [path for path in Path("/dev").iterdir() if path.is_block_device()]  # noqa: ASYNC240
    if not disks:
        pytest.skip("this machine has no disk")
    here = volumes(dirs, Claims(local={"path": str(disks[0])}, volumeMode="Block"))
    assert await here.set_up(pod(block=True)) == {"data": str(disks[0])}


AFFINITY = {
    "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}
}


@pytest.mark.parametrize(
    ("spec", "wanted", "kind", "told"),
    [
        (
            {"hostPath": {"path": "/"}, "volumeMode": "Block"},
            pod(),
            Invalid,
            "has volumeMode Block, but is specified in volumeMounts",
        ),
        (
            {"hostPath": {"path": "/"}},
            pod(block=True),
            Invalid,
            "volumeMode Filesystem, but is specified in volumeDevices",
        ),
        ({"hostPath": {"path": "/"}, "nodeAffinity": AFFINITY}, pod(), Retry, "no matching NodeSelectorTerms"),
        ({"hostPath": {"path": "/x/../etc"}}, pod(), Invalid, "must not contain"),
        ({"local": {"path": "/not/there"}}, pod(), Retry, "/not/there: No such file"),
        ({"local": {"path": "/etc/passwd"}}, pod(), Invalid, "is no folder"),
        ({"local": {"path": "/etc"}, "volumeMode": "Block"}, pod(block=True), Invalid, "is no block device"),
        (
            {"iscsi": {"targetPortal": "x", "iqn": "y"}},
            pod(),
            PykubeletError,
            "iSCSI volumes are left to a CSI driver here",
        ),
        ({"flexVolume": {"driver": "x/y"}}, pod(), PykubeletError, "the kind of persistent volume that v is"),
        ({"gcePersistentDisk": {"pdName": "d"}}, pod(), PykubeletError, "the kind of persistent volume that v is"),
        ({"hostPath": {"path": "/"}}, pod(volume={"ephemeral": {}}), Invalid, "was not created for pod"),
    ],
)
async def test_what_cannot_be_is_told(
    dirs: PodDirs, spec: dict[str, Any], wanted: Pod, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        await volumes(dirs, Claims(**spec)).set_up(wanted)
    assert mount.mounts_below(dirs.volumes("u")) == ()


@pytest.mark.parametrize(
    "wanted", [pod(), pod(volume={"nfs": {"server": "s", "path": "/p"}})], ids=["claimed", "named by the pod"]
)
async def test_a_missing_program_for_nfs_is_named(dirs: PodDirs, monkeypatch: Any, wanted: Pod) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Retry, match="install nfs-common"):
        await volumes(dirs, Claims(nfs={"server": "s", "path": "/p"})).set_up(wanted)


class Drivers:
    """Sees what is asked of drivers."""

    def __init__(self) -> None:
        self.asked: list[CsiVolume] = []

    async def set_up(self, pod: Pod, volume: CsiVolume, group: int | None) -> CsiMounted:
        self.asked.append(volume)
        return CsiMounted("/there")

    async def tear_down(self, uid: str, name: str) -> None: ...

    def forget(self, uid: str) -> None: ...

    async def usage(self, uid: str, name: str) -> None: ...


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, pod()),
        ({}, pod(volume={"awsElasticBlockStore": {"volumeID": "vol-1"}})),
    ],
    ids=["claimed", "named by the pod"],
)
async def test_what_a_driver_has_taken_over_is_asked_of_it(dirs: PodDirs, spec: Any, wanted: Pod) -> None:
    drivers = Drivers()
    here = Volumes(dirs, memory=1 << 30, claims=Claims(**spec), drivers=drivers)
    assert await here.set_up(wanted) == {"data": "/there"}
    assert [(each.driver, each.handle) for each in drivers.asked] == [("ebs.csi.aws.com", "vol-1")]


async def test_a_program_for_nfs_is_called_with_what_the_volume_says(
    dirs: PodDirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in {
        "mount": f'echo "$@" > {tmp_path}/asked; echo no such server; exit 32',
        "mount.nfs": "",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    claims = Claims(nfs={"server": "s", "path": "/p", "readOnly": True}, mountOptions=["nfsvers=4.1"])
    with pytest.raises(Retry, match="s:/p is not mounted: no such server"):
        await volumes(dirs, claims).set_up(pod())
    assert (tmp_path / "asked").read_text().startswith("-t nfs -o nfsvers=4.1,ro -- s:/p /")

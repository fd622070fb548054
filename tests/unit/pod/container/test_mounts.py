from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.mounts import VolumePart, block_devices, container_mounts, sub_paths, used_volumes
from pykubelet.pod.ports.runtime import Device, Mount

PATHS = {"data": "/pods/u/volumes/data", "conf": "/pods/u/volumes/conf"}
POD = make_pod()


def container(*mounts: dict[str, Any], **fields: Any) -> Container:
    return codec.convert(Container, {"name": "c", "volumeMounts": list(mounts), **fields})


def mounted(wanted: Container, **options: Any) -> tuple[Mount, ...]:
    given = {"sub_paths": {}, "etc_hosts": None, "termination_log": None, **options}
    return container_mounts(POD, wanted, PATHS, **given)


def test_volumes_are_mounted_where_the_container_wants_them() -> None:
    wanted = container(
        {"name": "data", "mountPath": "/data"},
        {"name": "conf", "mountPath": "etc/conf", "readOnly": True, "mountPropagation": "HostToContainer"},
        {"name": "conf", "mountPath": "/both", "mountPropagation": "Bidirectional"},
        {"name": "conf", "mountPath": "/none", "mountPropagation": "None"},
    )
    assert mounted(wanted) == (
        Mount(host_path=PATHS["data"], container_path="/data"),
        Mount(host_path=PATHS["conf"], container_path="/etc/conf", read_only=True, propagation="HostToContainer"),
        Mount(host_path=PATHS["conf"], container_path="/both", propagation="Bidirectional"),
        Mount(host_path=PATHS["conf"], container_path="/none"),
    )


def test_an_image_is_named_and_never_written_to() -> None:
    spec = codec.convert(PodSpec, {"volumes": [{"name": "model", "image": {"reference": "r/model:1"}}]})
    wanted = container({"name": "model", "mountPath": "/m", "subPath": "w"}, {"name": "model", "mountPath": "/all"})
    parts = {0: VolumePart("", "w")}
    pod = changed(POD, spec=spec)
    mounts = container_mounts(pod, wanted, {"model": ""}, sub_paths=parts, etc_hosts=None, termination_log=None)
    assert mounts == (
        Mount(image="r/model:1", sub_path="w", container_path="/m", read_only=True),
        Mount(image="r/model:1", container_path="/all", read_only=True),
    )


@pytest.mark.parametrize("kind", ["configMap", "secret", "downwardAPI", "projected"])
def test_no_container_may_change_what_the_agent_writes(kind: str) -> None:
    spec = codec.convert(PodSpec, {"volumes": [{"name": "conf", kind: {}}, {"name": "data", "emptyDir": {}}]})
    wanted = container({"name": "data", "mountPath": "/data"}, {"name": "conf", "mountPath": "/conf"})
    pod = changed(POD, spec=spec)
    mounts = container_mounts(pod, wanted, PATHS, sub_paths={}, etc_hosts=None, termination_log=None)
    assert [mount.read_only for mount in mounts] == [False, True]


def test_the_hosts_file_and_the_termination_log_come_last() -> None:
    wanted = container({"name": "data", "mountPath": "/data"}, terminationMessagePath="/dev/termination-log")
    assert mounted(wanted, etc_hosts="/h", termination_log="/t")[1:] == (
        Mount(host_path="/h", container_path="/etc/hosts"),
        Mount(host_path="/t", container_path="/dev/termination-log"),
    )


def test_a_container_may_bring_a_hosts_file_of_its_own() -> None:
    wanted = container({"name": "conf", "mountPath": "/etc/hosts"})
    assert [mount.host_path for mount in mounted(wanted, etc_hosts="/h")] == [PATHS["conf"]]


def test_a_container_without_a_termination_message_path_has_no_such_mount() -> None:
    assert mounted(container(), termination_log="/t") == ()


def test_a_volume_that_is_not_there_is_named() -> None:
    with pytest.raises(Invalid, match='cannot find volume "other" to mount into container "c"'):
        mounted(container({"name": "other", "mountPath": "/x"}))


def test_an_unknown_propagation_is_refused() -> None:
    with pytest.raises(Invalid, match='invalid MountPropagation mode: "Sideways"'):
        mounted(container({"name": "data", "mountPath": "/x", "mountPropagation": "Sideways"}))


@pytest.mark.parametrize(("read_only", "rights"), [(None, "mrw"), (False, "mrw"), (True, "r")])
def test_block_devices_are_passed_on_as_they_are(read_only: bool | None, rights: str) -> None:
    source = {"claimName": "c", "readOnly": read_only} if read_only is not None else {"claimName": "c"}
    pod = codec.convert(
        Pod, {"spec": {"containers": [], "volumes": [{"name": "disk", "persistentVolumeClaim": source}]}}
    )
    wanted = container(volumeDevices=[{"name": "disk", "devicePath": "/dev/x"}])
    found = block_devices(pod, wanted, {"disk": "/dev/sdb"})
    assert found == (Device(host_path="/dev/sdb", container_path="/dev/x", permissions=rights),)
    with pytest.raises(Invalid, match='cannot find volume "disk" to pass into container "c"'):
        block_devices(pod, wanted, {})


def test_a_claim_that_is_only_to_be_read_is_mounted_so() -> None:
    source = {"name": "data", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}
    pod = codec.convert(Pod, {"spec": {"containers": [], "volumes": [source]}})
    found = container_mounts(
        pod,
        container({"name": "data", "mountPath": "/x"}),
        {"data": "/srv"},
        sub_paths={},
        etc_hosts=None,
        termination_log=None,
    )
    assert [each.read_only for each in found] == [True]


# --- read-only all the way down


@pytest.mark.parametrize(
    ("mode", "possible", "expected"),
    [
        (None, True, False),
        ("Disabled", True, False),
        ("IfPossible", True, True),
        ("IfPossible", False, False),
        ("Enabled", True, True),
    ],
)
def test_recursive_read_only_as_far_as_the_runtime_can(mode: str | None, possible: bool, expected: bool) -> None:
    wanted = container({"name": "data", "mountPath": "/x", "readOnly": True, "recursiveReadOnly": mode})
    assert mounted(wanted, recursive_read_only=possible)[0].recursive_read_only is expected


@pytest.mark.parametrize(
    ("mount", "possible", "refusal"),
    [
        (
            {"readOnly": True, "recursiveReadOnly": "Enabled"},
            False,
            '^failed to resolve recursive read-only mode: volume "data" requested recursive read-only mode, '
            "but it is not supported by the runtime$",
        ),
        ({"recursiveReadOnly": "Enabled"}, True, "not read-only"),
        ({"readOnly": True, "recursiveReadOnly": "Often"}, True, 'unknown recursive read-only mode "Often"'),
        (
            {"readOnly": True, "recursiveReadOnly": "IfPossible", "mountPropagation": "HostToContainer"},
            True,
            'but it is not compatible with propagation "HostToContainer"',
        ),
    ],
)
def test_what_cannot_be_recursively_read_only_is_refused(mount: dict[str, Any], possible: bool, refusal: str) -> None:
    with pytest.raises(Invalid, match=refusal):
        mounted(container({"name": "data", "mountPath": "/x", **mount}), recursive_read_only=possible)


# --- parts of volumes

ENV = (("POD", "web-0"), ("UP", ".."), ("ROOT", "/etc"), ("EMPTY", ""))


def part(**fields: str) -> Container:
    return container({"name": "conf", "mountPath": "/w"}, {"name": "data", "mountPath": "/x", **fields})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"subPath": "a/b"}, {1: "a/b"}),
        ({"subPath": "$(POD)"}, {1: "$(POD)"}),
        ({"subPathExpr": "logs/$(POD)"}, {1: "logs/web-0"}),
        ({"subPathExpr": "$$(POD)"}, {1: "$(POD)"}),
        ({"subPath": "..a"}, {1: "..a"}),
    ],
)
def test_the_part_of_a_volume_that_a_mount_shows(fields: dict[str, str], expected: dict[int, str]) -> None:
    assert sub_paths(part(**fields), ENV) == expected


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"subPath": "/etc"}, "absolute"),
        ({"subPath": "a/../../b"}, r"must not contain"),
        ({"subPathExpr": "$(ROOT)"}, "absolute"),
        ({"subPathExpr": "a/$(UP)"}, "must not contain"),
        ({"subPathExpr": "$(Z)/$(EMPTY)/$(POD)/$(A)"}, "^missing value for A, EMPTY, Z$"),
    ],
)
def test_a_part_outside_of_the_volume_is_refused(fields: dict[str, str], refusal: str) -> None:
    with pytest.raises(Invalid, match=refusal):
        sub_paths(part(**fields), ENV)


def test_a_part_is_mounted_from_the_path_that_was_made_safe_for_it() -> None:
    mounts = mounted(part(subPath="a"), sub_paths={1: VolumePart("/pods/u/volume-subpaths/data/c/1")})
    assert [mount.host_path for mount in mounts] == [PATHS["conf"], "/pods/u/volume-subpaths/data/c/1"]


@pytest.mark.parametrize("fields", [{"subPath": "a"}, {"subPathExpr": "$(POD)"}])
def test_a_part_that_was_not_made_safe_never_becomes_the_whole_volume(fields: dict[str, str]) -> None:
    with pytest.raises(Invalid, match="was not prepared"):
        mounted(part(**fields))


def test_the_volumes_of_all_containers_are_used_and_no_others() -> None:
    spec = {
        "volumes": [{"name": name} for name in "abcde"],
        "initContainers": [{"name": "i", "volumeMounts": [{"name": "a", "mountPath": "/a"}]}],
        "containers": [{"name": "c", "volumeDevices": [{"name": "b", "devicePath": "/b"}]}],
        "ephemeralContainers": [{"name": "e", "volumeMounts": [{"name": "c", "mountPath": "/c"}]}],
    }
    assert used_volumes(changed(POD, spec=codec.convert(PodSpec, spec))) == {"a", "b", "c"}

"""Which files a volume that the agent writes has."""

from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import ResourceList, parse
from pykubelet.api.struct import changed
from pykubelet.api.volumes import DownwardAPIVolumeFile, KeyToPath, Volume
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.projected_volumes import (
    FileProjection,
    checked_files,
    checked_path,
    config_map_files,
    downward_files,
    fs_user,
    go_quoted,
    lines,
    needs_api,
    nested_mount_points,
    secret_files,
    token_file,
)

NODE: ResourceList = {"cpu": parse("4"), "memory": parse("8Gi")}


def pod(**spec: Any) -> Pod:
    return changed(make_pod(labels={"app": "web"}), spec=codec.convert(PodSpec, spec))


def file(**fields: Any) -> DownwardAPIVolumeFile:
    return codec.convert(DownwardAPIVolumeFile, fields)


# --- objects


def test_all_keys_become_files_with_the_default_mode() -> None:
    config = ConfigMap(data={"a": "ä"}, binary_data={"b": b"\xff"})
    assert config_map_files(config, (), 0o400, optional=False) == {
        "a": FileProjection(data="ä".encode(), mode=0o400),
        "b": FileProjection(data=b"\xff", mode=0o400),
    }
    assert secret_files(Secret(data={"p": b"\0"}), (), None, optional=False) == {
        "p": FileProjection(data=b"\0", mode=0o644)
    }


def test_items_choose_keys_paths_and_modes() -> None:
    items = (KeyToPath(key="a", path="x/y", mode=0o600), KeyToPath(key="b", path="z"))
    config = ConfigMap(data={"a": "1", "c": "3"}, binary_data={"b": b"2"})
    assert config_map_files(config, items, 0o444, optional=False) == {
        "x/y": FileProjection(data=b"1", mode=0o600),
        "z": FileProjection(data=b"2", mode=0o444),
    }


def test_a_key_that_is_missing_is_told_unless_it_is_optional() -> None:
    items = (KeyToPath(key="a", path="x"), KeyToPath(key="b", path="y"))
    with pytest.raises(Invalid, match=r"^configmap references non-existent config key: b$"):
        config_map_files(ConfigMap(data={"a": "1"}), items, None, optional=False)
    with pytest.raises(Invalid, match=r"^references non-existent secret key: b$"):
        secret_files(Secret(data={"a": b"1"}), items, None, optional=False)
    assert list(config_map_files(ConfigMap(data={"a": "1"}), items, None, optional=True)) == ["x"]
    assert list(secret_files(Secret(data={"b": b"1"}), items, None, optional=True)) == ["y"]


def test_what_is_in_a_file_is_never_shown() -> None:
    assert "hunter2" not in repr(FileProjection(data=b"hunter2"))


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("", "must not be empty"),
        ("/etc/passwd", "must be relative path"),
        ("../x", "must not contain '..'"),
        ("a/../b", "must not contain '..'"),
        ("..data", "must not start with '..'"),
        ("./..data/x", "must not start with '..'"),
        ("a/" + "x" * 256, "filenames must be"),
        ("x/" * 2049, "4096 characters"),
        ("a\0b", "NUL"),
        (".", "must name a file"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        checked_path(path)


def test_paths_are_made_tidy() -> None:
    assert list(checked_files({"a//b/./c": FileProjection(), "a/..x": FileProjection()})) == ["a/b/c", "a/..x"]


# --- the pod itself


def test_labels_are_lines_in_the_order_of_their_keys() -> None:
    assert lines({"b": 'say "hi"', "a": "x\ny", "B": ""}) == 'B=""\na="x\\ny"\nb="say \\"hi\\""'


def test_text_is_quoted_as_go_does_it() -> None:
    assert go_quoted("tab\t ü 語 \x7f\x00\u200b\U000e0001") == '"tab\\t ü 語 \\x7f\\x00\\u200b\\U000e0001"'


def test_fields_and_resources_of_the_pod_become_files() -> None:
    wanted = (
        file(path="labels", fieldRef={"fieldPath": "metadata.labels"}),
        file(path="in/name", fieldRef={"fieldPath": "metadata.name"}, mode=0o400),
        file(path="app", fieldRef={"fieldPath": "metadata.labels['app']"}),
        file(path="cpu", resourceFieldRef={"containerName": "c", "resource": "limits.cpu", "divisor": "1m"}),
        file(path="mem", resourceFieldRef={"containerName": "i", "resource": "limits.memory", "divisor": "1Gi"}),
    )
    subject = pod(
        containers=[{"name": "c", "resources": {"limits": {"cpu": "250m"}}}],
        initContainers=[{"name": "i"}],
    )
    files = downward_files(wanted, subject, 0o644, NODE)
    assert {path: each.data for path, each in files.items()} == {
        "labels": b'app="web"',
        "in/name": b"web",
        "app": b"web",
        "cpu": b"250",
        "mem": b"8",
    }
    assert files["in/name"].mode == 0o400


@pytest.mark.parametrize(
    "source",
    [
        {"fieldRef": {"fieldPath": "status.podIP"}},
        {"fieldRef": {"fieldPath": "spec.nodeName"}},
        {"resourceFieldRef": {"containerName": "nobody", "resource": "limits.cpu"}},
    ],
)
def test_what_no_file_can_tell_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        downward_files((file(path="x", **source),), pod(containers=[{"name": "c"}]), None, NODE)


# --- whose they are


@pytest.mark.parametrize(
    ("spec", "mode", "user"),
    [
        ({"containers": [{"name": "c"}]}, 0o644, None),
        ({"containers": [{"name": "c"}], "securityContext": {"runAsUser": 7}}, 0o600, 7),
        ({"containers": [{"name": "c"}], "securityContext": {"fsGroup": 9}}, 0o600, None),
        (
            {
                "containers": [{"name": "c"}, {"name": "d", "securityContext": {"runAsUser": 8}}],
                "securityContext": {"runAsUser": 7},
            },
            0o644,
            None,
        ),
        ({"containers": [{"name": "c", "securityContext": {"runAsUser": 0}}]}, 0o600, 0),
        ({"containers": [{"name": "c", "securityContext": {"runAsUser": 7}}, {"name": "d"}]}, 0o644, None),
    ],
)
def test_a_token_is_for_those_who_run_in_the_pod(spec: dict[str, Any], mode: int, user: int | None) -> None:
    subject = pod(**spec)
    assert fs_user(subject) == user
    assert token_file(subject, "t", "secret", 0o644) == {"t": FileProjection(data=b"secret", mode=mode, user=user)}


# --- the rest


def test_places_where_other_volumes_are_mounted_inside() -> None:
    mounts = [
        {"name": "v", "mountPath": "/etc/config"},
        {"name": "w", "mountPath": "/etc/config/sub"},
        {"name": "w", "mountPath": "/etc/config/sub/deeper"},
        {"name": "w", "mountPath": "/etc/config/sub2/"},
        {"name": "w", "mountPath": "/etc/configuration"},
    ]
    subject = pod(containers=[{"name": "c", "volumeMounts": mounts}])
    assert nested_mount_points(subject, "v") == ("sub", "sub2")
    assert nested_mount_points(subject, "w") == ("deeper",)


@pytest.mark.parametrize(
    ("volume", "needed"),
    [
        ({"configMap": {"name": "c"}}, 'config map "c"'),
        ({"secret": {"secretName": "s"}}, 'secret "s"'),
        ({"downwardAPI": {}}, ""),
        ({"projected": {"sources": [{"downwardAPI": {}}]}}, ""),
        (
            {"projected": {"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {"path": "t"}}]}},
            "a service-account",
        ),
        ({"emptyDir": {}}, ""),
    ],
)
def test_what_an_api_server_is_needed_for(volume: dict[str, Any], needed: str) -> None:
    found = needs_api(codec.convert(Volume, {"name": "v", **volume}))
    assert found.startswith(needed)
    assert bool(found) == bool(needed)

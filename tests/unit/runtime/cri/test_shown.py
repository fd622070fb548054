import json

import pytest

from pykubelet.runtime.cri.shown import image_refusal, shown_cgroup_driver


def config(systemd: bool | None, default: str = "runc") -> dict[str, str]:
    options = None if systemd is None else {"SystemdCgroup": systemd, "BinaryName": ""}
    runtimes = {"runc": {"runtimeType": "io.containerd.runc.v2", "options": options}}
    return {"config": json.dumps({"containerd": {"defaultRuntimeName": default, "runtimes": runtimes}})}


@pytest.mark.parametrize(
    ("info", "driver"),
    [
        (config(True), "systemd"),
        (config(False), "cgroupfs"),
        (config(None), "cgroupfs"),
        (config(True, default="gvisor"), ""),
        ({"config": "{}"}, ""),
        ({"config": "not json"}, ""),
        ({}, ""),
    ],
)
def test_the_driver_is_that_of_the_default_handler(info: dict[str, str], driver: str) -> None:
    assert shown_cgroup_driver(info) == driver


@pytest.mark.parametrize(
    ("name", "version", "can"),
    [
        ("containerd", "1.6.20~ds1", False),
        ("containerd", "v2.0.4", False),
        ("containerd", "v2.1.0-rc.0", True),
        ("containerd", "v3.0.0", True),
        ("containerd", "unknown", False),
        ("cri-o", "1.30.9", False),
        ("cri-o", "1.31.0", True),
        ("cri-o", "1.34.1", True),
        ("somebody", "0.1", True),  # let it say for itself
    ],
)
def test_who_is_too_old_to_mount_images_is_known(name: str, version: str, can: bool) -> None:
    assert bool(image_refusal(name, version)) is not can


def test_who_is_too_old_is_told_which_version_is_not() -> None:
    said = "containerd 1.6.20 cannot mount images as volumes, which containerd does from 2.1 on"
    assert image_refusal("containerd", "1.6.20") == said

import json

import pytest

from pykubelet.runtime.cri.shown import shown_cgroup_driver


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

"""Names of devices, and what files on this machine say of them."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.plugins.cdi import expanded
from pykubelet.pod.ports.devices import ContainerDevices
from pykubelet.pod.ports.runtime import Device, Mount

NULL = {"path": "/dev/thing", "hostPath": "/dev/null", "permissions": "rw"}


def spec(**edits: Any) -> dict[str, Any]:
    return {
        "cdiVersion": "0.6.0",
        "kind": "example.com/thing",
        "devices": [{"name": "one", "containerEdits": edits}, {"name": "two", "containerEdits": {"env": ["TWO=2"]}}],
        "containerEdits": {"env": ["ALL=1"]},
    }


def write(folder: Path, what: object, name: str = "a.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(what))
    return folder


def wanted(*names: str, **more: Any) -> ContainerDevices:
    return ContainerDevices(cdi_devices=names, **more)


def test_a_name_stands_for_what_the_file_says(tmp_path: Path) -> None:
    mount = {"hostPath": "/opt/lib", "containerPath": "/lib/thing", "options": ["ro", "rslave", "bind"]}
    folder = write(tmp_path / "etc", spec(env=["ONE=1=1"], deviceNodes=[NULL], mounts=[mount]))
    found = expanded(
        wanted("example.com/thing=one", "example.com/thing=two", env={"ONE": "0", "OWN": "x"}), [str(folder)]
    )
    assert found.env == {"ONE": "1=1", "OWN": "x", "ALL": "1", "TWO": "2"}
    assert found.devices == (Device(host_path="/dev/null", container_path="/dev/thing", permissions="rw"),)
    assert found.mounts == (
        Mount(host_path="/opt/lib", container_path="/lib/thing", read_only=True, propagation="HostToContainer"),
    )
    assert found.cdi_devices == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make nodes of devices")
def test_a_device_told_by_its_numbers_needs_no_name_on_the_machine(tmp_path: Path) -> None:
    node = {"path": "/tmp/nobody-has-this", "type": "c", "major": 1, "minor": 3, "fileMode": 0o600}
    same = {"path": "/dev/null", "type": "c", "major": 1, "minor": 3}
    folder = write(tmp_path / "etc", spec(deviceNodes=[node, same]))

    def made() -> Path:
        first, second = expanded(wanted("example.com/thing=one"), [str(folder)], str(tmp_path / "nodes")).devices
        assert (first.container_path, second.host_path) == ("/tmp/nobody-has-this", "/dev/null")
        found = os.stat(first.host_path)
        assert stat.S_ISCHR(found.st_mode)
        assert (found.st_rdev, found.st_mode & 0o777) == (os.makedev(1, 3), 0o600)
        return Path(first.host_path)

    assert made() == made()
    made().unlink()
    (tmp_path / "nodes" / "c1-3-600").write_text("not what it was")
    made()
    write(tmp_path / "etc", spec(deviceNodes=[{**node, "major": 1 << 40}]))
    with pytest.raises(Invalid, match=r"device example.com/thing=one: /tmp/nobody-has-this: "):
        expanded(wanted("example.com/thing=one"), [str(folder)], str(tmp_path / "nodes"))


def test_the_later_folder_and_yaml_count_and_bad_files_harm_nobody(tmp_path: Path) -> None:
    first, second = write(tmp_path / "etc", spec(env=["ONE=old"])), tmp_path / "run"
    second.mkdir()
    (second / "a.yaml").write_text(
        'cdiVersion: "0.6.0"\nkind: example.com/thing\ndevices:\n- name: one\n  containerEdits: {env: [ONE=new]}\n'
    )
    (second / "bad.json").write_text("{")
    (second / "README").write_text("no")
    assert expanded(wanted("example.com/thing=one"), [str(first), str(second)]).env == {"ONE": "new"}


@pytest.mark.parametrize(
    ("edits", "name", "told"),
    [
        ({"hooks": [{"hookName": "createContainer", "path": "/x"}]}, "one", "needs hooks, which only a runtime that"),
        ({"intelRdt": {"closID": "x"}}, "one", "needs Intel RDT"),
        ({"additionalGids": [5]}, "one", "needs additional groups"),
        ({"env": ["NOTHING"]}, "one", "no variable"),
        ({"mounts": [{"hostPath": "../x", "containerPath": "/x"}]}, "one", "two absolute paths"),
        ({"deviceNodes": [{"path": "/dev/x", "hostPath": "/etc/passwd"}]}, "one", "/etc/passwd is no device"),
        ({"deviceNodes": [{"path": "/dev/not-there"}]}, "one", "No such file"),
        ({"deviceNodes": [{"path": "dev/x", "hostPath": "/dev/null"}]}, "one", "makes no sense"),
        ({"deviceNodes": [{**NULL, "permissions": "x"}]}, "one", "makes no sense"),
        ({}, "three", r"no file in .* says what example.com/thing=three is"),
        ({"env": "x"}, "one", "says what .* is .*a.json cannot be used"),
    ],
)
def test_what_cannot_be_done_is_refused(tmp_path: Path, edits: dict[str, Any], name: str, told: str) -> None:
    folder = write(tmp_path / "etc", spec(**edits))
    with pytest.raises(Invalid, match=told):
        expanded(wanted(f"example.com/thing={name}"), [str(folder)])


@pytest.mark.parametrize("name", ["", "x", "example.com=one", "a/b=", "../b=c", "a/b=c/d", "a/b=c\n"])
def test_only_whole_names_are_looked_for(name: str) -> None:
    with pytest.raises(Invalid, match="is no name of a device"):
        expanded(wanted(name), [])

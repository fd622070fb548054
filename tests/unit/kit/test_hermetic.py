"""The guard that keeps tests off a real node would be of no use if it slept."""

import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kit.hermetic import PORTS, Hermitage
from kit.keep_off.sitecustomize import FOLDERS


@pytest.mark.parametrize("folder", ["/var/lib/kubelet", "/var/log/pods/x", "/etc/cni/net.d", "/var/lib/pykubelet"])
def test_a_folder_of_a_real_node_is_refused_and_it_is_told(hermitage: Hermitage, folder: str) -> None:
    for touch in (os.listdir, os.mkdir, os.rmdir, Path(folder).read_text, sqlite3.connect):
        with pytest.raises(PermissionError, match="belongs to the node"):
            touch(*(() if touch == Path(folder).read_text else (folder,)))
        (told,) = hermitage.trespasses()
        assert folder in told
        assert "test_hermetic.py" in told


def test_a_program_that_a_test_starts_is_kept_off_too(hermitage: Hermitage) -> None:
    script = "import os; os.makedirs('/var/lib/kubelet/pods')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr
    assert hermitage.trespasses()


def test_what_only_looks_like_one_is_nobodys(hermitage: Hermitage, tmp_path: Path) -> None:
    for path in ("/var/lib/kubelets", f"{tmp_path}/var/lib/kubelet"):
        with pytest.raises(FileNotFoundError):
            os.listdir(path)
    assert hermitage.trespasses() == []


def test_the_home_folder_is_not_the_users(hermitage: Hermitage) -> None:
    assert not {each.name for each in Path.home().iterdir()} & {".kube", ".ssh", ".docker"}
    (theirs,) = (path for path in os.environ[FOLDERS].split(":") if path.endswith("/.kube"))
    assert Path(theirs).parent != Path.home()
    with pytest.raises(PermissionError):
        os.listdir(theirs)
    assert hermitage.trespasses()


@pytest.mark.parametrize("port", PORTS)
def test_the_ports_of_a_real_node_are_taken(hermitage: Hermitage, port: int) -> None:
    hermitage.hold_ports()  # whoever held one when the tests began may have given it back
    with pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", port))

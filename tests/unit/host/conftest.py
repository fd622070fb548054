import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs


@pytest.fixture
def mountable(tmp_path: Path) -> Iterator[Path]:
    """A folder that this user may mount in. Nothing stays mounted after the test."""
    probe = tmp_path / "probe"
    probe.mkdir()
    try:
        mount.mount_tmpfs(str(probe))
    except PermissionError:
        pytest.skip("this user may not mount")
    mount.unmount(str(probe))
    yield tmp_path
    mount.unmount_below(str(tmp_path))


@pytest.fixture
def ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounting is refused, as the kernel refuses it to everybody but root."""

    def refuse(source: str, target: str, *_: object) -> NoReturn:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), target)

    monkeypatch.setattr(mount, "_mount", refuse)


@pytest.fixture
def dirs(tmp_path: Path) -> PodDirs:
    return PodDirs(str(tmp_path / "kubelet"), str(tmp_path / "logs"))

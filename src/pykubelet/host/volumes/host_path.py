"""hostPath: a file or folder of this machine itself. Nothing is mounted and nothing is ever removed."""

import os
import stat
from collections.abc import Callable
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.volumes import HostPathVolumeSource, Volume
from pykubelet.base.errors import Invalid, Retry
from pykubelet.host.threads import in_thread

_TYPES: Final[dict[str, tuple[Callable[[int], bool], str]]] = {
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "Directory": (stat.S_ISDIR, "a directory"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "File": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


class HostPath:
    field = "host_path"
    plugin = "kubernetes.io/host-path"

    async def set_up(self, pod: Pod, volume: Volume) -> str:
        assert volume.host_path is not None
        await in_thread(check_host_path, volume.host_path)
        return volume.host_path.path

    async def tear_down(self, uid: str, name: str) -> None:
        """What belongs to the machine stays as it is."""


def check_host_path(source: HostPathVolumeSource) -> None:
    """Whether what is there is what was asked for. Raises Invalid, Retry. Blocks."""
    path, kind = source.path, source.type or ""
    if ".." in path.split("/"):
        raise Invalid(f'invalid hostPath {path}: it must not contain ".."')
    if not kind:
        return
    if kind not in _TYPES:
        raise Invalid(f"{kind} is not a type of hostPath")
    is_right, name = _TYPES[kind]
    if kind == "DirectoryOrCreate" and not os.path.exists(path):
        os.makedirs(path, 0o755, exist_ok=True)
    if kind == "FileOrCreate" and not os.path.exists(path):
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    try:
        found = os.stat(path)
    except OSError as error:
        raise Retry(f"hostPath type check failed: {path} is not {name}: {error.strerror}") from error
    if not is_right(found.st_mode):
        raise Retry(f"hostPath type check failed: {path} is not {name}")

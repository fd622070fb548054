"""Where a pod's things are on this machine: in the same places as upstream, so that agents can take turns."""

import os
from contextlib import suppress
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.base.errors import Invalid, Retry
from pykubelet.host.removal import remove_tree
from pykubelet.host.threads import in_thread
from pykubelet.pod.container.sandbox_config import log_directory

_PRIVATE: Final = 0o750
_LOGS: Final = 0o755
_ANYBODY_WRITES: Final = 0o666


class PodDirs:
    """Paths are plain methods that touch nothing; what works on the disk is async and raises base.errors."""

    def __init__(self, root: str, log_root: str = "/var/log/pods") -> None:
        self.root = os.path.abspath(root)
        self.log_root = os.path.abspath(log_root)

    # --- the places

    @property
    def pods(self) -> str:
        return os.path.join(self.root, "pods")

    def pod(self, uid: str) -> str:
        return os.path.join(self.pods, _part(uid))

    def volumes(self, uid: str) -> str:
        return os.path.join(self.pod(uid), "volumes")

    def volume(self, uid: str, plugin: str, name: str) -> str:
        """`plugin` is a qualified name, such as kubernetes.io/empty-dir."""
        return os.path.join(self.volumes(uid), _part(plugin.replace("/", "~")), _part(name))

    def plugins(self, uid: str) -> str:
        return os.path.join(self.pod(uid), "plugins")

    def plugin(self, uid: str, plugin: str, name: str) -> str:
        """What a kind of volume notes down about one volume."""
        return os.path.join(self.plugins(uid), _part(plugin.replace("/", "~")), _part(name))

    def sub_paths(self, uid: str) -> str:
        return os.path.join(self.pod(uid), "volume-subpaths")

    def sub_path(self, uid: str, volume: str, container: str, index: int) -> str:
        return os.path.join(self.sub_paths(uid), _part(volume), _part(container), str(index))

    def container(self, uid: str, name: str) -> str:
        return os.path.join(self.pod(uid), "containers", _part(name))

    def etc_hosts(self, uid: str) -> str:
        return os.path.join(self.pod(uid), "etc-hosts")

    def logs(self, pod: Pod) -> str:
        return os.path.join(self.log_root, _part(log_directory(pod, "")))

    def container_logs(self, pod: Pod, name: str) -> str:
        return os.path.join(self.logs(pod), _part(name))

    # --- the disk

    async def make(self, pod: Pod) -> None:
        """Everything that has to be there before the first container of a pod. May be called again."""
        uid = pod.metadata.uid
        private = (self.volumes(uid), self.plugins(uid), self.log_root)
        await in_thread(_make, [(path, _PRIVATE) for path in private] + [(self.logs(pod), _LOGS)])

    async def make_container(self, pod: Pod, name: str, attempt: int) -> str:
        """The folders of one container, and a new file for what this attempt says of its end. -> that file"""
        uid = pod.metadata.uid
        folder = self.container(uid, name)
        file = os.path.join(folder, f"{attempt:08x}")
        await in_thread(_make, [(folder, _PRIVATE), (self.container_logs(pod, name), _LOGS)], file)
        return file

    async def uids(self) -> tuple[str, ...]:
        """The pods that have a folder."""
        return await in_thread(_folders, self.pods)

    async def remove(self, uid: str) -> None:
        """Forget a pod's folder. Raises Retry, naming the places, while anything is mounted in it. Harmless twice."""
        await in_thread(_remove, self.pod(uid))

    async def remove_logs(self, uid: str) -> None:
        """Forget the logs of a pod, whatever its name was. Harmless twice."""
        _part(uid)
        for folder in await in_thread(_folders, self.log_root):
            if folder.rpartition("_")[2] == uid:
                await in_thread(_remove, os.path.join(self.log_root, folder))


def _part(name: str) -> str:
    """Names come from outside; each may be one step of a path and no more."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise Invalid(f"{name!r} cannot be the name of a folder")
    return name


def _make(folders: list[tuple[str, int]], file: str = "") -> None:
    try:
        for path, mode in folders:
            _make_folder(path, mode)
        if file:
            _make_writable_file(file)
    except OSError as error:
        raise Retry(f"{error.filename} cannot be made: {error.strerror}") from error


def _make_folder(path: str, mode: int) -> None:
    """With the folders above it that are missing: those get the same mode, which `os.makedirs` would not do."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        _make_folder(parent, mode)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def _make_writable_file(path: str) -> None:
    """A new file, not an old one made empty: whoever still holds that cannot write into this."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _ANYBODY_WRITES)
    try:
        os.fchmod(fd, _ANYBODY_WRITES)  # whatever the umask says
    finally:
        os.close(fd)


def _folders(path: str) -> tuple[str, ...]:
    try:
        with os.scandir(path) as entries:
            return tuple(sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False)))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise Retry(f"{path} cannot be read: {error.strerror}") from error


def _remove(path: str) -> None:
    try:
        remove_tree(path)
    except OSError as error:
        raise Retry(f"{path} cannot be removed: {error.strerror} ({error.filename})") from error

"""A volume whose files the agent writes itself, and brings up to date at each sync of its pod.

Upstream makes these volumes out of emptyDirs; here too, down to the note that says that the folder is ready.
"""

import logging
import os
import stat
from contextlib import suppress
from typing import Final, Protocol

from pykubelet.api.pod import Pod
from pykubelet.api.volumes import EmptyDirVolumeSource, Volume
from pykubelet.base.errors import PykubeletError, Retry, sentence
from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs
from pykubelet.host.removal import remove_tree
from pykubelet.host.threads import in_thread
from pykubelet.host.volumes.atomic_writer import has_content, write_atomically
from pykubelet.host.volumes.empty_dir import EmptyDir, memory_size
from pykubelet.pod.container.failures import MountFailed
from pykubelet.pod.container.projected_volumes import Files, checked_files, fs_group, nested_mount_points
from pykubelet.pod.ports.api import Recorder

log = logging.getLogger(__name__)

_ANYBODY: Final = 0o777
_PRIVATE: Final = 0o750
_OWNER_ONLY: Final = 0o700
_GROUP_READS: Final = 0o440
_GROUP_ENTERS: Final = stat.S_ISGID | 0o550
_MEMORY: Final = EmptyDirVolumeSource(medium="Memory")


class Content(Protocol):
    """What is in one kind of volume."""

    field: str
    plugin: str
    in_memory: bool
    """Where this user may mount: what is secret never reaches a disk."""

    async def files(self, pod: Pod, volume: Volume, *, fresh: bool) -> Files:
        """Raises base.errors. `fresh`: the pod is about to start, and must not see anything old."""
        ...


class Written:
    """One such kind of volume, whatever its content. `memory` is what the node has for pods, in bytes."""

    def __init__(self, dirs: PodDirs, content: Content, memory: int, recorder: Recorder | None = None) -> None:
        self.field = content.field
        self.plugin = content.plugin
        self._dirs = dirs
        self._content = content
        self._memory = memory
        self._recorder = recorder

    async def set_up(self, pod: Pod, volume: Volume) -> str:
        """A volume that has been written once stays as it is when it cannot be brought up to date: its pod goes on."""
        path = self._dirs.volume(pod.metadata.uid, self.plugin, volume.name)
        is_there = await in_thread(has_content, path)
        try:
            files = await self._content.files(pod, volume, fresh=not is_there)
            await in_thread(self._write, pod, volume.name, path, files)
        except (PykubeletError, OSError) as error:
            failure = MountFailed(volume.name, _foreseen(error))
            if not is_there:
                raise failure from error
            log.warning("pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, failure)
            if self._recorder is not None:
                self._recorder.event(pod, "Warning", "FailedMount", str(failure))
        return path

    async def tear_down(self, uid: str, name: str) -> None:
        await in_thread(self._remove, uid, name)

    # --- on disk

    def _write(self, pod: Pod, name: str, path: str, files: Files) -> None:
        files, nested, group = checked_files(files), nested_mount_points(pod, name), fs_group(pod)
        if not has_content(path):
            self._make(pod, path)
            self._note_ready(pod.metadata.uid, name)
        for place in nested:
            with suppress(FileExistsError):  # a file will do as well
                os.makedirs(os.path.join(path, place), 0o755, exist_ok=True)
        write_atomically(path, files, lambda: None if group is None else give_to_group(path, group))

    def _remove(self, uid: str, name: str) -> None:
        path = self._dirs.volume(uid, self.plugin, name)
        remove_tree(self._notes(uid, name))
        mount.unmount_below(path)
        remove_tree(path)

    def _make(self, pod: Pod, path: str) -> None:
        parent = os.path.dirname(path)
        os.makedirs(parent, _PRIVATE, exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(path)
        if mount.is_mount_point(path):
            return
        if self._content.in_memory:
            try:
                mount.mount_tmpfs(path, size=memory_size(pod, _MEMORY, self._memory))
                return
            except OSError as error:
                if not mount.is_forbidden(error):
                    raise
            log.debug("this user may not mount: %s is on disk", path)
            os.chmod(parent, _OWNER_ONLY)
        os.chmod(path, _ANYBODY)  # whatever the umask says

    def _notes(self, uid: str, name: str) -> str:
        return self._dirs.plugin(uid, EmptyDir.plugin, f"wrapped_{name}")

    def _note_ready(self, uid: str, name: str) -> None:
        notes = self._notes(uid, name)
        os.makedirs(notes, _PRIVATE, exist_ok=True)
        os.close(os.open(os.path.join(notes, "ready"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def _foreseen(error: PykubeletError | OSError) -> PykubeletError:
    return error if isinstance(error, PykubeletError) else Retry(sentence(error))


def give_to_group(path: str, group: int) -> None:
    """Everything in a volume belongs to a group, which may read it and nothing more. Links are never followed."""
    try:
        for _, folders, files, fd in os.fwalk(path, topdown=False):
            for name in (*folders, *files):
                found = os.lstat(name, dir_fd=fd)
                os.chown(name, -1, group, dir_fd=fd, follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode) and not stat.S_ISLNK(found.st_mode):
                    os.chmod(name, stat.S_IMODE(found.st_mode) | _GROUP_READS, dir_fd=fd)
            os.fchown(fd, -1, group)
            os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) | _GROUP_ENTERS)
    except PermissionError as error:
        log.warning("%s cannot be given to group %d: %s", path, group, error.strerror)

"""The ranges of users that pods with a user namespace have, kept in the file `userns` of each pod's folder."""

import logging
import os
import pwd
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.base.whole_files import write_whole
from pykubelet.host.dirs import PodDirs
from pykubelet.host.threads import in_thread
from pykubelet.pod.container.user_namespaces import UNIT, IdMapping, IdRanges, IdSpace, has_own_users, read, written

log = logging.getLogger(__name__)

_FILE: Final = "userns"
_USER: Final = "kubelet"
_GET_IDS: Final = "getsubids"
_LARGEST: Final = 4096
_SECONDS: Final = 30.0


class UserNamespaces:
    """Calls for one pod never overlap. A file that cannot be understood is left alone; while it is there nobody gets a
    new range, since two pods with the same users could touch each other's files."""

    def __init__(self, dirs: PodDirs, space: IdSpace | None = None) -> None:
        self._dirs = dirs
        self._ranges = IdRanges(space or IdSpace())
        self._noted: set[str] = set()
        """Those whose range is on the disk."""
        self._unclear: set[str] = set()

    async def load(self) -> None:
        """What an earlier agent gave away. Called once, before the first pod."""
        for uid in await self._dirs.uids():
            try:
                await self._read_record(uid)
            except PykubeletError as error:
                log.warning("%s", error)
                self._unclear.add(uid)

    async def mappings(self, pod: Pod) -> tuple[IdMapping, ...]:
        """The pod's range, the same until `release`; empty when it shares the host's users. Raises base.errors."""
        uid = pod.metadata.uid
        if not has_own_users(pod):
            return ()
        mapping = self._ranges.of(uid) or await self._read_record(uid)
        if mapping is None:
            for other in (*self._unclear,):
                await self._read_record(other)
            mapping = self._ranges.allocate(uid)
        if uid not in self._noted:
            try:
                await in_thread(_write, self._path(uid), written(mapping))
            except OSError as error:
                self._ranges.release(uid)
                raise Retry(f"{self._path(uid)} cannot be written: {error.strerror}") from error
            self._noted.add(uid)
        return (mapping,)

    async def release(self, uid: str) -> None:
        """Of a stopped pod. Harmless when it has none."""
        try:
            await in_thread(_remove, self._path(uid))
        except OSError as error:
            raise Retry(f"{self._path(uid)} cannot be removed: {error.strerror}") from error
        self._ranges.release(uid)
        self._noted.discard(uid)
        self._unclear.discard(uid)

    async def _read_record(self, uid: str) -> IdMapping | None:
        path = self._path(uid)
        try:
            content = await in_thread(_read, path)
            mapping = read(content) if content else None
            if mapping is not None:
                self._ranges.record(uid, mapping)
                self._noted.add(uid)
        except OSError as error:
            raise Retry(f"{path} cannot be read: {error.strerror}") from error
        except Invalid as error:
            raise Retry(f"{path} cannot be used: {error}; remove it when no container of its pod runs") from None
        self._unclear.discard(uid)
        return mapping

    def _path(self, uid: str) -> str:
        return os.path.join(self._dirs.pod(uid), _FILE)


def subordinate_ids(per_pod: int = UNIT) -> IdSpace:
    """The ids that this machine sets aside for the user `kubelet`, where it has such a user and getsubids; else all but
    the first. Blocks: called once, before the agent runs. Raises Invalid."""
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        return IdSpace(first=max(UNIT, per_pod), length=_rest(per_pod), per_pod=per_pod)
    program = shutil.which(_GET_IDS)
    if program is None:
        return IdSpace(first=max(UNIT, per_pod), length=_rest(per_pod), per_pod=per_pod)
    users, groups = _told(program, _USER), _told(program, "-g", _USER)
    if users != groups:
        raise Invalid(f"the subordinate users and groups of the user {_USER} are not the same: see /etc/sub[ug]id")
    return IdSpace(first=users[0], length=users[1], per_pod=per_pod)


def _rest(per_pod: int) -> int:
    """What is left of all ids, in whole ranges."""
    return (2**32 - max(UNIT, per_pod)) // per_pod * per_pod


def _told(program: str, *arguments: str) -> tuple[int, int]:
    """From a line such as `0: kubelet 65536 7208960`."""
    try:
        done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True, timeout=_SECONDS)  # noqa: S603 - ours
        (line,) = done.stdout.strip("\n").split("\n")
        _, _, first, length = line.split()
        return int(first), int(length)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise Invalid(f"{program} {' '.join(arguments)} does not name one range of ids: {error}") from None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST)
    except FileNotFoundError:
        return b""


def _write(path: str, content: bytes) -> None:
    """Whole, and there for good when this returns: containers will own files by it."""
    write_whole(Path(path), content)
    fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove(path: str) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)

"""A program that unpacks one layer of an image, from a stream that nobody has vouched for.

It sees nothing but the folder that it fills: that is its root before the first byte is read. What it may do beyond an
ordinary user is to say whose files are. Layers become those of an overlay: what they take away is a whiteout.
"""

import errno
import gzip
import hashlib
import json
import os
import resource
import stat
import sys
import tarfile
from typing import IO, Any, Final

from pykubelet.runtime.process.images.layers import OPAQUE
from pykubelet.runtime.process.shim import capabilities, files, kernel, namespaces

_TAKES_AWAY: Final = ".wh."
_OF_FOLDER: Final = ".wh..wh."
_ALL: Final = ".wh..wh..opq"
_XATTR: Final = "SCHILY.xattr."
_CAPABILITY: Final = "security.capability"
_KEPT: Final = (0, 1, 3, 4, 31)  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP
_MEMORY: Final = 1 << 30
_CHUNK: Final = 1 << 20
_LOOK_EVERY: Final = 16 << 20
_MOST_IMPLIED: Final = 100_000
_WHITEOUT: Final = stat.S_IFCHR
_LARGEST_ID: Final = (1 << 32) - 2


class Refused(Exception):
    """The layer cannot be unpacked as it is."""


class Stream:
    """What was packed, counted on its way."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._file = plain(packed)
        self._digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        return data

    def diff_id(self) -> str:
        """To be asked at the end: what follows the archive belongs to it."""
        while self.read(_CHUNK):
            pass
        return f"sha256:{self._digest.hexdigest()}"


def plain(packed: IO[bytes]) -> IO[bytes]:
    """By how it begins, whatever it is called. The same when it is not packed at all."""
    start = packed.peek(4)[:4]  # type: ignore[attr-defined]
    if start[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=packed)  # type: ignore[return-value]
    if start == b"\x28\xb5\x2f\xfd":
        return _zstd(packed)
    return packed


def _zstd(packed: IO[bytes]) -> IO[bytes]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdFile(packed)  # type: ignore[no-any-return,return-value,unused-ignore]


class Layer:
    """The folder is `/`."""

    def __init__(self, *, keeps_owners: bool) -> None:
        self._keeps_owners = keeps_owners
        self.size = 0
        """Bytes that the files take up on the disk."""
        self.devices = 0
        """Nodes that were left out."""
        self.implied: set[str] = set()
        """Folders that nothing was said of: in the image they look as the layers below have them."""
        self._folders: dict[str, tarfile.TarInfo] = {}
        self._last_parent = ""
        self._since_look = _LOOK_EVERY

    def unpack(self, archive: tarfile.TarFile) -> None:
        while (entry := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # there may be millions
            try:
                self._add(archive, entry)
            except (OSError, ValueError, OverflowError) as error:
                if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise Refused("there is no room for it on the disk") from None
                raise Refused(f"{entry.name[:200]!r} cannot be unpacked: {_words(error)}") from None
        for path, entry in reversed(self._folders.items()):
            if os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, self._mode(entry, 0o700))
                _set_time(path, entry)

    def _add(self, archive: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        path = _inside(entry.name)
        parent, name = os.path.split(path)
        if path != "/":
            self._need_folder(parent)
        self._look_for_room(4096)
        if name.startswith(_TAKES_AWAY):
            self._take_away(parent, name)
        elif entry.isdir():
            self._add_folder(path, entry)
        elif path == "/":
            raise Refused("it puts something else in the place of its root")
        elif entry.islnk():
            self._link(_inside(entry.linkname), path)
        elif entry.isreg():
            self._clear(path)
            self._add_file(archive, entry, path)
        elif entry.issym():
            self._clear(path)
            os.symlink(entry.linkname, path)
            self._dress(path, entry)
        elif entry.isfifo():
            self._clear(path)
            os.mkfifo(path, 0o600)
            self._dress(path, entry)
        elif entry.isdev():
            self.devices += 1
        else:
            raise Refused(f"{entry.name[:200]!r} is of a kind that nobody knows")

    def _need_folder(self, path: str) -> None:
        if path in ("/", self._last_parent):
            return
        if not os.path.isdir(path):
            self._need_folder(os.path.dirname(path))
            self._make_folder(path, 0o755)
            self.implied.add(path)
            if len(self.implied) > _MOST_IMPLIED:
                raise Refused("too many of its folders are only implied")
        self._last_parent = path

    def _add_folder(self, path: str, entry: tarfile.TarInfo) -> None:
        self.implied.discard(path)
        found = _kind(path)
        if found is None or not stat.S_ISDIR(found):
            self._make_folder(path, 0o700)
        self._own(path, entry)
        self._set_attributes(path, entry)
        self._folders.pop(path, None)
        self._folders[path] = entry

    def _make_folder(self, path: str, mode: int) -> None:
        """In the place of whatever this layer has there. What it has taken away before does not come back."""
        found = _kind(path)
        self._clear(path)
        os.mkdir(path, mode)
        if found is not None and stat.S_ISCHR(found):
            os.setxattr(path, OPAQUE, b"y")

    def _add_file(self, archive: tarfile.TarFile, entry: tarfile.TarInfo, path: str) -> None:
        source = archive.extractfile(entry)
        assert source is not None
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            left = entry.size
            while left:
                data = source.read(min(_CHUNK, left))
                if not data:
                    raise Refused("it ends in the middle of a file")
                self._look_for_room(len(data))
                left -= len(data)
                while data:
                    data = data[os.write(target, data) :]
        finally:
            os.close(target)
        self.size += -(-entry.size // 4096) * 4096
        self._dress(path, entry)

    def _link(self, target: str, path: str) -> None:
        if target == path:
            raise Refused(f"{path!r} is a link to itself")
        if _kind(target) is None:
            raise Refused(f"{path!r} is a link to {target!r}, which is not in the same layer")
        self._clear(path)
        os.link(target, path, follow_symlinks=False)

    def _take_away(self, folder: str, name: str) -> None:
        """What is in the same layer stays: a folder of it is then all that there is of that name."""
        if name == _ALL:
            os.setxattr(folder, OPAQUE, b"y")
            return
        if name.startswith(_OF_FOLDER):
            return  # an older union's own notes
        name = name.removeprefix(_TAKES_AWAY)
        if name in ("", ".", ".."):
            raise Refused("it takes away what has no name")
        path = os.path.join(folder, name)
        found = _kind(path)
        if found is None:
            os.mknod(path, _WHITEOUT, 0)
        elif stat.S_ISDIR(found):
            os.setxattr(path, OPAQUE, b"y")

    def _clear(self, path: str) -> None:
        found = _kind(path)
        if found is None:
            return
        self._last_parent = ""
        if not stat.S_ISDIR(found):
            os.unlink(path)
            return
        for folder, names, others in os.walk(path, topdown=False):
            for name in others:
                os.unlink(os.path.join(folder, name))
            for name in names:
                below = os.path.join(folder, name)
                (os.unlink if os.path.islink(below) else os.rmdir)(below)
        os.rmdir(path)

    def _dress(self, path: str, entry: tarfile.TarInfo) -> None:
        self._own(path, entry)
        if not entry.issym():
            os.chmod(path, self._mode(entry, 0o400))
        if entry.isreg():
            self._set_attributes(path, entry)
        _set_time(path, entry)

    def _mode(self, entry: tarfile.TarInfo, needed: int) -> int:
        """An ordinary user has to be able to copy and to remove what is his."""
        return entry.mode & 0o7777 | (0 if self._keeps_owners else needed)

    def _own(self, path: str, entry: tarfile.TarInfo) -> None:
        if not 0 <= entry.uid <= _LARGEST_ID or not 0 <= entry.gid <= _LARGEST_ID:
            raise Refused(f"{entry.name[:200]!r} belongs to nobody: user {entry.uid}, group {entry.gid}")
        if self._keeps_owners:
            os.chown(path, entry.uid, entry.gid, follow_symlinks=False)

    def _set_attributes(self, path: str, entry: tarfile.TarInfo) -> None:
        """Only what programs have put there: those of overlays would change what the image is."""
        for key, value in entry.pax_headers.items():
            name = key.removeprefix(_XATTR)
            is_users = name.startswith("user.") and not name.startswith("user.overlay.")
            if name == key or not (is_users or (name == _CAPABILITY and self._keeps_owners)):
                continue
            try:
                os.setxattr(path, name, value.encode("utf-8", "surrogateescape"), follow_symlinks=False)
            except OSError as error:
                if error.errno != errno.ENOTSUP:  # a disk without them is good enough for most programs
                    raise

    def _look_for_room(self, size: int) -> None:
        """Some is left to others, whatever the layer claims to need."""
        self._since_look += size
        if self._since_look < _LOOK_EVERY:
            return
        self._since_look = 0
        disk = os.statvfs("/")
        if disk.f_bavail * disk.f_frsize < min(256 << 20, disk.f_blocks * disk.f_frsize // 50):
            raise Refused("there is no room for it on the disk")
        if disk.f_files and disk.f_favail < disk.f_files // 100:
            raise Refused("the disk has no room for so many files")


def _inside(name: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused(f"{name[:200]!r} leads out of it")
    return "/" + "/".join(parts)


def _kind(path: str) -> int | None:
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return None


def _set_time(path: str, entry: tarfile.TarInfo) -> None:
    seconds = max(0, min(int(entry.mtime), 1 << 34))
    os.utime(path, (seconds, seconds), follow_symlinks=False)


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _confine(folder: str) -> bool:
    """-> whether files can belong to anybody. Everything that is needed later has to be loaded before."""
    files.close_all_but({0, 1, 2})
    is_root = os.geteuid() == 0
    root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    if not is_root:
        namespaces.new_user_namespace()
    os.fchdir(root)
    os.close(root)
    os.chroot(".")
    kept = capabilities.mask(list(_KEPT))
    capabilities.lower_bounds(kept)
    kernel.set_capabilities(kept & kernel.permitted_capabilities())
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0)
    return is_root


def _unpacked(folder: str) -> dict[str, Any]:
    stream = Stream(sys.stdin.buffer)
    layer = Layer(keeps_owners=_confine(folder))
    with tarfile.open(fileobj=stream, mode="r|", bufsize=_CHUNK // 4, errors="surrogateescape") as archive:  # type: ignore[call-overload]
        layer.unpack(archive)
    facts: dict[str, Any] = {"diff_id": stream.diff_id(), "size": layer.size, "devices": layer.devices}
    return {**facts, "implied": sorted(layer.implied)}


def main() -> None:
    """The folder is the only argument, the stream is the standard input; what came of it is told in JSON."""
    try:
        answer = _unpacked(sys.argv[1])
    except Refused as error:
        answer = {"error": str(error)}
    except (OSError, ValueError, EOFError, MemoryError, ImportError, tarfile.TarError) as error:
        answer = {"error": f"it cannot be read: {_words(error)}"}
    except Exception as error:  # the boundary: decompressors have errors of their own
        answer = {"error": f"it cannot be read: {type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()

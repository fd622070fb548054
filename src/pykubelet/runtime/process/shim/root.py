"""A container's own view of the file system: this machine's files or an unpacked image, with writes that stay private.

As root one overlay covers it all. In a user namespace the kernel refuses that, since there are mounts below which may
not be uncovered: so there the root is a small tmpfs, with an overlay for each of the folders at the top.
"""

from __future__ import annotations

import os
import stat

from . import kernel
from .kernel import MS_BIND, MS_REC, MS_SLAVE
from .places import bind, hide, is_folder, make_device_folder, make_proc, make_sys, point, renew_proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spec import MountSpec, RootSpec

_MADE = ("proc", "sys", "dev")
_EMPTY = {"tmp": 0o1777, "run": 0o755, "var/tmp": 0o1777}  # the machine's hold sockets and other people's files
_UNWANTED = ("lost+found",)
_SMALL = 64 * 1024
_DISKS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "nfs", "nfs4", "virtiofs", "9p")


class Root:
    """Built in a mount namespace of its own, first without the container's /proc: that shows the pid namespace of who
    mounts it, which nobody joins before the machine's own root is out of his reach."""

    def __init__(self, spec: RootSpec) -> None:
        self._spec = spec
        self._stage = spec["scratch"] + "/root"
        self._layers = 0
        self._writable = ["/"]
        """The mounts that make up the image's part of the root."""
        self._null = -1
        """The container's /dev/null, under whatever a volume puts over it."""

    def build(self) -> int:
        """Make it, and leave this machine's behind. -> the number of its mount namespace"""
        os.umask(0)
        kernel.unshare("mnt")
        number = os.stat("/proc/self/ns/mnt").st_ino
        kernel.mount("none", "/", flags=MS_REC | MS_SLAVE)
        sources = self._open_sources()
        old_root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        descriptors = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.mkdir(self._stage)
        self._build_base()
        kernel.pivot_root(self._stage)
        os.fchdir(descriptors)  # of the old root, which still is there: a source's name is its number
        self._fill(sources)
        os.fchdir(old_root)
        kernel.unmount(".")
        os.chdir("/")
        for descriptor in (*sources.values(), old_root, descriptors):
            os.close(descriptor)
        return number

    def finish(self, proc: int) -> None:
        """Give it its /proc. -1: the one of our own pid namespace, which has to be the container's."""
        if self._spec["fresh_proc"]:
            masks = not (self._spec["privileged"] or self._spec["in_user_namespace"])
            renew_proc(proc, masks=masks, null=self._null)
        os.close(self._null)

    def _open_sources(self) -> dict[str, int]:
        """Opened while their names mean what they mean to the agent."""
        scratch = self._spec["scratch"]
        wanted = [mount["source"] for mount in self._spec["mounts"]] + [file for _, file in self._spec["files"]]
        wanted += ["/proc", "/sys", "/dev", self._spec["shm"]]
        for name, mode in _EMPTY.items():
            path = f"{scratch}/{name.replace('/', '-')}"
            os.mkdir(path)
            os.chmod(path, mode)
            wanted.append(path)
        return {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in wanted if path}

    def _build_base(self) -> None:
        spec = self._spec
        if spec["overlay"] and spec["image"]:
            self._layer(spec["image"], self._stage)
        elif spec["overlay"] and not spec["in_user_namespace"]:
            self._layer("/", self._stage)
            for path in _disks():
                if os.path.isdir(self._stage + path):
                    self._layer(path, self._stage + path)
        else:
            kernel.mount("tmpfs", self._stage, "tmpfs", options="mode=755,size=64m")
            self._take_folders(spec["image"] or "/")

    def _layer(self, lower: str, target: str) -> None:
        self._layers += 1
        upper, work = (f"{self._spec['scratch']}/{kind}{self._layers}" for kind in ("upper", "work"))
        os.mkdir(upper)
        os.mkdir(work)
        found = os.stat(lower)
        if not self._spec["in_user_namespace"]:
            os.chown(upper, found.st_uid, found.st_gid)
        os.chmod(upper, stat.S_IMODE(found.st_mode))
        kernel.overlay(target, lower, upper, work, in_user_namespace=self._spec["in_user_namespace"])
        if target != self._stage:
            self._writable.append(target.removeprefix(self._stage))

    def _take_folders(self, base: str) -> None:
        for entry in os.scandir(base):
            target = f"{self._stage}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), target)
            elif entry.is_dir() and entry.name not in _UNWANTED:
                self._take_folder(entry.path, target)
            elif entry.is_file() and entry.stat().st_size <= _SMALL and os.access(entry.path, os.R_OK):
                _copy(entry.path, target)

    def _take_folder(self, path: str, target: str) -> None:
        """As an overlay. Where other mounts lie below it that is refused to ordinary users: then for reading only."""
        os.mkdir(target, 0o755)
        if os.path.basename(path) in (*_MADE, *_EMPTY) or not os.access(path, os.R_OK | os.X_OK):
            return
        if self._spec["overlay"]:
            try:
                self._layer(path, target)
                return
            except OSError:
                pass
        kernel.mount(path, target, flags=MS_BIND | MS_REC)
        kernel.make_read_only(target, recursive=True)

    def _fill(self, sources: dict[str, int]) -> None:
        spec = self._spec
        for name in _EMPTY:
            if os.path.isdir(f"/{os.path.dirname(name)}"):
                target = point(f"/{name}", folder=True)
                bind(sources[f"{spec['scratch']}/{name.replace('/', '-')}"], target)
                self._writable.append(target)
        mounts = sorted(spec["mounts"], key=lambda mount: mount["target"].rstrip("/").count("/"))
        if spec["read_only"]:
            self._prepare_points(sources, mounts)
            for path in self._writable:
                kernel.make_read_only(path, recursive=False)
        in_user_namespace, privileged = spec["in_user_namespace"], spec["privileged"]
        make_proc(sources["/proc"])
        make_sys(sources["/sys"], read_only=not privileged, masks=not (privileged or in_user_namespace))
        make_device_folder(sources, spec)
        self._null = os.open("/dev/null", os.O_PATH | os.O_CLOEXEC)
        for path, file in spec["files"]:
            bind(sources[file], point(path, folder=False))
        for path in spec["hidden"]:
            hide(path)
        for mount in mounts:
            _mount_volume(sources[mount["source"]], mount)

    def _prepare_points(self, sources: dict[str, int], mounts: list[MountSpec]) -> None:
        """While the root can be written to."""
        for mount in mounts:
            if mount["target"].split("/")[1] not in _MADE:
                point(mount["target"], folder=is_folder(sources[mount["source"]]))
        for path, _ in self._spec["files"]:
            point(path, folder=False)


def _mount_volume(source: int, mount: MountSpec) -> None:
    target = point(mount["target"], folder=is_folder(source))
    bind(source, target, follow=mount["follow"])
    if mount["read_only"]:
        kernel.make_read_only(target, recursive=mount["recursive_read_only"])


def _copy(source: str, target: str) -> None:
    with open(source, "rb") as file, open(target, "wb") as copy:
        copy.write(file.read())
        os.fchmod(copy.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode))


def _disks() -> list[str]:
    """Folders of this machine that lie on disks of their own, outermost first."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            path = fields.split()[4]
            for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
                path = path.replace(code, character)
            first = path.split("/")[1]
            if first and first not in (*_MADE, *_EMPTY) and rest.split()[0] in _DISKS and os.path.isdir(path):
                found.append(path)
    return sorted(set(found))

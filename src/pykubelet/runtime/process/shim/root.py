"""A container's own view of the file system: the layers of an image, or what of this machine's files everybody may see.

Of this machine that is its programs and their settings (`SHOWN`), each folder under an overlay, so that writes stay
private, and without what `hidden` names; all else is new and empty. Volumes are the way to see more. What is the same
in every container is made in memory: there a folder costs a hundredth of one on a disk.
"""

from __future__ import annotations

import errno
import os
import stat

from . import kernel
from .kernel import BENEATH, MS_BIND, MS_NODEV, MS_RDONLY, MS_REC, MS_SLAVE
from .places import (
    DEVICES,
    SAFE,
    copy,
    guard_proc,
    is_folder,
    make_device_folder,
    make_sys,
    own_folder,
    point,
    put,
    renew_proc,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spec import MountSpec, RootSpec

SHOWN = ("usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "var/lib/ca-certificates")
_MADE = ("proc", "sys", "dev")
_EMPTY = {"tmp": 0o1777, "run": 0o755, "var/tmp": 0o1777}
_SKELETON = {
    **dict.fromkeys(("dev", "proc", "sys", "home", "media", "mnt", "opt", "srv", "var", "run", "run/lock"), 0o755),
    **dict.fromkeys(("var/cache", "var/lib", "var/log", "var/opt", "var/spool"), 0o755),
    **dict.fromkeys(("tmp", "var/tmp"), 0o1777),
    "root": 0o700,
}
_GROUPS = "/sys/fs/cgroup"
_LINKS = {"var/run": "/run", "var/lock": "/run/lock"}
_DISKS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "nfs", "nfs4", "virtiofs", "9p")
_WHITEOUT = stat.S_IFCHR  # device 0, by which an overlay knows what is not there


class Root:
    """Built in a mount namespace of its own, first without the container's /proc: that shows the pid namespace of who
    mounts it, which nobody joins before the machine's own root is out of his reach."""

    def __init__(self, spec: RootSpec, working_folder: str) -> None:
        self._spec = spec
        self._working_folder = working_folder
        self._memory = spec["scratch"]
        """A file system that ends with the container, over the place on disk where its own writes go."""
        self._disk = ""
        self._stage = spec["scratch"] + "/root"
        self._layers = 0
        self._writable: list[str] = []
        """The mounts that make up the image's part of the root, from the outermost to the innermost."""
        self._no_devices = 0 if spec["privileged"] else MS_NODEV
        self._root = -1
        self._null = -1
        """The container's /dev/null, under whatever a volume puts over it."""

    def build(self) -> None:
        """Make it, and leave this machine's behind."""
        os.umask(0)
        kernel.unshare("mnt")
        kernel.mount("none", "/", flags=MS_REC | MS_SLAVE)
        disk = os.open(self._spec["scratch"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._disk = f"/proc/self/fd/{disk}"
        machine, volumes = self._take_machine(), self._take_volumes()
        old_root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        kernel.mount("tmpfs", self._memory, "tmpfs", MS_NODEV, "mode=755,size=64m")
        os.mkdir(self._stage, 0o755)
        self._build_base()
        kernel.pivot_root(self._stage)
        os.fchdir(old_root)
        kernel.unmount(".")  # before anything is looked up in the new one: it lies on top of that, and `..` leads there
        os.chdir("/")
        os.close(old_root)
        os.close(disk)
        self._root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._fill(machine, volumes)

    def finish(self, proc: int) -> None:
        """Give it its /proc. -1: the one of our own pid namespace, which has to be the container's."""
        if self._spec["fresh_proc"]:
            renew_proc(self._root, proc)
        if not (self._spec["privileged"] or self._spec["in_user_namespace"]):
            guard_proc(self._root, self._null)
        os.close(self._null)
        os.close(self._root)

    def _take_machine(self) -> dict[str, int]:
        """What a container has of this machine's, and what is made for it, all mounted nowhere yet."""
        spec = self._spec
        whole = spec["in_user_namespace"] or spec["privileged"]
        taken = {path: _take(path, SAFE) for path in ("/proc", *([spec["shm"]] if spec["shm"] else []))}
        taken["/sys"] = _take("/sys", SAFE | (0 if spec["privileged"] else MS_RDONLY), recursive=whole)
        if not whole and os.path.isdir(_GROUPS):
            taken[_GROUPS] = _take(_GROUPS, SAFE | MS_RDONLY)
        for path in ("/dev",) if spec["privileged"] else DEVICES:
            taken[path] = _take(path, 0)
        for _, file in spec["files"]:
            taken[file] = _take(file, self._no_devices)
        for name, mode in self._empty.items():
            path = f"{self._disk}/{name.replace('/', '-')}"
            os.mkdir(path)
            os.chmod(path, mode)
            taken[name] = _take(path, self._no_devices | (MS_RDONLY if spec["read_only"] else 0))
        return taken

    def _take_volumes(self) -> list[tuple[str, int]]:
        """With where they go, the outer ones first."""
        taken = []
        for mount in sorted(self._spec["mounts"], key=lambda mount: mount["target"].rstrip("/").count("/")):
            source = self._open_image(mount) if mount["image"] else _open_volume(mount, mount["source"])
            forbidden = SAFE | MS_RDONLY if mount["image"] else 0 if mount["device"] else self._no_devices
            mounted = copy(source, forbidden, follow=mount["follow"])
            os.close(source)
            if mount["read_only"]:
                kernel.restrict(mounted, MS_RDONLY, recursive=mount["recursive_read_only"])
            taken.append((mount["target"], mounted))
        return taken

    def _open_image(self, mount: MountSpec) -> int:
        """Its layers as one folder, or a part of that, mounted where nobody sees it."""
        try:
            if not self._spec["overlay"]:
                return _open_volume(mount, mount["image"][0])
            self._layers += 1
            place, nothing = (f"{self._disk}/{kind}{self._layers}" for kind in ("image", "nothing"))
            os.mkdir(place)
            os.mkdir(nothing)
            kernel.overlay(place, [*mount["image"], nothing], user_attributes=True)
            return _open_volume(mount, place)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise OSError(error.errno, f"ImageVolumeMountFailed: {mount['inside'] or mount['target']}: {why}") from None

    @property
    def _empty(self) -> dict[str, int]:
        """Folders that are on disk, where an overlay would have put them."""
        return {} if self._spec["image"] or self._spec["overlay"] else _EMPTY

    # --- the base

    def _build_base(self) -> None:
        overlay, image = self._spec["overlay"], self._spec["image"]
        if overlay:
            if not image:
                _make_skeleton(self._memory + "/base")
            self._layer(image or [self._memory + "/base"], self._stage)
        else:
            kernel.mount(image[0] if image else self._stage, self._stage, flags=MS_BIND)
            self._restrict(self._stage, self._no_devices)
            self._writable.append("/")
            if not image:
                _make_skeleton(self._stage)
        if not image:
            self._show_machine()

    def _show_machine(self) -> None:
        disks, others = ([], []) if self._spec["in_user_namespace"] else _mounts()
        hidden = _outermost([*self._spec["hidden"], *others])
        for path in (*(f"/{name}" for name in SHOWN if not os.path.islink(f"/{name}")), *disks):
            if os.path.isdir(self._stage + path) and not any(_is_below(path, each) for each in hidden):
                self._show(path, [each for each in hidden if _is_below(each, path)])

    def _show(self, path: str, hidden: list[str]) -> None:
        """As an overlay. Where other mounts lie below it that is refused to ordinary users: then for reading only."""
        target = self._stage + path
        if self._spec["overlay"]:
            try:
                mask = self._mask(path, hidden)
                in_memory = path == "/etc" and not self._spec["in_user_namespace"]
                self._layer([*([mask] if hidden else []), path], target, in_memory=in_memory)
                return
            except OSError:
                pass
        kernel.mount(path, target, flags=MS_BIND | MS_REC)
        self._restrict(target, MS_RDONLY | self._no_devices, recursive=True)
        for each in hidden:
            self._cover(self._stage + each)

    def _mask(self, folder: str, hidden: list[str]) -> str:
        """A layer that takes away. Also what is not there yet: it may come later, and then it must not be seen."""
        mask = f"{self._memory}/mask{self._layers}"
        os.mkdir(mask)
        self._resemble(mask, folder)
        made = {""}
        for path in hidden:
            *steps, name = path.removeprefix(folder + "/").split("/")
            place = ""
            for step in steps:
                place += f"/{step}"
                if place in made:
                    continue
                if not os.path.isdir(folder + place):
                    break  # the first that is missing stands for all below it
                os.mkdir(mask + place)
                self._resemble(mask + place, folder + place)
                made.add(place)
            else:
                place += f"/{name}"
            try:
                os.mknod(mask + place, _WHITEOUT, 0)
            except FileExistsError:
                continue
        return mask

    def _layer(self, lower: list[str], target: str, *, in_memory: bool = False) -> None:
        """The last of those below is what the top folder looks like. An ordinary user's layers need more of their file
        system than every kernel's memory gives."""
        self._layers += 1
        place = self._memory if in_memory else self._disk
        upper, work = (f"{place}/{kind}{self._layers}" for kind in ("upper", "work"))
        os.mkdir(upper)
        os.mkdir(work)
        self._resemble(upper, lower[-1])
        by_user = self._spec["in_user_namespace"] or bool(self._spec["image"])  # so that their layers are the same
        kernel.overlay(target, lower, upper, work, flags=self._no_devices, user_attributes=by_user)
        self._writable.append(target.removeprefix(self._stage) or "/")

    def _resemble(self, made: str, model: str) -> None:
        found = os.stat(model)
        if not self._spec["in_user_namespace"]:
            os.chown(made, found.st_uid, found.st_gid)
        os.chmod(made, stat.S_IMODE(found.st_mode))

    def _cover(self, path: str) -> None:
        """Without an overlay what must not be seen lies below something empty."""
        if os.path.isdir(path):
            kernel.mount("tmpfs", path, "tmpfs", MS_RDONLY | MS_NODEV, "mode=555,size=4k")
        elif os.path.lexists(path):
            kernel.mount("/dev/null", path, flags=MS_BIND)

    def _restrict(self, path: str, forbidden: int, *, recursive: bool = False) -> None:
        mounted = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        kernel.restrict(mounted, forbidden, recursive=recursive)
        os.close(mounted)

    # --- what goes into it

    def _fill(self, machine: dict[str, int], volumes: list[tuple[str, int]]) -> None:
        spec, root = self._spec, self._root
        for name in self._empty:
            if os.path.isdir(f"/{os.path.dirname(name)}"):
                put(machine[name], point(root, name, folder=True))
        if spec["read_only"]:
            self._prepare_points(volumes)
            for path in self._writable:
                self._restrict(path, MS_RDONLY)
        proc = os.fstat(machine["/proc"]).st_dev
        put(machine["/proc"], own_folder(root, "proc"))
        make_device_folder(root, machine, spec)
        self._null = kernel.open_inside(root, "dev/null", os.O_PATH)
        make_sys(root, machine["/sys"], machine.get(_GROUPS, -1), self._null)
        for path, file in spec["files"]:
            self._put(machine[file], path, proc)
        for path, mounted in volumes:
            self._put(mounted, path, proc)
        self._make_working_folder()

    def _make_working_folder(self) -> None:
        """As root, which the program need not be. Where it cannot be made, entering it will say why."""
        if self._working_folder.lstrip("/").split("/")[0] not in ("proc", "sys"):
            try:
                os.close(point(self._root, self._working_folder, folder=True))
            except OSError:
                return

    def _put(self, mounted: int, path: str, proc: int) -> None:
        target = point(self._root, path, folder=is_folder(mounted))
        found, root = os.fstat(target), os.fstat(self._root)
        if found.st_dev == proc or (found.st_dev, found.st_ino) == (root.st_dev, root.st_ino):
            raise OSError(errno.EPERM, f"cannot mount at {path}: that is {'/proc' if found.st_dev == proc else '/'}")
        put(mounted, target)

    def _prepare_points(self, volumes: list[tuple[str, int]]) -> None:
        """While the root can be written to."""
        for name in _MADE:
            os.close(own_folder(self._root, name))
        for path, mounted in volumes:
            if path.split("/")[1] not in _MADE:
                os.close(point(self._root, path, folder=is_folder(mounted)))
        for path, _ in self._spec["files"]:
            os.close(point(self._root, path, folder=False))
        self._make_working_folder()


def _take(path: str, forbidden: int, *, recursive: bool = True) -> int:
    source = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return copy(source, forbidden, recursive=recursive)
    finally:
        os.close(source)


def _open_volume(mount: MountSpec, place: str) -> int:
    """A part of a volume is opened from the volume on: who can write to it might put a link in the way."""
    whole = os.open(place, os.O_PATH | os.O_CLOEXEC)
    if not mount["inside"]:
        return whole
    try:
        return kernel.open_inside(whole, mount["inside"], os.O_PATH, BENEATH)
    finally:
        os.close(whole)


def _make_skeleton(place: str) -> None:
    """Folders as an ordinary image has them, for this machine's to be shown in."""
    os.makedirs(place, 0o755, exist_ok=True)
    for name, mode in _SKELETON.items():
        os.mkdir(f"{place}/{name}", mode)
    for name, link in _LINKS.items():
        os.symlink(link, f"{place}/{name}")
    for name in SHOWN:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{place}/{name}")
        elif os.path.isdir(f"/{name}"):
            os.mkdir(f"{place}/{name}", 0o755)


def _outermost(paths: list[str]) -> list[str]:
    found: list[str] = []
    for path in sorted(paths):
        if not any(_is_below(path, each) for each in found):
            found.append(path)
    return found


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _mounts() -> tuple[list[str], list[str]]:
    """What is mounted in the folders that are shown: disks, outermost first; and all else, which an overlay would show
    what it covers of."""
    disks: set[str] = set()
    others: set[str] = set()
    shown = tuple(f"/{name}/" for name in SHOWN)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            path = fields.split()[4]
            if not path.startswith(shown):
                continue
            for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
                path = path.replace(code, character)
            is_disk = rest.split()[0] in _DISKS and os.path.isdir(path)
            (disks if is_disk else others).add(path)
    return sorted(disks), sorted(others)

"""What has to be known of a layer together with those below it, looked up without following any link; and layers put
together where there is no overlay to do it."""

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.runtime.process.shim import kernel

FILES: Final = "files"
OPAQUE: Final = "user.overlay.opaque"
"""What a folder has of which nothing below it is seen."""
_ACCOUNTS: Final = ("passwd", "group")
_LARGEST: Final = 1 << 20


def dress(layer: Path, lower: Sequence[Path], implied: Iterable[str]) -> None:
    """Folders that a layer only implies look as the layers below have them; the topmost is the first."""
    owns = os.geteuid() == 0
    for name in implied:
        found = next((os.fstat(each) for folder in lower for each in _folder(folder, name)), None)
        if found is None:
            continue
        for ours in _folder(layer, name):
            if owns:
                os.fchown(ours, found.st_uid, found.st_gid)
            os.fchmod(ours, stat.S_IMODE(found.st_mode))


def inherit_accounts(layer: Path, below: Path | None) -> None:
    """`etc/passwd` and `etc/group` beside a layer's files, as the image has them that ends with this layer."""
    (layer / "etc").mkdir(mode=0o700)
    for name in _ACCOUNTS:
        own = _account_file(layer / FILES, name)
        if own is not None:
            (layer / "etc" / name).write_bytes(own)
        elif below is not None:
            with suppress(FileNotFoundError):
                shutil.copyfile(below / "etc" / name, layer / "etc" / name)


def _account_file(files: Path, name: str) -> bytes | None:
    """Empty when this layer takes it away, or has something else there; None when it says nothing of it."""
    for folder in _folder(files, "etc"):
        try:
            found = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            return b"" if _is_opaque(folder) else None
        except OSError:  # a link, or a whiteout
            return b""
        with open(found, "rb") as file:
            is_file = stat.S_ISREG(os.fstat(found).st_mode)
            return file.read(_LARGEST) if is_file else b""
    return None if not os.path.lexists(files / "etc") else b""


def _folder(root: Path, name: str) -> Iterable[int]:
    """Opened for as long as it is looked at; nothing when there is no such folder."""
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        how = kernel.BENEATH | kernel.NO_LINKS
        found = kernel.open_inside(top, name.strip("/") or ".", os.O_RDONLY | os.O_DIRECTORY, how)
    except OSError:
        return
    finally:
        os.close(top)
    try:
        yield found
    finally:
        os.close(found)


def _is_opaque(folder: int | str) -> bool:
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False


def put_together(layers: Sequence[Path], target: Path) -> None:
    """A copy of an image, for one container alone; the topmost layer is the first."""
    target.mkdir(mode=0o755)
    owns = os.geteuid() == 0
    for layer in reversed(layers):
        _lay_over(str(layer), str(target), owns=owns)


def _lay_over(layer: str, target: str, *, owns: bool) -> None:
    """Folders can be written to meanwhile, whatever they are to be in the end."""
    for entry in os.scandir(layer):
        place, found = f"{target}/{entry.name}", entry.stat(follow_symlinks=False)
        is_folder, is_there = stat.S_ISDIR(found.st_mode), os.path.lexists(place)
        is_below = is_there and not os.path.islink(place) and os.path.isdir(place)
        if is_there and not (is_folder and is_below and not _is_opaque(entry.path)):
            shutil.rmtree(place) if is_below else os.unlink(place)
            is_there = False
        if stat.S_ISCHR(found.st_mode):
            continue  # a whiteout: no other devices are in there
        if is_folder:
            os.chmod(place, 0o700) if is_there else os.mkdir(place, 0o700)
            _lay_over(entry.path, place, owns=owns)
        elif stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(entry.path), place)
        elif stat.S_ISREG(found.st_mode):
            shutil.copyfile(entry.path, place)
        else:
            os.mkfifo(place)
        if owns:
            os.chown(place, found.st_uid, found.st_gid, follow_symlinks=False)
        if not stat.S_ISLNK(found.st_mode):
            shutil.copystat(entry.path, place)

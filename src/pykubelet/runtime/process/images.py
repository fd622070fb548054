"""Images here are this machine itself, or folders that somebody has unpacked: `<image root>/<name>`."""

import hashlib
import os
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from pykubelet.api.codec import DecodeError, decode
from pykubelet.base.errors import Invalid
from pykubelet.pod.ports.runtime import Image, Storage

MACHINE: Final = "machine"
_SIGNS: Final = ("bin", "usr", "etc", "sbin", "lib")
_DEEPEST: Final = 5


class ImageConfig(Struct, frozen=True, kw_only=True):
    """What an image says of itself: the `config` of an OCI image, in `<image root>/<name>.json`."""

    user: str = field(default="", name="User")
    env: tuple[str, ...] = field(default=(), name="Env")
    entrypoint: tuple[str, ...] = field(default=(), name="Entrypoint")
    cmd: tuple[str, ...] = field(default=(), name="Cmd")
    working_dir: str = field(default="", name="WorkingDir")
    stop_signal: str = field(default="", name="StopSignal")


class _ImageFile(Struct, frozen=True):
    config: ImageConfig = ImageConfig()


class Images:
    """All of it blocks: it is called in threads."""

    def __init__(self, root: Path | None) -> None:
        self._root = root

    def folder(self, name: str) -> Path | None:
        """Where an image is unpacked. None: the image is this machine."""
        if self._root is None or not name or name.startswith("/") or ".." in name.split("/"):
            return None
        folder = self._root / name
        return folder.resolve() if folder.is_dir() else None

    def config(self, name: str) -> ImageConfig:
        if self.folder(name) is None or self._root is None:
            return ImageConfig()
        try:
            return decode(_ImageFile, (self._root / f"{name}.json").read_bytes()).config
        except FileNotFoundError:
            return ImageConfig()
        except (OSError, DecodeError) as error:
            raise Invalid(f"image {name} has a configuration that cannot be read: {error}") from None

    def get(self, name: str) -> Image:
        """Every name is known: what nobody has unpacked is this machine."""
        folder = self.folder(name)
        if folder is None:
            return Image(id=MACHINE, names=(name,), pinned=True)
        status = folder.stat()
        text = f"{folder}:{status.st_ino}:{status.st_mtime_ns}"
        digest = hashlib.sha256(text.encode()).hexdigest()
        return Image(id=f"sha256:{digest}", names=(name,), user=self.config(name).user, pinned=True)

    def all(self) -> tuple[Image, ...]:
        names = [] if self._root is None or not self._root.is_dir() else _image_names(self._root, self._root, 0)
        return (Image(id=MACHINE, names=(MACHINE,), pinned=True), *(self.get(name) for name in names))

    def storage(self) -> Storage | None:
        """Where no images are unpacked, this machine is the only one, with its root."""
        try:
            found = os.statvfs(self._root or "/")
        except OSError:
            return None
        return Storage(capacity=found.f_blocks * found.f_frsize, available=found.f_bavail * found.f_frsize)


def _image_names(folder: Path, root: Path, depth: int) -> list[str]:
    """A folder that looks like a root is an image; any other may hold some, as names have slashes."""
    found = []
    for child in sorted(folder.iterdir()):
        if not child.is_dir():
            continue
        if any((child / sign).exists() for sign in _SIGNS) or child.with_name(f"{child.name}.json").exists():
            found.append(str(child.relative_to(root)))
        elif depth < _DEEPEST:
            found += _image_names(child, root, depth + 1)
    return found

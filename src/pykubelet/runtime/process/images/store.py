"""Images on disk: a folder for each layer, unpacked once, and a file for each image. Several processes may use it.

`layers/<chain>` holds a layer's files and what is known of it together with those below it; `records/<id>.json` says
which layers an image has, and its names. Both come to be by being renamed to what they are: whatever is broken off
leaves something in `partial` only. Who is bringing layers holds `lock` together with others; who takes away what no
record names holds it alone. `names` is held for as long as records are read and written.
"""

import fcntl
import logging
import os
import re
import secrets
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

from pykubelet.api.codec import DecodeError, decode
from pykubelet.api.image import parse_image
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.pod.ports.runtime import Image, Storage
from pykubelet.runtime.process.images.layers import FILES, dress, inherit_accounts
from pykubelet.runtime.process.images.manifest import ImageConfig
from pykubelet.runtime.process.images.unpacking import Unpacked
from pykubelet.runtime.process.shim import kernel
from pykubelet.runtime.process.store import read, remove_tree, write

log = logging.getLogger(__name__)

_FACTS: Final = "layer.json"
_ID: Final = re.compile(r"[a-f0-9]{64}")
_DIGITS: Final = re.compile(r"(sha256:)?[a-f0-9]{4,64}")
_TICK: Final = 1_000_000_000
"""Nanoseconds after which a change is sure to be told from the one before."""


class LayerFacts(Struct, frozen=True, kw_only=True):
    size: int
    """Bytes on disk."""


class StoredImage(Struct, frozen=True, kw_only=True):
    id: str
    """The digest of its configuration."""
    names: tuple[str, ...] = ()
    """In full, with a tag."""
    digests: tuple[str, ...] = ()
    """In full, with the digest of its index or manifest."""
    config: ImageConfig = ImageConfig()
    layers: tuple[str, ...] = ()
    """Their chain ids, the lowest first."""
    size: int = 0
    imported: bool = False
    """Nobody can pull it again, so that it stays until a person removes it."""

    def as_image(self) -> Image:
        return Image(
            id=self.id,
            names=(*self.names, *self.digests),
            size=self.size,
            user=self.config.user,
            pinned=self.imported,
        )


class _Mounted(Struct, frozen=True):
    image_id: str = ""


class _Config(Struct, frozen=True):
    mounts: tuple[_Mounted, ...] = ()


class _Use(Struct, frozen=True):
    """What a container's record says of images."""

    image_id: str = ""
    config: _Config = _Config()


class ImageStore:
    """All of it blocks: it is called in threads. `containers` is where it is written down which images are in use."""

    def __init__(self, root: Path, containers: Path) -> None:
        self.root = root
        self._layers = root / "layers"
        self._records = root / "records"
        self._partial = root / "partial"
        self._containers = containers
        self._known: tuple[int, tuple[StoredImage, ...]] | None = None

    def open(self) -> None:
        for folder in (self.root, self._layers, self._records, self._partial):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    # --- what there is

    def all(self) -> tuple[StoredImage, ...]:
        try:
            changed_at = self._records.stat().st_mtime_ns
        except FileNotFoundError:
            return ()
        if self._known is not None and self._known[0] == changed_at:
            return self._known[1]
        is_settled = time.time_ns() - changed_at > _TICK  # else it may change once more without being seen to
        found = tuple(each for path in sorted(self._records.glob("*.json")) if (each := read(path, StoredImage)))
        self._known = (changed_at, found) if is_settled else None
        return found

    def find(self, name: str) -> StoredImage | None:
        """By name or id. Raises Invalid for what is neither."""
        if name.startswith("sha256:"):
            return next((each for each in self.all() if each.id == name), None)
        try:
            full = str(parse_image(name))
        except ValueError as error:
            raise Invalid(str(error)) from None
        return next((each for each in self.all() if full in (*each.names, *each.digests)), None)

    def folders(self, image: StoredImage) -> list[Path]:
        """Those of its layers, the topmost first."""
        return [self._layers / chain / FILES for chain in reversed(image.layers)]

    def accounts(self, image: StoredImage) -> Path:
        """A folder with `etc/passwd` and `etc/group` as the image has them."""
        return self._layers / image.layers[-1] if image.layers else self._records

    def storage(self) -> Storage | None:
        try:
            found = os.statvfs(self.root)
        except OSError:
            return None
        return Storage(capacity=found.f_blocks * found.f_frsize, available=found.f_bavail * found.f_frsize)

    def used(self) -> set[str]:
        """Ids of images that containers are made from, or have mounted."""
        found = set()
        for path in self._containers.glob("*/state.json"):
            with suppress(FileNotFoundError, DecodeError):  # what cannot be read may well be in use
                use = decode(_Use, path.read_bytes())
                found |= {use.image_id, *(mount.image_id for mount in use.config.mounts)}
        return found - {""}

    # --- bringing

    @contextmanager
    def lease(self) -> Iterator[None]:
        """While it is held, no layer goes."""
        with self._locked("lock", fcntl.LOCK_SH):
            yield

    @contextmanager
    def spooled(self, source: IO[bytes]) -> Iterator[IO[bytes]]:
        """What can be read only once, as a file that can be sought in."""
        with self.lease(), tempfile.TemporaryFile(dir=self._partial) as file:
            try:
                shutil.copyfileobj(source, file, 1 << 20)
                file.seek(0)
            except (OSError, EOFError, zlib.error) as error:
                raise Retry(f"it cannot be read, or there is no room for it: {error}") from None
            yield file

    def new_folder(self) -> Path:
        """For a layer that is to come, under a lease. Its files go into `files`."""
        folder = self._partial / secrets.token_hex(8)
        (folder / FILES).mkdir(parents=True, mode=0o755)
        return folder

    def has_layer(self, chain: str) -> bool:
        return (self._layers / chain).is_dir()

    def add_layer(self, folder: Path, chain: str, below: tuple[str, ...], unpacked: Unpacked) -> None:
        """From now on it is there; `below` are those under it, the lowest first. Somebody else may have been faster."""
        lower = [self._layers / each / FILES for each in reversed(below)]
        dress(folder / FILES, lower, unpacked.implied)
        inherit_accounts(folder, self._layers / below[-1] if below else None)
        write(folder / _FACTS, LayerFacts(size=unpacked.size))
        try:
            folder.rename(self._layers / chain)
        except OSError:
            if not self.has_layer(chain):
                raise
            remove_tree(folder)

    def add(self, image: StoredImage) -> StoredImage:
        """Its layers are there, under the same lease. What had one of its names before loses that."""
        facts = (read(self._layers / chain / _FACTS, LayerFacts) for chain in image.layers)
        image = changed(image, size=sum(each.size for each in facts if each is not None))
        _sync(self.root)
        with self._locked("names", fcntl.LOCK_EX):
            before = read(self._path(image.id), StoredImage)
            if before is not None:
                names = tuple(dict.fromkeys((*before.names, *image.names)))
                digests = tuple(dict.fromkeys((*before.digests, *image.digests)))
                imported = before.imported and image.imported
                image = changed(image, names=names, digests=digests, imported=imported)
            self._take_names(image)
            write(self._path(image.id), image)
        return image

    def tag(self, name: str, new: str) -> None:
        try:
            parsed = parse_image(new)
        except ValueError as error:
            raise Invalid(str(error)) from None
        if parsed.digest:
            raise Invalid(f"{new}: a digest cannot be given, only a name with a tag")
        with self._locked("names", fcntl.LOCK_EX):
            image = self._existing(name)
            image = changed(image, names=tuple(dict.fromkeys((*image.names, str(parsed)))))
            self._take_names(image)
            write(self._path(image.id), image)

    def _take_names(self, image: StoredImage) -> None:
        for other in self.all():
            names = tuple(name for name in other.names if name not in image.names)
            if other.id != image.id and names != other.names:
                write(self._path(other.id), changed(other, names=names))

    # --- using and removing

    @contextmanager
    def using(self, *image_ids: str) -> Iterator[None]:
        """While a container that needs them is written down. Raises Retry when one is gone."""
        with self._locked("names", fcntl.LOCK_EX):
            for image_id in image_ids:
                if not self._path(image_id).exists():
                    raise Retry(f"image {image_id} has just been removed")
            yield

    def remove(self, name: str) -> tuple[str, bool]:
        """One of several names, or the whole image. -> its id, and whether it is gone. Raises NotFound, and Invalid
        while a container is made from it."""
        with self._locked("names", fcntl.LOCK_EX):
            image = self._existing(name)
            by_name = not image.id.removeprefix("sha256:").startswith(name.removeprefix("sha256:"))
            left = tuple(each for each in image.names if by_name and each != str(parse_image(name)))
            if left and left != image.names:
                write(self._path(image.id), changed(image, names=left))
                return image.id, False
            if image.id in self.used():
                raise Invalid(f"image {name} is in use: remove the pods that run it first")
            self._path(image.id).unlink()
        self.sweep()
        return image.id, True

    def sweep(self) -> None:
        """Take away what no image has, and what was broken off. Not while something is being brought: later, then."""
        try:
            with self._locked("lock", fcntl.LOCK_EX | fcntl.LOCK_NB):
                gone = list(self._partial.iterdir())
                needed = {chain for image in self._read_all() for chain in image.layers}
                for layer in self._layers.iterdir():
                    if layer.name not in needed:
                        gone.append(layer.rename(self._partial / f"{layer.name}-{secrets.token_hex(4)}"))
        except BlockingIOError:
            return
        for folder in gone:
            remove_tree(folder)

    # --- inside

    def _existing(self, name: str) -> StoredImage:
        """As a person calls it: by its id, the first digits do. Raises Invalid when several begin with them."""
        image = self.find(name) if not _ID.fullmatch(name) else None
        if image is None and _DIGITS.fullmatch(name):
            wanted = f"sha256:{name.removeprefix('sha256:')}"
            found = [each for each in self.all() if each.id.startswith(wanted)]
            if len(found) > 1:
                raise Invalid(f"{name} are the first digits of several images")
            image = next(iter(found), None)
        if image is None:
            raise NotFound(f"there is no image {name} here; see `pykubelet image ls`")
        return image

    def _read_all(self) -> Iterator[StoredImage]:
        """Raises Retry for a record that cannot be read: its layers must not be taken for nobody's."""
        for path in self._records.glob("*.json"):
            image = read(path, StoredImage)
            if image is None:
                raise Retry(f"{path} cannot be read; remove it, and pull the image again")
            yield image

    def _path(self, image_id: str) -> Path:
        return self._records / f"{image_id.removeprefix('sha256:')}.json"

    @contextmanager
    def _locked(self, name: str, how: int) -> Iterator[None]:
        descriptor = os.open(self.root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)


def _sync(folder: Path) -> None:
    """A record must not outlive the layers that it names when the machine loses its power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        kernel.sync(descriptor)
    finally:
        os.close(descriptor)

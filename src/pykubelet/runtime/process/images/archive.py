"""Images from files: what `docker save` writes, and OCI layouts in one archive. Layers are read from where they lie."""

import hashlib
import posixpath
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from typing import IO, Final

from msgspec import Struct, field

from pykubelet.api.codec import DecodeError, decode
from pykubelet.api.image import parse_image
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.images.manifest import (
    Descriptor,
    Document,
    ImageFile,
    chain_ids,
    check_digest,
    checked,
    digest_of,
    document,
    for_this_machine,
    image_file,
)
from pykubelet.runtime.process.images.pull import as_manifest, bring
from pykubelet.runtime.process.images.store import ImageStore, StoredImage
from pykubelet.runtime.process.images.unpack import plain

_MOST_ENTRIES: Final = 100_000
_LARGEST_DOCUMENT: Final = 4 << 20
_CHUNK: Final = 1 << 20
_NAMES: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


class _Saved(Struct, frozen=True):
    """An entry of `manifest.json`."""

    config: str = field(name="Config")
    layers: tuple[str, ...] = field(name="Layers")
    names: tuple[str, ...] = field(default=(), name="RepoTags")


class _Found(Struct, frozen=True, kw_only=True):
    """An image in an archive."""

    image: StoredImage
    file: ImageFile
    layers: tuple[Descriptor, ...]
    paths: tuple[str, ...]
    """Of its layers, in the archive."""


async def import_archive(store: ImageStore, file: IO[bytes], name: str = "") -> list[StoredImage]:
    """All images of an archive. `name` is for one that has none of its own, or another. Raises Invalid."""
    source = plain(file)
    is_sought_in = source is file and file.seekable()
    try:
        with (
            nullcontext(file) if is_sought_in else store.spooled(source) as whole,
            tarfile.open(fileobj=whole, mode="r:") as archive,
        ):
            members = _Members(archive)
            found = _docker_images(members) if "manifest.json" in members else _oci_images(members)
            if not found:
                raise Invalid("there is no image in it")
            if name and len(found) > 1:
                raise Invalid(f"there are {len(found)} images in it, and one name cannot be for all of them")
            return [await _bring(store, members, each, name) for each in found]
    except (tarfile.TarError, EOFError) as error:
        raise Invalid(f"it is not an archive that can be read: {error}") from None


async def _bring(store: ImageStore, members: "_Members", found: _Found, name: str) -> StoredImage:
    paths = dict(zip((each.digest for each in found.layers), found.paths, strict=True))

    async def source(layer: Descriptor) -> AsyncIterator[bytes]:
        digest = hashlib.new(layer.digest.partition(":")[0])
        for data in members.chunks(paths[layer.digest]):
            digest.update(data)
            yield data
        if f"{digest.name}:{digest.hexdigest()}" != layer.digest:
            raise Invalid(f"its layer {layer.digest} is damaged")

    image = changed(found.image, names=_full((name,))) if name else found.image
    return await bring(store, image, found.file, found.layers, source)


class _Members:
    """The files of an archive, by their names."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._found: dict[str, tarfile.TarInfo] = {}
        for count, each in enumerate(archive):
            if count > _MOST_ENTRIES:
                raise Invalid(f"there are more than {_MOST_ENTRIES} files in it: it is no archive of images")
            self._found[posixpath.normpath(each.name)] = each

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def member(self, name: str) -> tarfile.TarInfo:
        found = self._found.get(posixpath.normpath(name))
        if found is not None and found.issym():  # a layer that two images have
            found = self._found.get(posixpath.normpath(posixpath.join(posixpath.dirname(name), found.linkname)))
        if found is None or not found.isreg():
            raise Invalid(f"{name} is missing in it")
        return found

    def read(self, name: str) -> bytes:
        if self.member(name).size > _LARGEST_DOCUMENT:
            raise Invalid(f"{name} is larger than {_LARGEST_DOCUMENT} bytes")
        return b"".join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        file = self._archive.extractfile(self.member(name))
        assert file is not None
        while data := file.read(_CHUNK):
            yield data


def _docker_images(members: _Members) -> list[_Found]:
    try:
        saved = decode(tuple[_Saved, ...], members.read("manifest.json"))
    except DecodeError as error:
        raise Invalid(f"its manifest.json cannot be read: {error}") from None
    found = []
    for each in saved:
        data = members.read(each.config)
        file = image_file(data, len(each.layers))
        layers = []
        for name in each.layers:
            digest = hashlib.sha256()
            for chunk in members.chunks(name):
                digest.update(chunk)
            layers.append(Descriptor(digest=f"sha256:{digest.hexdigest()}", size=members.member(name).size))
        image = _image(digest_of(data), file, each.names)
        found.append(_Found(image=image, file=file, layers=tuple(layers), paths=each.layers))
    return found


def _oci_images(members: _Members) -> list[_Found]:
    if "index.json" not in members:
        raise Invalid("there is neither a manifest.json nor an index.json in it: it is no archive of images")
    found = []
    for entry in document(members.read("index.json")).manifests or ():
        notes = entry.annotations or {}
        names = tuple(filter(_is_name, (notes.get(key, "") for key in _NAMES)))[:1]
        read = _document(members, entry)
        if read.manifests is not None:
            read = _document(members, for_this_machine(read))
        config, layers = as_manifest(read)
        file = image_file(_blob(members, config), len(layers))
        digests = tuple(f"{parse_image(name).repository}@{entry.digest}" for name in names)
        image = changed(_image(config.digest, file, names), digests=digests)
        paths = tuple(_path(each) for each in layers)
        found.append(_Found(image=image, file=file, layers=layers, paths=paths))
    return found


def _image(image_id: str, file: ImageFile, names: tuple[str, ...]) -> StoredImage:
    chains = tuple(chain_ids(file.rootfs.diff_ids))
    return StoredImage(id=image_id, names=_full(names), config=file.config, layers=chains, imported=True)


def _full(names: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(str(parse_image(name)) for name in names)
    except ValueError as error:
        raise Invalid(str(error)) from None


def _is_name(text: str) -> bool:
    """A tag alone, as the standard allows it, names nothing."""
    return "/" in text or ":" in text


def _document(members: _Members, descriptor: Descriptor) -> Document:
    return document(_blob(members, descriptor), descriptor.media_type)


def _blob(members: _Members, descriptor: Descriptor) -> bytes:
    return checked(members.read(_path(descriptor)), descriptor.digest, "a part of it")


def _path(descriptor: Descriptor) -> str:
    return f"blobs/{check_digest(descriptor.digest).replace(':', '/')}"

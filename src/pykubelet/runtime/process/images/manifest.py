"""What images say of themselves: indexes, manifests and configurations of OCI and Docker, and which of them is for this
machine."""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from pykubelet.api.codec import DecodeError, decode
from pykubelet.base.errors import Invalid

INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_CONFIGS: Final = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")
_DIGEST: Final = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")
_MOST_LAYERS: Final = 127
_LARGEST_LAYER: Final = 1 << 40
_ARCHITECTURES: Final = {
    "x86_64": ("amd64", ("", "v1")),
    "aarch64": ("arm64", ("v8", "")),
    "armv7l": ("arm", ("v7", "v6", "v5", "")),
    "armv6l": ("arm", ("v6", "v5", "")),
    "i686": ("386", ("",)),
}
"""By what the kernel calls it: what images do, and which of its kinds run here, the best first."""


class Platform(Struct, frozen=True):
    architecture: str = ""
    os: str = ""
    variant: str = ""


class Descriptor(Struct, frozen=True):
    digest: str
    size: int
    media_type: str = field(default="", name="mediaType")
    platform: Platform | None = None
    annotations: Mapping[str, str] | None = None


class Document(Struct, frozen=True):
    """An index or a manifest."""

    schema_version: int = field(default=0, name="schemaVersion")
    media_type: str = field(default="", name="mediaType")
    manifests: tuple[Descriptor, ...] | None = None
    config: Descriptor | None = None
    layers: tuple[Descriptor, ...] | None = None


class ImageConfig(Struct, frozen=True, kw_only=True):
    """How an image wants to be run."""

    user: str = field(default="", name="User")
    env: tuple[str, ...] = field(default=(), name="Env")
    entrypoint: tuple[str, ...] = field(default=(), name="Entrypoint")
    cmd: tuple[str, ...] = field(default=(), name="Cmd")
    working_dir: str = field(default="", name="WorkingDir")
    stop_signal: str = field(default="", name="StopSignal")


class RootFs(Struct, frozen=True):
    diff_ids: tuple[str, ...] = ()


class ImageFile(Struct, frozen=True):
    """The file that an image's id is the digest of."""

    config: ImageConfig = ImageConfig()
    rootfs: RootFs = RootFs()


def digest_of(data: bytes, like: str = "sha256:") -> str:
    algorithm = like.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def check_digest(digest: str) -> str:
    """Raises Invalid for what is none: it is made part of names."""
    if not _DIGEST.fullmatch(digest):
        raise Invalid(f"{digest[:100]!r} is not a digest that can be checked here")
    return digest


def checked(data: bytes, digest: str, what: str) -> bytes:
    """Raises Invalid when it is not what the digest says."""
    found = digest_of(data, check_digest(digest))
    if found != digest:
        raise Invalid(f"{what} is not what it should be: its digest is {found} instead of {digest}")
    return data


def document(data: bytes, media_type: str = "") -> Document:
    """Raises Invalid for what is neither an index nor a manifest of an image that can run."""
    try:
        read = decode(Document, data)
    except DecodeError as error:
        raise Invalid(f"its manifest cannot be read: {error}") from None
    if read.schema_version == 1 or "v1+prettyjws" in media_type:
        raise Invalid("it is in the first format of Docker images, which nobody writes any more: push it again")
    if read.manifests is None:
        if read.config is None or read.layers is None:
            raise Invalid("its manifest names no layers: it is not an image")
        if read.config.media_type not in ("", *_CONFIGS):
            raise Invalid(f"it is a {read.config.media_type}, not an image that can be run")
        _check_layers(read.layers)
    return read


def _check_layers(layers: Sequence[Descriptor]) -> None:
    if len(layers) > _MOST_LAYERS:
        raise Invalid(f"it has {len(layers)} layers, and at most {_MOST_LAYERS} can be put together")
    for layer in layers:
        check_digest(layer.digest)
        if not 0 <= layer.size <= _LARGEST_LAYER:
            raise Invalid(f"the size of its layer {layer.digest} cannot be: {layer.size}")
        if "foreign" in layer.media_type or "nondistributable" in layer.media_type:
            raise Invalid(f"its layer {layer.digest} may only be had from somewhere else")
        if "encrypted" in layer.media_type:
            raise Invalid(f"its layer {layer.digest} is encrypted")


def image_file(data: bytes, layers: int) -> ImageFile:
    try:
        read = decode(ImageFile, data)
    except DecodeError as error:
        raise Invalid(f"its configuration cannot be read: {error}") from None
    if not layers:
        raise Invalid("it has no layers: there is nothing in it that could be run")
    if len(read.rootfs.diff_ids) != layers:
        raise Invalid(f"it has {layers} layers, but its configuration knows of {len(read.rootfs.diff_ids)}")
    for each in read.rootfs.diff_ids:
        if not check_digest(each).startswith("sha256:"):
            raise Invalid(f"its layer {each} is named by another digest than sha256")
    return read


def for_this_machine(index: Document, machine: str = "") -> Descriptor:
    """Raises Invalid when there is none, with those that there are."""
    machine = machine or os.uname().machine
    name, variants = _ARCHITECTURES.get(machine, (machine, ("",)))
    found: list[tuple[int, Descriptor]] = []
    there = []
    for each in index.manifests or ():
        platform = each.platform
        if platform is None or not platform.architecture:
            if each.media_type in ("", *MANIFESTS, *INDEXES) and len(index.manifests or ()) == 1:
                found.append((len(variants), each))
        elif platform.os == "linux" and platform.architecture == name and platform.variant in variants:
            found.append((variants.index(platform.variant), each))
        elif platform.os != "unknown":
            there.append("/".join(filter(None, (platform.os, platform.architecture, platform.variant))))
    if not found:
        others = f"; there are: {', '.join(there[:20])}" if there else ""
        raise Invalid(f"there is no image for linux/{name}{others}")
    return min(found, key=lambda each: each[0])[1]


def chain_ids(diff_ids: Sequence[str]) -> list[str]:
    """What stands for a layer together with all below it, as a name for a folder."""
    found: list[str] = []
    for each in diff_ids:
        text = f"sha256:{found[-1]} {each}" if found else each
        found.append(hashlib.sha256(text.encode()).hexdigest() if found else each.partition(":")[2])
    return found

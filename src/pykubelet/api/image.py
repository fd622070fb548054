"""Image names: what `busybox` or `registry:5000/team/app:1.2@sha256:...` means in full."""

import re
from typing import Final

from msgspec import Struct

_HUB: Final = "docker.io"
_DOMAIN: Final = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*"
    r"|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
)
_PATH: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_HEX_LENGTH: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_ID: Final = re.compile(r"[a-f0-9]{64}")
_LONGEST_NAME: Final = 255
_LONGEST_TEXT: Final = 1024
"""With a tag and a digest."""


class ImageName(Struct, frozen=True, gc=False):
    repository: str
    """Registry and path: `docker.io/library/busybox`."""
    tag: str
    """`latest` when neither tag nor digest was given."""
    digest: str

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"


def parse_image(text: str) -> ImageName:
    """The full name behind what people write. Raises ValueError with the reason."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"image name {text[:40]!r}... is longer than {_LONGEST_NAME} characters")
    if _ID.fullmatch(text):
        raise ValueError(f"{text!r} is an image id, not a name")
    rest, at, digest = text.partition("@")
    if at:
        _check_digest(text, digest)
    domain, path = _split_domain(rest)
    path, colon, tag = path.partition(":")
    if path != path.lower():
        raise ValueError(f"image name {text!r} must be lower case")
    if not _DOMAIN.fullmatch(domain) or not _PATH.fullmatch(path) or (colon and not _TAG.fullmatch(tag)):
        raise ValueError(f"{text!r} is not an image name, such as registry.example:5000/team/app:1.2")
    if len(domain) + 1 + len(path) > _LONGEST_NAME:
        raise ValueError(f"image name {text[:40]!r}... is longer than {_LONGEST_NAME} characters")
    return ImageName(f"{domain}/{path}", tag or ("" if digest else "latest"), digest)


def _split_domain(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if not slash:
        return _HUB, f"library/{name}"
    if first == "index.docker.io":
        first = _HUB
    elif first != "localhost" and not set(first) & {".", ":"} and first == first.lower():
        return _HUB, name
    if first == _HUB and "/" not in rest:
        rest = f"library/{rest}"
    return first, rest


def _check_digest(text: str, digest: str) -> None:
    algorithm, _, value = digest.partition(":")
    if len(value) != _HEX_LENGTH.get(algorithm, -1) or not re.fullmatch(r"[a-f0-9]+", value):
        raise ValueError(f"the digest of {text!r} is not valid: write sha256: and 64 hexadecimal digits")

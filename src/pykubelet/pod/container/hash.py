"""What makes a container the same container."""

from functools import lru_cache
from typing import Final

from pykubelet.api import codec
from pykubelet.api.container import Container

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


def container_hash(container: Container) -> str:
    """The fingerprint that decides whether a running container still is the one that the spec asks for.

    Upstream prints the JSON of name and image as a Go byte slice and runs FNV-1a over that text. We do the same, so
    that a node can change agents without restarting anything.
    """
    return _hash(container.image, container.name)


@lru_cache(maxsize=4096)
def _hash(image: str, name: str) -> str:
    printed = go_json({"image": image, "name": name})
    text = f"([]uint8)[{' '.join(str(byte) for byte in printed)}]"
    return f"{fnv1a_32(text.encode()):x}"


def go_json(value: object) -> bytes:
    """JSON to the byte as upstream writes it: Go escapes what could harm an HTML page or end a line of JavaScript."""
    printed = codec.encode(value)
    for plain in "<>&\u2028\u2029":
        printed = printed.replace(plain.encode(), f"\\u{ord(plain):04x}".encode())
    return printed


def fnv1a_32(data: bytes) -> int:
    digest = _FNV_OFFSET
    for byte in data:
        digest = ((digest ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return digest


def text_checksum(text: str) -> int:
    """Of a text in one of upstream's checkpoint files: the same hash, over what it prints of such a text."""
    return fnv1a_32(b"(string)" + text.encode())

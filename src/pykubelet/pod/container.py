"""What makes a container the same container."""

from typing import Final

import msgspec

from pykubelet.api.container import Container

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


def container_hash(container: Container) -> str:
    """The fingerprint that decides whether a running container still is the one that the spec asks for.

    Upstream prints the JSON of name and image as a Go byte slice and runs FNV-1a over that text. We do the same, so
    that a node can change agents without restarting anything.
    """
    identity = {"image": container.image, "name": container.name}
    printed = _go_json({key: value for key, value in identity.items() if value or key == "name"})
    text = f"([]uint8)[{' '.join(str(byte) for byte in printed)}]"
    return f"{_fnv1a_32(text.encode()):x}"


def _go_json(value: dict[str, str]) -> bytes:
    """Go escapes what could harm an HTML page; nothing else differs for our two strings."""
    printed = msgspec.json.encode(value)
    for plain, escaped in ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026")):
        printed = printed.replace(plain, escaped)
    return printed


def _fnv1a_32(data: bytes) -> int:
    digest = _FNV_OFFSET
    for byte in data:
        digest = ((digest ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return digest

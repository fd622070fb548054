"""What makes a container the same container."""

from functools import lru_cache

from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.base.fnv import fnv1a


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
    return f"{fnv1a(text.encode()):x}"


def go_json(value: object) -> bytes:
    """JSON to the byte as upstream writes it: Go escapes what could harm an HTML page or end a line of JavaScript."""
    printed = codec.encode(value)
    for plain in "<>&\u2028\u2029":
        printed = printed.replace(plain.encode(), f"\\u{ord(plain):04x}".encode())
    return printed


def text_checksum(text: str) -> int:
    """Of a text in one of upstream's checkpoint files: the same hash, over what it prints of such a text."""
    return fnv1a(b"(string)" + text.encode())

"""The short text that tells the versions of a template apart, in names and labels."""

from typing import Any, Final

import msgspec

from pykubelet.base.fnv import fnv1, fnv1a

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: dict[str, Any], collisions: int | None) -> str:
    """Letters and digits of which no word can be made. `collisions`: how often another had the same already."""
    text = msgspec.json.encode(template, order="deterministic")
    if collisions is not None:
        text += collisions.to_bytes(8, "little")
    return safe(str(fnv1a(text)))


def safe(text: str) -> str:
    return "".join(_ALPHABET[ord(letter) % len(_ALPHABET)] for letter in text)


def data_hash(data: dict[str, Any], collisions: int) -> str:
    """Of what a revision holds."""
    text = msgspec.json.encode(data, order="deterministic").replace(b"<", b"\\u003c").replace(b">", b"\\u003e")
    return safe(str(fnv1(text.replace(b"&", b"\\u0026") + str(collisions).encode())))

"""The short text that tells the versions of a template apart, in names and labels."""

from typing import Any, Final

import msgspec

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_OFFSET: Final = 2166136261
_PRIME: Final = 16777619


def template_hash(template: dict[str, Any], collisions: int | None) -> str:
    """Letters and digits of which no word can be made. `collisions`: how often another had the same already."""
    text = msgspec.json.encode(template, order="deterministic")
    if collisions is not None:
        text += collisions.to_bytes(8, "little")
    return safe(str(fnv32a(text)))


def fnv32a(text: bytes) -> int:
    value = _OFFSET
    for byte in text:
        value = ((value ^ byte) * _PRIME) & 0xFFFFFFFF
    return value


def safe(text: str) -> str:
    return "".join(_ALPHABET[ord(letter) % len(_ALPHABET)] for letter in text)


def data_hash(data: dict[str, Any], collisions: int) -> str:
    """Of what a revision holds."""
    text = msgspec.json.encode(data, order="deterministic").replace(b"<", b"\\u003c").replace(b">", b"\\u003e")
    value = _OFFSET
    for byte in text.replace(b"&", b"\\u0026") + str(collisions).encode():
        value = ((value * _PRIME) & 0xFFFFFFFF) ^ byte
    return safe(str(value))

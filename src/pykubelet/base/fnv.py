"""FNV, the checksum that Kubernetes tells things apart by, of 32 bits."""

from typing import Final

_OFFSET: Final = 0x811C9DC5
_PRIME: Final = 0x01000193


def fnv1a(data: bytes) -> int:
    digest = _OFFSET
    for byte in data:
        digest = ((digest ^ byte) * _PRIME) & 0xFFFFFFFF
    return digest


def fnv1(data: bytes) -> int:
    """The older form."""
    digest = _OFFSET
    for byte in data:
        digest = ((digest * _PRIME) & 0xFFFFFFFF) ^ byte
    return digest

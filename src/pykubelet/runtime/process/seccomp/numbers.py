"""The numbers of system calls by architecture, and which architectures a machine's kernel speaks."""

from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

_TABLE: Final = Path(__file__).with_name("syscalls.txt")
X32_BIT: Final = 0x4000_0000


class Architecture(Struct, frozen=True):
    """As the kernel sees the caller of a system call, which need not be a program for the machine's own."""

    name: str
    """As in the table."""
    token: int
    """The kernel's AUDIT_ARCH of it."""
    bit: int = 0
    """What is added to its numbers: x32 shares the token of x86_64."""


_ALL: Final = {
    each.name: each
    for each in (
        Architecture("x86_64", 0xC000_003E),
        Architecture("x32", 0xC000_003E, X32_BIT),
        Architecture("x86", 0x4000_0003),
        Architecture("aarch64", 0xC000_00B7),
        Architecture("arm", 0x4000_0028),
    )
}
_SPOKEN: Final = {"x86_64": ("x86_64", "x32", "x86"), "aarch64": ("aarch64", "arm")}


def spoken(machine: str) -> tuple[Architecture, ...]:
    """Those in which programs can run on a machine, its own first; none of a machine that is not known."""
    return tuple(_ALL[name] for name in _SPOKEN.get(machine, ()))


@cache
def numbers_of(architecture: str) -> dict[str, int]:
    return {name: number for name, number in _rows(architecture) if number is not None}


@cache
def all_names() -> frozenset[str]:
    """Of any architecture at all, also of those for which there are no numbers here."""
    return frozenset(name for name, _ in _rows("x86_64"))


def _rows(architecture: str) -> list[tuple[str, int | None]]:
    heading, *lines = _TABLE.read_text(encoding="ascii").splitlines()
    column = heading.split().index(architecture)
    rows = (line.split() for line in lines)
    return [(row[0], None if row[column] == "-" else int(row[column]) | _ALL[architecture].bit) for row in rows]

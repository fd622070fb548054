"""The last lines that a container has written before it ended."""

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

_LINES: Final = 10
_BYTES: Final = 16 << 10
_LONGEST: Final = 400


def last_words(folder: str, containers: Iterable[tuple[str, int]]) -> dict[str, str]:
    """By container, for those of them that have said anything; `containers` are names and attempts. It blocks."""
    found = {}
    for name, attempt in containers:
        with suppress(OSError):
            if text := _tail(os.path.join(folder, name, f"{attempt}.log")):
                found[name] = text
    return found


def _tail(path: str) -> str:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _BYTES))
        lines = file.read(_BYTES).decode(errors="replace").splitlines()
    whole = lines[1:] if size > _BYTES else lines
    return "\n".join(_text(line) for line in whole[-_LINES:])


def _text(line: str) -> str:
    """Each line of a log begins with its time, its stream and whether it is whole."""
    parts = line.split(" ", 3)
    text = parts[3] if len(parts) == 4 else line
    return "".join(each if each.isprintable() else "?" for each in text[:_LONGEST])

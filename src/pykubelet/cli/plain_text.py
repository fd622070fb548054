"""Text of strangers, made fit for a terminal: it stays in its place and moves no cursor, and its width is known."""

import re
import unicodedata
from typing import Final

_COMMANDS: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursors
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, clipboards
    r"|\x1b[ -/]*[0-~]"
    r"|[\x80-\x9f]"
)
_TAB: Final = 8


def plain(text: str) -> str:
    """In one line. What is no letter or sign of its own becomes a space."""
    return "".join(each if each.isprintable() else " " for each in text)


def shown(text: str) -> str:
    """A line of a log: what would command a terminal is left out, and so are marks that pile up on letters."""
    if text.isascii() and text.isprintable():
        return text
    text = unicodedata.normalize("NFC", _COMMANDS.sub("", text).expandtabs(_TAB))
    return "".join(each for each in plain(text) if not unicodedata.combining(each))


def width(text: str) -> int:
    """Columns that it takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def fit(text: str, columns: int, *, right: bool = False) -> str:
    """Exactly as many columns: cut with a sign of that, or filled up."""
    text = shown(text)
    taken = width(text)
    if taken > columns:
        text, taken = _cut(text, columns)
    room = " " * (columns - taken)
    return room + text if right else text + room


def wrapped(text: str, columns: int) -> list[str]:
    """In as many lines as it takes, broken where it has to be."""
    lines, text = [], shown(text)
    while width(text) > columns:
        head = _taken(text, columns)
        space = head.rfind(" ")
        head = head[: space + 1] if space > columns // 2 else head
        if not head:
            break  # there is no room for even one
        lines.append(head.rstrip())
        text = text[len(head) :]
    return [*lines, text]


def _cut(text: str, columns: int) -> tuple[str, int]:
    if columns < 1:
        return "", 0
    head = _taken(text, columns - 1)
    return head + "…", width(head) + 1


def _taken(text: str, columns: int) -> str:
    used = 0
    for index, each in enumerate(text):
        used += _columns(each)
        if used > columns:
            return text[:index]
    return text


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1

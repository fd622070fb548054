"""Prometheus' text format, written directly: a scrape of a full node has tens of thousands of lines, too many for an
object each."""

from collections.abc import Iterable
from typing import Final

from aiohttp import web

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_IN_THREAD: Final = 16 << 10
"""Bytes from which on packing is left to a thread."""


def escaped(text: str) -> str:
    """The value of a label. Names come from outside."""
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def family(name: str, kind: str, help_text: str, lines: Iterable[str]) -> str:
    """All series of one name; nothing when there are none."""
    body = "".join(lines)
    return f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n{body}" if body else ""


def answer(text: str) -> web.Response:
    """Packed for those who can unpack it, as every Prometheus can: lines are much alike."""
    response = web.Response(
        body=text.encode(errors="replace"), headers={"Content-Type": CONTENT_TYPE}, zlib_executor_size=_IN_THREAD
    )
    response.enable_compression()
    return response

"""Halves of characters: JSON can spell them, `"\\ud800"`, but no text can hold them, and no answer could be written.

Each becomes the sign for what cannot be shown, as a server in Go has it.
"""

import re
from typing import Final

_SUSPECT: Final = re.compile(rb"\\(?:u|U0000)[dD][89a-fA-F]")
_HEX: Final = rb"[0-9a-fA-F]"
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB]" + _HEX + rb"{2}\\u[dD][c-fC-F]" + _HEX + rb"{2}"  # a whole character
    rb"|(\\u[dD][89a-fA-F]" + _HEX + rb"{2}|\\U0000[dD][89a-fA-F]" + _HEX + rb"{2})"
    rb"|\\.",
    re.DOTALL,
)


def whole(data: bytes) -> bytes:
    """JSON, or YAML in the manner of JSON, without halves of characters."""
    if b"\\" not in data or not _SUSPECT.search(data):
        return data
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], data)

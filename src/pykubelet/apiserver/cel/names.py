"""How the names of fields are written in expressions, whose own names have letters, digits and underscores only."""

import re
from typing import Final

from pykubelet.apiserver.cel.syntax import RESERVED

_SPECIAL: Final = {".": "dot", "-": "dash", "/": "slash", "__": "underscores"}
_PLAIN: Final = {word: sign for sign, word in _SPECIAL.items()}
_ESCAPED: Final = re.compile(r"__([a-z]+)__")


def escaped(name: str) -> str | None:
    """`x-y` -> `x__dash__y`; None when there is no way to write it."""
    if not name or not re.fullmatch(r"[A-Za-z0-9_./-]+", name, re.ASCII) or name[0].isdigit():
        return None
    if name in RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[-./]", lambda found: f"__{_SPECIAL[found.group()]}__", name)


def unescaped(name: str) -> str:
    word = name[2:-2]
    if name == f"__{word}__" and word in RESERVED:
        return word
    return _ESCAPED.sub(lambda found: _PLAIN.get(found[1], found.group()), name)

"""Regular expressions whose time grows with the text and never faster, however they are written.

They come from whoever may create a schema and run on texts of whoever may create an object; Python's own would let two
short ones stop the server. The syntax is RE2's, which is Go's.
"""

from functools import lru_cache
from typing import Any, Final

LONGEST: Final = 4 << 10
"""Characters of a pattern."""


_SHORT: Final = 200
_HEAVY: Final = 40_000
_MOST_BYTES: Final = 1 << 20
"""Of one pattern, ready for use: some forty thousand steps, which take a tenth of a second to make. Many are kept."""


class BadPattern(ValueError):
    """The message says what is wrong with it."""


@lru_cache(maxsize=512)
def compiled(pattern: str) -> Any:
    """With `search` and `finditer`, like Python's. Raises BadPattern."""
    import re2  # only few ever need it

    if len(pattern) > LONGEST:
        raise BadPattern(f"error parsing regexp: it is longer than {LONGEST} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_BYTES
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        what, _, piece = _said(error.args[0] if error.args else pattern).rpartition(": ")
        raise BadPattern(f"error parsing regexp: {what}: `{piece}`") from None


def _said(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def weight(pattern: str) -> int:
    """How much there is to make of a pattern, in steps; of one that is none, as much as was tried at most."""
    try:
        return int(compiled(pattern).programsize)
    except BadPattern:
        return _HEAVY


def matches(pattern: str, text: str) -> bool:
    """Whether it matches anywhere. Raises BadPattern."""
    return _matches(pattern, text) if len(text) <= _SHORT else compiled(pattern).search(text) is not None


@lru_cache(maxsize=4096)
def _matches(pattern: str, text: str) -> bool:
    """The same names, images and versions come again and again."""
    return compiled(pattern).search(text) is not None

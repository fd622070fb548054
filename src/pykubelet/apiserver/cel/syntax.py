"""The words and the forms of an expression: what the lexer finds, and the tree that the parser makes of it."""

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

LONGEST: Final = 64 << 10
"""Characters of an expression."""
RESERVED: Final = frozenset(
    (
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "namespace",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    )
)
_WORDS: Final = frozenset(("true", "false", "null", "in"))
_PATTERN: Final = re.compile(
    r"""(?P<space>[\t\n\f\r ]+|//[^\n]*)
    |(?P<text>(?:[rR][bB]?|[bB][rR]?)?(?:'''|\"\"\"|'|\"))
    |(?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<whole>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.ASCII,
)
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip


class CompileError(ValueError):
    """An expression that cannot be used. The message names the place."""

    def __init__(self, reason: str, source: str = "", at: int = 0) -> None:
        line = source.count("\n", 0, at) + 1
        start = source.rfind("\n", 0, at) + 1
        end = source.find("\n", at)
        shown = source[start : end if end >= 0 else len(source)]
        where = f"ERROR: <input>:{line}:{at - start + 1}: {reason}"
        super().__init__(f"{where}\n | {shown}\n | {'.' * (at - start)}^" if source else reason)
        self.reason = reason


class Token(msgspec.Struct, frozen=True):
    kind: str
    """text, bytes, double, whole, name, sign, word or end"""
    text: str
    value: Any
    at: int


class Node(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    at: int
    """Where it stands in the source."""


class Literal(Node, frozen=True, eq=False):
    value: Any


class Ident(Node, frozen=True, eq=False):
    name: str


class Select(Node, frozen=True, eq=False):
    operand: "Tree"
    field: str
    is_test: bool = False  # has(...)
    is_optional: bool = False


class Index(Node, frozen=True, eq=False):
    operand: "Tree"
    index: "Tree"
    is_optional: bool = False


class Call(Node, frozen=True, eq=False):
    function: str
    target: "Tree | None"
    args: "tuple[Tree, ...]"


class Logic(Node, frozen=True, eq=False):
    """A chain of && or ||."""

    is_and: bool
    args: "tuple[Tree, ...]"


class Choice(Node, frozen=True, eq=False):
    condition: "Tree"
    yes: "Tree"
    no: "Tree"


class ListForm(Node, frozen=True, eq=False):
    items: "tuple[Tree, ...]"
    optional: frozenset[int]


class MapForm(Node, frozen=True, eq=False):
    entries: "tuple[tuple[Tree, Tree], ...]"
    optional: frozenset[int]


class Macro(Node, frozen=True, eq=False):
    """A loop over a list or a map, or something done with what is in an optional."""

    name: str
    operand: "Tree"
    names: tuple[str, ...]
    parts: "tuple[Tree, ...]"


Tree: TypeAlias = Literal | Ident | Select | Index | Call | Logic | Choice | ListForm | MapForm | Macro


def tokens(source: str) -> Iterator[Token]:
    """Raises CompileError."""
    if len(source) > LONGEST:
        raise CompileError(f"the expression is longer than {LONGEST} characters")
    at = 0
    while at < len(source):
        found = _PATTERN.match(source, at)
        if found is None:
            raise CompileError(f"Syntax error: token recognition error at: '{source[at]}'", source, at)
        kind, text = found.lastgroup or "", found.group()
        if kind == "text":
            token, end = _quoted(source, at, text)
            yield token
        else:
            end = found.end()
            if kind != "space":
                yield _token(source, kind, text, at)
        at = end
    yield Token("end", "<EOF>", None, len(source))


def _token(source: str, kind: str, text: str, at: int) -> Token:
    if kind == "double":
        return Token(kind, text, float(text), at)
    if kind == "whole":
        digits = text.rstrip("uU")
        if len(digits) > 40:
            raise CompileError("invalid int literal", source, at)
        value = int(digits, 16) if digits[:2] in ("0x", "0X") else int(digits)
        return Token("unsigned" if digits != text else kind, text, value, at)
    if kind == "name" and text in _WORDS:
        kind = "word"
    return Token(kind, text, text, at)


def _quoted(source: str, at: int, opening: str) -> tuple[Token, int]:
    quote = opening.lstrip("rRbB")
    prefix = opening[: len(opening) - len(quote)].lower()
    start = end = at + len(opening)
    while True:
        if end >= len(source) or (len(quote) == 1 and source[end] in "\n\r"):
            raise CompileError(f"Syntax error: token recognition error at: '{source[at : at + 20]}'", source, at)
        if source.startswith(quote, end):
            break
        end += 2 if source[end] == "\\" and "r" not in prefix else 1
    raw = source[start:end]
    is_bytes = "b" in prefix
    if "r" in prefix:
        value: str | bytes = raw.encode() if is_bytes else raw
    else:
        value = _unescaped(raw, is_bytes, source, at)
    return Token("bytes" if is_bytes else "text", source[at : end + len(quote)], value, at), end + len(quote)


def _unescaped(raw: str, is_bytes: bool, source: str, at: int) -> str | bytes:
    if "\\" not in raw:
        return raw.encode() if is_bytes else raw
    out: list[bytes] = []
    place = 0
    while place < len(raw):
        if raw[place] != "\\":
            out.append(raw[place].encode("utf-8", "surrogatepass"))
            place += 1
            continue
        code, digits, base = raw[place + 1], 0, 16
        if code in _ESCAPES:
            out.append(_ESCAPES[code].encode())
            place += 2
            continue
        if code in "xX":
            start, digits = place + 2, 2
        elif code in "uU" and not is_bytes:
            start, digits = place + 2, 4 if code == "u" else 8
        elif code in "0123":
            start, digits, base = place + 1, 3, 8
        else:
            raise CompileError("Syntax error: unable to unescape string", source, at)
        try:
            number = int(raw[start : start + digits], base)
            if len(raw) < start + digits or not raw[start : start + digits].isalnum():
                raise ValueError
            out.append(bytes([number]) if is_bytes else chr(number).encode())
        except (ValueError, UnicodeError, OverflowError):
            raise CompileError("Syntax error: unable to unescape string", source, at) from None
        place = start + digits
    joined = b"".join(out)
    return joined if is_bytes else joined.decode("utf-8", "surrogatepass")

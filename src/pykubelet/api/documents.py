"""Text that people write, YAML or JSON, read into plain values that remember where they stood.

The reader is built for hostile input: depth, size and the growth of aliases are bounded, a key may occur once, and
every complaint carries a line and a column. YAML is read as Kubernetes reads it: `0644` is octal, `yes` and `on` are
booleans, dates and `12:30` stay text.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.yaml_words import LONGEST_NUMBER
from pykubelet.base.errors import Invalid

MAX_BYTES: Final = 10 << 20

_STEP: Final = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")

NO_KEYS: Final[dict[str, tuple[int, int]]] = {}


class DocumentError(ValueError):
    """Text that cannot be read. Line and column count from 1; 0 means that the place is unknown."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"{line}:{column}: {reason}" if line else reason)
        self.reason = reason
        self.line = line
        self.column = column


class Node:
    """A value and the place where it stands. `weight` counts the values in it, aliases expanded."""

    __slots__ = ("children", "column", "keys", "line", "open", "value", "weight")

    def __init__(self, value: Any, line: int, column: int) -> None:
        self.value = value
        self.line = line
        self.column = column
        self.children: dict[str, Node] | list[Node] | None = None
        self.keys: dict[str, tuple[int, int]] = NO_KEYS
        """Where the names of its members stand."""
        self.open = False
        self.weight = 1


class Document:
    """One document of a file: plain values, and a way to find the place of a field. `text` is that of JSON, which is
    read for places only when somebody asks for one."""

    def __init__(self, value: Any, root: Node | None = None, text: str = "") -> None:
        self.value = value
        self._root = root
        self._text = text

    def place(self, field: str) -> tuple[int, int] | None:
        """Line and column of `spec.containers[0].image`, or of the nearest thing around it that was written down."""
        node = self._nearest(field)
        return (node.line, node.column) if node is not None else None

    def name_place(self, owner: str, name: str) -> tuple[int, int] | None:
        """Where the name of a member of `owner` stands, while `place` is that of a value."""
        node = self._nearest(owner)
        return node.keys.get(name, (node.line, node.column)) if node is not None else None

    def _nearest(self, field: str) -> Node | None:
        if self._text:
            self._root, self._text = _places(self._text), ""
        node = self._root
        if node is None:
            return None
        for name, index in _STEP.findall(field):
            inner = child(node, name or index)
            if inner is None:
                break
            node = inner
        return node

    def fault(self, path: str, field: str, reason: str) -> Invalid:
        """What is wrong with a field of the file at `path`, and where."""
        place = self.place(field)
        where = f"{path}:{place[0]}:{place[1]}" if place else path
        return Invalid(f"{where}: {field}: {reason}" if field else f"{where}: {reason}")


def read_document(path: str, data: bytes, kind: str) -> Document:
    """The only document in the file at `path`. Raises Invalid with the place of the fault."""
    try:
        documents = read_documents(data)
    except DocumentError as error:
        place = f":{error.line}:{error.column}" if error.line else ""
        raise Invalid(f"{path}{place}: {error.reason}") from None
    if len(documents) != 1:
        raise Invalid(f"{path}: must hold one {kind}, but holds {len(documents)} documents")
    return documents[0]


def read_documents(data: bytes, twice: list[str] | None = None) -> list[Document]:
    """All documents in a text, empty ones left out. Raises DocumentError.

    A key that a mapping has twice is an error; with a list to note them in, the last one counts, as for upstream.
    """
    if len(data) > MAX_BYTES:
        raise DocumentError(f"is larger than {MAX_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise DocumentError("is not UTF-8 text", line, column) from None
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [Document(_read_json(text), text=text)]
        except json.JSONDecodeError as error:
            json_error = DocumentError(f"is not JSON: {error.msg}", error.lineno, error.colno)
        except DocumentError as error:
            if twice is None:
                raise
            json_error = error
        try:  # YAML may start with a brace too
            return list(_read_yaml(text, twice))
        except DocumentError:
            raise json_error from None
    return list(_read_yaml(text, twice))


def child(node: Node, step: str) -> Node | None:
    match node.children:
        case dict() as members:
            return members.get(step)
        case list() as items:
            return items[int(step)] if step.isdecimal() and int(step) < len(items) else None
        case _:
            return None


# --- JSON


def _read_json(text: str) -> Any:
    try:
        value = json.loads(
            text,
            object_pairs_hook=_members_once,
            parse_constant=_no_constant,
            parse_float=_finite_float,
            parse_int=_short_int,
        )
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise DocumentError("holds half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise DocumentError("is nested too deeply") from None
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # from the hooks, or a number of thousands of digits
        raise DocumentError(
            error.args[0] if isinstance(error, DocumentError) else "holds a number that is too long"
        ) from None


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise DocumentError(f"key {twice!r} occurs twice in one object")
    return members


def _no_constant(name: str) -> Any:
    raise DocumentError(f"{name} is not a JSON number")


def _short_int(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise DocumentError("holds a number that is too long")
    return int(text)


def _finite_float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise DocumentError("holds a number that is too large")
    return number


def _places(text: str) -> Node | None:
    """JSON is YAML, but for oddities; then no place is known."""
    try:
        return next((each._root for each in _read_yaml(text, [])), None)
    except DocumentError:
        return None


def _read_yaml(text: str, twice: list[str] | None) -> Iterator[Document]:
    from pykubelet.api.yaml_documents import read_yaml  # takes long to load, and clients of the API send JSON

    return read_yaml(text, twice)

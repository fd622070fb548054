"""Text that people write, YAML or JSON, read into plain values that remember where they stood.

The reader is built for hostile input: depth, size and the growth of aliases are bounded, a key may occur once, and
every complaint carries a line and a column. YAML is read as Kubernetes reads it: `0644` is octal, `yes` and `on` are
booleans, dates and `12:30` stay text.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from pykubelet.api.yaml_words import LONGEST_NUMBER, plain
from pykubelet.base.errors import Invalid

MAX_BYTES: Final = 10 << 20
_MAX_DEPTH: Final = 100
_MAX_VALUES: Final = 500_000  # after aliases are expanded
_MAX_WRITTEN: Final = 250_000  # keys and values as they stand there: each takes as long as twenty of JSON

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_STEP: Final = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_TAG: Final = "tag:yaml.org,2002:"


_NO_KEYS: Final[dict[str, tuple[int, int]]] = {}


class DocumentError(ValueError):
    """Text that cannot be read. Line and column count from 1; 0 means that the place is unknown."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"{line}:{column}: {reason}" if line else reason)
        self.reason = reason
        self.line = line
        self.column = column


class _Node:
    """A value and the place where it stands. `weight` counts the values in it, aliases expanded."""

    __slots__ = ("children", "column", "keys", "line", "open", "value", "weight")

    def __init__(self, value: Any, line: int, column: int) -> None:
        self.value = value
        self.line = line
        self.column = column
        self.children: dict[str, _Node] | list[_Node] | None = None
        self.keys: dict[str, tuple[int, int]] = _NO_KEYS
        """Where the names of its members stand."""
        self.open = False
        self.weight = 1


class Document:
    """One document of a file: plain values, and a way to find the place of a field. `text` is that of JSON, which is
    read for places only when somebody asks for one."""

    def __init__(self, value: Any, root: _Node | None = None, text: str = "") -> None:
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

    def _nearest(self, field: str) -> _Node | None:
        if self._text:
            self._root, self._text = _places(self._text), ""
        node = self._root
        if node is None:
            return None
        for name, index in _STEP.findall(field):
            child = _child(node, name or index)
            if child is None:
                break
            node = child
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


def _child(node: _Node, step: str) -> _Node | None:
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


def _places(text: str) -> _Node | None:
    """JSON is YAML, but for oddities; then no place is known."""
    try:
        return next((each._root for each in _read_yaml(text, [])), None)
    except DocumentError:
        return None


# --- YAML


def _read_yaml(text: str, twice: list[str] | None) -> Iterator[Document]:
    try:
        yield from _Builder(twice).documents(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.problem, error.context) if part)
        raise DocumentError(f"is not YAML: {reason}", *((mark.line + 1, mark.column + 1) if mark else ())) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position] if isinstance(error.position, int) else ""
        place = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise DocumentError(f"holds a character that YAML does not allow ({error.reason})", *place) from None
    except yaml.YAMLError as error:
        raise DocumentError(f"is not YAML: {error}") from None


class _Open:
    """A mapping or sequence that is still being read."""

    __slots__ = ("key", "merged", "node")

    def __init__(self, node: _Node) -> None:
        self.node = node
        self.key: yaml.ScalarEvent | None = None  # the key whose value comes next
        self.merged: set[str] = set()  # keys that came with `<<` and may still be overridden


class _Builder:
    """Turns parser events into nodes without recursion, so that depth is ours to bound."""

    def __init__(self, twice: list[str] | None) -> None:
        self._twice = twice
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Node] = {}
        self._root: _Node | None = None
        self._earlier = 0  # the weight of the documents before this one

    def documents(self, events: Iterator[Any]) -> Iterator[Document]:
        for written, event in enumerate(events):
            if written > _MAX_WRITTEN:
                raise DocumentError(f"holds more than {_MAX_WRITTEN:,} keys and values", *_place(event))
            match event:
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.AliasEvent():
                    self._put(self._aliased(event))
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._open(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    node = self._stack.pop().node
                    node.open = False
                    self._put(node)
                case yaml.DocumentEndEvent():
                    if self._root is not None and self._root.value is not None:
                        yield Document(self._root.value, self._root)
                    self._earlier += self._root.weight if self._root is not None else 0
                    self._root = None
                    self._anchors.clear()

    def _awaits_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].node.children, dict) and self._stack[-1].key is None

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if self._awaits_key():
            self._anchor(event, _Node(event.value, *_place(event)))
            self._stack[-1].key = event
            return
        node = _Node(_scalar_value(event), *_place(event))
        self._anchor(event, node)
        self._put(node)

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        if len(self._stack) >= _MAX_DEPTH:
            raise DocumentError(f"is nested more than {_MAX_DEPTH} levels deep", *_place(event))
        if event.tag not in (None, "!", _TAG + ("map" if mapping else "seq")):
            raise DocumentError(f"tag {event.tag} is not supported here", *_place(event))
        if self._awaits_key():
            raise DocumentError("a key must be text", *_place(event))
        node = _Node({} if mapping else [], *_place(event))
        node.children = {} if mapping else []
        node.keys = {} if mapping else _NO_KEYS
        node.open = True
        self._anchor(event, node)
        self._stack.append(_Open(node))

    def _put(self, node: _Node) -> None:
        """A finished value goes where it belongs."""
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1].node
        parent.weight += node.weight
        if self._earlier + parent.weight > _MAX_VALUES:
            reason = f"holds more than {_MAX_VALUES:,} values once its aliases are expanded"
            raise DocumentError(reason, node.line, node.column)
        if isinstance(parent.children, list):
            parent.children.append(node)
            parent.value.append(node.value)
        else:
            self._put_member(self._stack[-1], node)

    def _put_member(self, frame: _Open, node: _Node) -> None:
        key, frame.key = frame.key, None
        if key is None:  # an alias where a key should be
            raise DocumentError("a key must be text", node.line, node.column)
        if key.value == "<<" and not key.style:
            self._merge(frame, node)
            return
        earlier = _child(frame.node, key.value)
        if earlier is not None and key.value not in frame.merged:
            if self._twice is None:
                raise DocumentError(f"key {key.value!r} occurs twice, first on line {earlier.line}", *_place(key))
            self._twice.append(f'line {_place(key)[0]}: key "{key.value}" already set in map')
        frame.merged.discard(key.value)
        frame.node.keys[key.value] = _place(key)
        _set_member(frame.node, key.value, node)

    def _merge(self, frame: _Open, node: _Node) -> None:
        """`<<: *defaults`: take over what is not written here, wherever it is written."""
        for source in node.children if isinstance(node.children, list) else [node]:
            if not isinstance(source.children, dict):
                raise DocumentError("<< needs a mapping, or a list of mappings", node.line, node.column)
            for name, member in source.children.items():
                if _child(frame.node, name) is None:
                    _set_member(frame.node, name, member)
                    frame.merged.add(name)

    def _aliased(self, event: yaml.AliasEvent) -> _Node:
        node = self._anchors.get(event.anchor or "")
        if node is None:
            raise DocumentError(f"alias *{event.anchor} refers to nothing before it", *_place(event))
        if node.open:
            raise DocumentError(f"alias *{event.anchor} stands inside of what it refers to", *_place(event))
        return node

    def _anchor(self, event: yaml.NodeEvent, node: _Node) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node


def _set_member(node: _Node, name: str, member: _Node) -> None:
    assert isinstance(node.children, dict)
    node.children[name] = member
    node.value[name] = member.value


def _place(event: yaml.Event) -> tuple[int, int]:
    assert event.start_mark is not None
    return event.start_mark.line + 1, event.start_mark.column + 1


def _scalar_value(event: yaml.ScalarEvent) -> Any:
    if event.tag is not None and event.tag != "!":
        return _tagged(event)
    if event.style or event.tag == "!":
        return event.value
    return plain(event.value)


def _tagged(event: yaml.ScalarEvent) -> Any:
    kind = (event.tag or "").removeprefix(_TAG)
    if kind == "str":
        return event.value
    if kind == "binary":  # Kubernetes carries bytes as base64 text
        return "".join(event.value.split())
    value = plain(event.value)
    wanted = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}.get(kind)
    if wanted is None:
        raise DocumentError(f"tag {event.tag} is not supported", *_place(event))
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "bool"):  # type: ignore[arg-type]
        raise DocumentError(f"{event.value!r} is not a {kind}", *_place(event))
    return value

"""YAML, read into the documents that JSON is read into, too. It is apart because its parser takes long to load, and a
server whose clients speak JSON never needs it."""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from pykubelet.api.documents import NO_KEYS, Document, DocumentError, Node, child
from pykubelet.api.yaml_words import plain

_MAX_DEPTH: Final = 100
_MAX_VALUES: Final = 500_000  # after aliases are expanded
_MAX_WRITTEN: Final = 250_000  # keys and values as they stand there: each takes as long as twenty of JSON

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG: Final = "tag:yaml.org,2002:"


def read_yaml(text: str, twice: list[str] | None) -> Iterator[Document]:
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

    def __init__(self, node: Node) -> None:
        self.node = node
        self.key: yaml.ScalarEvent | None = None  # the key whose value comes next
        self.merged: set[str] = set()  # keys that came with `<<` and may still be overridden


class _Builder:
    """Turns parser events into nodes without recursion, so that depth is ours to bound."""

    def __init__(self, twice: list[str] | None) -> None:
        self._twice = twice
        self._stack: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._root: Node | None = None
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
            self._anchor(event, Node(event.value, *_place(event)))
            self._stack[-1].key = event
            return
        node = Node(_scalar_value(event), *_place(event))
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
        node = Node({} if mapping else [], *_place(event))
        node.children = {} if mapping else []
        node.keys = {} if mapping else NO_KEYS
        node.open = True
        self._anchor(event, node)
        self._stack.append(_Open(node))

    def _put(self, node: Node) -> None:
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

    def _put_member(self, frame: _Open, node: Node) -> None:
        key, frame.key = frame.key, None
        if key is None:  # an alias where a key should be
            raise DocumentError("a key must be text", node.line, node.column)
        if key.value == "<<" and not key.style:
            self._merge(frame, node)
            return
        earlier = child(frame.node, key.value)
        if earlier is not None and key.value not in frame.merged:
            if self._twice is None:
                raise DocumentError(f"key {key.value!r} occurs twice, first on line {earlier.line}", *_place(key))
            self._twice.append(f'line {_place(key)[0]}: key "{key.value}" already set in map')
        frame.merged.discard(key.value)
        frame.node.keys[key.value] = _place(key)
        _set_member(frame.node, key.value, node)

    def _merge(self, frame: _Open, node: Node) -> None:
        """`<<: *defaults`: take over what is not written here, wherever it is written."""
        for source in node.children if isinstance(node.children, list) else [node]:
            if not isinstance(source.children, dict):
                raise DocumentError("<< needs a mapping, or a list of mappings", node.line, node.column)
            for name, member in source.children.items():
                if child(frame.node, name) is None:
                    _set_member(frame.node, name, member)
                    frame.merged.add(name)

    def _aliased(self, event: yaml.AliasEvent) -> Node:
        node = self._anchors.get(event.anchor or "")
        if node is None:
            raise DocumentError(f"alias *{event.anchor} refers to nothing before it", *_place(event))
        if node.open:
            raise DocumentError(f"alias *{event.anchor} stands inside of what it refers to", *_place(event))
        return node

    def _anchor(self, event: yaml.NodeEvent, node: Node) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node


def _set_member(node: Node, name: str, member: Node) -> None:
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

"""JSON patches (RFC 6902): a list of operations, done one after the other or not at all.

Not the `jsonpatch` library, which serves the tests as an oracle: an API server counts negative indices from the end,
takes what is not there for null in a `test`, and bounds what copies add up to. The library does none of that.
"""

import re
from typing import Any, Final

import msgspec

from pykubelet.apiserver.patch.errors import TOO_LARGE, UNPROCESSABLE, PatchRefused
from pykubelet.apiserver.schema.schema import Json, copied, is_too_deep, same

MOST_OPERATIONS: Final = 10_000
MOST_COPIED_BYTES: Final = 3 << 20

_INDEX: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def apply_json_patch(original: Json, patch: Json) -> Json:
    """-> a new object; neither argument is changed"""
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise PatchRefused(
            "a JSON patch is a list of operations, such as [{'op': 'remove', 'path': '/metadata/labels/a'}]"
        )
    if len(patch) > MOST_OPERATIONS:
        raise PatchRefused(
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(patch)}", TOO_LARGE
        )
    if is_too_deep(patch):
        raise PatchRefused("the patch is nested too deeply")
    document = _Document(copied(original))
    for operation in patch:
        document.do(operation)
    if is_too_deep(document.root):  # moves and copies may have put much into each other
        raise PatchRefused("the patch leaves an object that is nested too deeply")
    return document.root


class _Document:
    def __init__(self, root: Json) -> None:
        self.root = root
        self._bytes_copied = 0

    def do(self, operation: dict[str, Any]) -> None:
        match operation:
            case {"op": "add", "path": str(path), "value": value}:
                _insert(*self._place(path), copied(value))
            case {"op": "remove", "path": str(path)}:
                holder, key = self._existing(path)
                del holder[key]
            case {"op": "replace", "path": "", "value": dict() | list() as value}:
                self.root = copied(value)
            case {"op": "replace", "path": str(path), "value": value}:
                holder, key = self._existing(path)
                holder[key] = copied(value)
            case {"op": "move", "from": str(source), "path": str(path)}:
                if path.startswith(f"{source}/"):
                    raise _unfit(f"{path} lies inside of {source}, and cannot be moved there")
                holder, key = self._existing(source)
                value = holder[key]
                del holder[key]
                _insert(*self._place(path), value)
            case {"op": "copy", "from": str(source), "path": str(path)}:
                holder, key = self._existing(source)
                _insert(*self._place(path), self._copied(holder[key]))
            case {"op": "test", "path": str(path)}:
                if not same(self._tested(path), operation.get("value")):
                    raise _unfit(f"{path} is something else: test failed")
            case _:
                raise _unfit(f"{operation.get('op')!r} is no operation, or lacks something that it needs")

    def _copied(self, value: Json) -> Json:
        self._bytes_copied += len(msgspec.json.encode(value))
        if self._bytes_copied > MOST_COPIED_BYTES:
            raise _unfit(
                f"all copies together make {self._bytes_copied} bytes, exceeding the limit {MOST_COPIED_BYTES}"
            )
        return copied(value)

    def _tested(self, path: str) -> Json:
        """What is not there counts as null, as long as there is something that could hold it."""
        if path == "":
            return self.root
        holder, name = self._place(path)
        return holder.get(name) if isinstance(holder, dict) else holder[_index(len(holder), name)]

    def _existing(self, path: str) -> tuple[Any, Any]:
        """-> what holds the value at the end of a path, and the key or index that it has there"""
        holder, name = self._place(path)
        if isinstance(holder, list):
            return holder, _index(len(holder), name)
        if name not in holder:
            raise _unfit(f"there is no {path}")
        return holder, name

    def _place(self, path: str) -> tuple[Any, str]:
        """-> the object or list in which a path ends, and the last part of the path"""
        first, *parts = (part.replace("~1", "/").replace("~0", "~") for part in path.split("/"))
        value = self.root
        for part in parts[:-1]:
            if isinstance(value, list):
                value = value[_index(len(value), part)]
            else:
                value = value.get(part) if isinstance(value, dict) else None
        if first or not parts or not isinstance(value, dict | list):
            raise _unfit(f"there is no place {path!r}")
        return value, parts[-1]


def _unfit(message: str) -> PatchRefused:
    return PatchRefused(message, UNPROCESSABLE)


def _index(length: int, part: str) -> int:
    """Of one of so many items; counted from the end when it is negative."""
    if not _INDEX.fullmatch(part):
        raise _unfit(f"{part!r} is no index of a list")
    index = int(part)
    if not -length <= index < length:
        raise _unfit(f"there is no item {index} among {length}")
    return index % length


def _insert(holder: Any, name: str, value: Json) -> None:
    if isinstance(holder, dict):
        holder[name] = value
    elif name == "-":
        holder.append(value)
    else:
        holder.insert(_index(len(holder) + 1, name), value)

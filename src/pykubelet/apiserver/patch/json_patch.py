"""JSON patches (RFC 6902): a list of operations, done one after the other or not at all.

Written by hand for the sake of what clients of an API server see: its words for what went wrong, its bounds on what a
patch may ask for, and its habit of taking negative indices as counted from the end.
"""

import re
from collections.abc import Callable
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
        name = operation.get("op")
        do = document.operations.get(name) if isinstance(name, str) else None
        if do is None:
            raise _unfit(f"Unexpected kind: {name if isinstance(name, str) else 'unknown'}")
        do(operation)
    if is_too_deep(document.root):  # moves and copies may have put much into each other
        raise PatchRefused("the patch leaves an object that is nested too deeply")
    return document.root


class _Document:
    def __init__(self, root: Json) -> None:
        self.root = root
        self._bytes_copied = 0
        self.operations: dict[str, Callable[[dict[str, Any]], None]] = {
            "add": self._add,
            "copy": self._copy,
            "move": self._move,
            "remove": self._remove,
            "replace": self._replace,
            "test": self._test,
        }

    def _add(self, operation: dict[str, Any]) -> None:
        path = _pointer(operation, "path", "add")
        holder, key = self._holder(path, f'add operation does not apply: doc is missing path: "{path}": missing value')
        _insert(holder, key, copied(_value(operation)), f"error in add for path: '{path}'")

    def _remove(self, operation: dict[str, Any]) -> None:
        path = _pointer(operation, "path", "remove")
        missing = f'remove operation does not apply: doc is missing path: "{path}": missing value'
        holder, key = self._holder(path, missing)
        _delete(holder, key, f"error in remove for path: '{path}'")

    def _replace(self, operation: dict[str, Any]) -> None:
        path, value = _pointer(operation, "path", "replace"), copied(_value(operation))
        if path == "":
            if not isinstance(value, dict | list):
                raise _unfit("replace operation value must be object or array")
            self.root = value
            return
        holder, key = self._holder(
            path, f"replace operation does not apply: doc is missing path: {path}: missing value"
        )
        missing = f"replace operation does not apply: doc is missing key: {path}: missing value"
        if isinstance(holder, dict):
            if key not in holder:
                raise _unfit(missing)
            holder[key] = value
        else:
            holder[_position(holder, key, missing)] = value

    def _move(self, operation: dict[str, Any]) -> None:
        source = _pointer(operation, "from", "move")
        path = _pointer(operation, "path", "move")
        if path.startswith(source + "/"):
            raise _unfit(f"move operation does not apply: {path} lies inside of {source}")
        holder, key = self._holder(
            source, f"move operation does not apply: doc is missing from path: {source}: missing value"
        )
        value = _read(holder, key, f"error in move for path: '{key}'")
        _delete(holder, key, f"error in move for path: '{key}'")
        missing = f"move operation does not apply: doc is missing destination path: {path}: missing value"
        holder, key = self._holder(path, missing)
        _insert(holder, key, value, f"error in move for path: '{path}'")

    def _copy(self, operation: dict[str, Any]) -> None:
        source = _pointer(operation, "from", "copy")
        holder, key = self._holder(
            source, f"copy operation does not apply: doc is missing from path: {source}: missing value"
        )
        value = _read(holder, key, f"error in copy for from: '{source}'")
        path = _pointer(operation, "path", "copy")
        missing = f"copy operation does not apply: doc is missing destination path: {path}: missing value"
        holder, key = self._holder(path, missing)
        self._bytes_copied += len(msgspec.json.encode(value))
        if self._bytes_copied > MOST_COPIED_BYTES:
            raise _unfit(
                f"Unable to complete the copy, the accumulated size increase of copy is {self._bytes_copied}, "
                f"exceeding the limit {MOST_COPIED_BYTES}"
            )
        _insert(holder, key, copied(value), "error while adding value during copy")

    def _test(self, operation: dict[str, Any]) -> None:
        path = _pointer(operation, "path", "test")
        value = self.root
        if path != "":
            holder, key = self._holder(path, f"test operation does not apply: is missing path: {path}: missing value")
            if isinstance(holder, dict):
                value = holder.get(key)  # what is not there counts as null
            else:
                value = _read(holder, key, f"error in test for path: '{path}'")
        if not same(value, operation.get("value")):
            raise _unfit(f"testing value {path} failed: test failed")

    def _holder(self, path: str, missing: str) -> tuple[Any, str]:
        """-> the object or list that has the last part of a path, and that part"""
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]
        if len(parts) < 2:
            raise _unfit(missing)
        value = self.root
        for part in parts[1:-1]:
            if isinstance(value, dict) and part in value:
                value = value[part]
            elif isinstance(value, list):
                value = value[_position(value, part, missing)]
            else:
                raise _unfit(missing)
        if not isinstance(value, dict | list):
            raise _unfit(missing)
        return value, parts[-1]


def _unfit(message: str) -> PatchRefused:
    return PatchRefused(message, UNPROCESSABLE)


def _pointer(operation: dict[str, Any], name: str, what: str) -> str:
    pointer = operation.get(name)
    if not isinstance(pointer, str):
        raise _unfit(f"{what} operation failed to decode {name}: missing value")
    return pointer


def _value(operation: dict[str, Any]) -> Json:
    if "value" not in operation:
        raise _unfit(f"{operation['op']} operation, missing value field: missing value")
    return operation["value"]


def _position(holder: list[Any], key: str, problem: str) -> int:
    """Where in a list an index points to, counted from the end when it is negative."""
    if not _INDEX.fullmatch(key):
        raise _unfit(f"{problem}: value was not a proper array index: '{key}'")
    index = int(key)
    if not -len(holder) <= index < len(holder):
        raise _unfit(f"{problem}: Unable to access invalid index: {index}: invalid index referenced")
    return index % len(holder)


def _read(holder: Any, key: str, problem: str) -> Json:
    if isinstance(holder, list):
        return holder[_position(holder, key, problem)]
    if key not in holder:
        raise _unfit(f"{problem}: missing value")
    return holder[key]


def _delete(holder: Any, key: str, problem: str) -> None:
    if isinstance(holder, list):
        del holder[_position(holder, key, problem)]
    elif key in holder:
        del holder[key]
    else:
        raise _unfit(f"{problem}: Unable to remove nonexistent key: {key}: missing value")


def _insert(holder: Any, key: str, value: Json, problem: str) -> None:
    if isinstance(holder, dict):
        holder[key] = value
    elif key == "-":
        holder.append(value)
    else:
        holder.insert(_position([*holder, None], key, problem), value)

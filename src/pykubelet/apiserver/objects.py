"""Objects as they are stored and sent: plain JSON, with a head that is always the same.

A stored object begins with its apiVersion, kind and metadata, so that its resourceVersion, which only the store knows,
is put in by cutting and joining bytes: nothing is decoded to answer a get, a list or a watch. Whatever else is found in
the store, because another server wrote it, is read as well: JSON in another order, and protobuf.
"""

import logging
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.schema.protobuf import MAGIC, from_protobuf
from pykubelet.apiserver.schema.schema import Json, ListOf, MapOf, Record, Scalar, Schema, copied, item, zero
from pykubelet.apiserver.store.port import Entry
from pykubelet.base.errors import PykubeletError

log = logging.getLogger(__name__)

T = TypeVar("T")
Object = dict[str, Any]

UNREADABLE: Final = (PykubeletError, AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What may come of an object that no server of ours has written: who reads many leaves that one out."""

_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
_UIDS: Final = 256
_VARIANTS: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""Of a UUID of version 4, as RFC 9562 writes it: the library takes five times as long for one."""
_CUTS: Final = tuple(slice(start, start + 32) for start in range(0, 32 * _UIDS, 32))
_drawn: Final[list[str]] = []
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def encode(value: object) -> bytes:
    return _encode(value)


def stored(obj: Object) -> bytes:
    """The bytes for the store. The resourceVersion is not among them: it is the revision of the write."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("resourceVersion", "selfLink")}
    ordered = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    return _encode({**ordered, **{key: value for key, value in obj.items() if key not in ordered}})


def loaded(value: bytes, revision: int) -> Object:
    obj: Object = from_protobuf(value) if value.startswith(MAGIC) else _decode(value)
    obj.setdefault("metadata", {})["resourceVersion"] = str(revision)
    return obj


def of_entry(entry: Entry) -> Object:
    return loaded(entry.value, entry.revision)


def has_ended(pod: Object) -> bool:
    """Nothing of it will run again."""
    return at(pod, "status.phase") in ("Succeeded", "Failed")


def made_of(entry: Entry | None, make: Callable[[Object], T], otherwise: str) -> T | None:
    """What is made of a stored object; None if there is none, or it cannot be read: then the log says what follows."""
    try:
        return None if entry is None else make(of_entry(entry))
    except UNREADABLE as error:
        log.error("%s cannot be read, and %s: %s", entry.key if entry else "", otherwise, error)
        return None


def sent(value: bytes, revision: int, start: bytes) -> bytes:
    """A stored object as a client gets it."""
    if value.startswith(start):
        return b'%s"resourceVersion":"%d",%s' % (start, revision, value[len(start) :])
    return _encode(loaded(value, revision))


def listed(value: bytes, revision: int, start: bytes) -> bytes:
    """A stored object as the item of a list, which does not repeat apiVersion and kind."""
    if value.startswith(start):
        return b'{"metadata":{"resourceVersion":"%d",%s' % (revision, value[len(start) :])
    obj = loaded(value, revision)
    return _encode({key: inner for key, inner in obj.items() if key not in ("apiVersion", "kind")})


def timestamp(moment: datetime) -> str:
    """As in metadata. Within a second all are alike."""
    return _second(moment.replace(microsecond=0))


def moment(text: str | None) -> datetime | None:
    """None for what is no time. Without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


@lru_cache(maxsize=16)
def _second(moment: datetime) -> str:
    return rfc3339(moment)


def new_uid() -> str:
    """Drawn many at once: each draw asks the kernel, and meanwhile another thread takes its turn."""
    if not _drawn:
        bulk = os.urandom(16 * _UIDS).hex()
        _drawn.extend(map(bulk.__getitem__, _CUTS))
    raw = _drawn.pop()
    variant = _VARIANTS[raw[16]]
    return f"{raw[:8]}-{raw[8:12]}-4{raw[13:16]}-{variant}{raw[17:20]}-{raw[20:]}"


def name_suffix() -> str:
    """Five letters that make a name one of its own."""
    return "".join(random.choices(_SUFFIX, k=5))


def at(obj: Any, path: str, default: Any = None) -> Any:
    """What stands at a dotted path, or the default when there is nothing on the way."""
    for part in path.split("."):
        if not isinstance(obj, dict) or obj.get(part) is None:
            return default
        obj = obj[part]
    return obj


def clean(value: Json, schema: Schema) -> Json:
    """What an API server keeps of a value: no fields that its type does not have, no nulls, nothing empty but what is
    always written, and that even where it was left out."""
    if isinstance(value, dict):
        if isinstance(schema, Record):
            return _clean_record(value, schema)
        if not isinstance(schema, MapOf):
            return copied(value)
        return {name: clean(inner, schema.items) for name, inner in value.items()}
    if isinstance(value, list) and isinstance(schema, ListOf):
        return [clean(inner, item(schema)) for inner in value]
    if value is None and isinstance(schema, Scalar):  # as an item of a list or map, where it cannot be left out
        return zero(schema)
    if isinstance(schema, Scalar) and schema.format == "quantity":
        return str(parse_quantity(str(value)))  # 1000m and 1 are one amount, and are written as one
    return value


def _clean_record(value: dict[str, Json], record: Record) -> dict[str, Json]:
    result, fields = {}, record.fields
    for name, inner in value.items():
        field = fields.get(name)
        if field is None or inner is None:
            continue
        kind = field.type
        if type(kind) is not Scalar or kind.format == "quantity":
            inner = clean(inner, kind)
            if not inner and not field.is_written and isinstance(kind, ListOf | MapOf):
                continue
        elif not inner and field.omits_empty:
            continue
        result[name] = inner
    for name, fill in record.always.items():
        if name not in result:
            result[name] = copied(fill) if type(fill) is dict else fill
    return result


def overlay(raw: Json, known: Json) -> Json:
    """`known`, which is what a typed view made of `raw`, with what that view does not know left as it was."""
    if raw == known:
        return known
    if isinstance(raw, dict) and isinstance(known, dict):
        result = dict(raw)
        for key, value in known.items():
            result[key] = overlay(raw[key], value) if key in raw else value
        return result
    if isinstance(raw, list) and isinstance(known, list) and len(raw) == len(known):
        return [overlay(one, other) for one, other in zip(raw, known, strict=True)]
    return known

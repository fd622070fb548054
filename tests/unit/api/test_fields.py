"""Every field of every API type, against the list of upstream's fields in `tests/data/api_fields.json`."""

import importlib
import json
import pkgutil
import types
import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import pykubelet.api
from pykubelet.api import codec
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.struct import Int32, Int64, IntOrString, MicroTime, Struct, Time

FIELDS: Final[dict[str, dict[str, str]]] = json.loads(
    (Path(__file__).parents[2] / "data" / "api_fields.json").read_text(encoding="utf-8")
)


def _struct_classes() -> dict[str, type[Struct]]:
    names = [module.name for module in pkgutil.iter_modules(pykubelet.api.__path__) if not module.ispkg]
    modules = [importlib.import_module(f"pykubelet.api.{name}") for name in names]
    members = [member for module in modules for member in vars(module).values() if isinstance(member, type)]
    return {member.__name__: member for member in members if issubclass(member, Struct) and member is not Struct}


CLASSES: Final = _struct_classes()
SCALARS: Final[dict[str, Any]] = {
    "bool": bool,
    "int32": Int32,
    "int64": Int64,
    "[]byte": bytes,
    "Time": Time,
    "MicroTime": MicroTime,
    "Quantity": Quantity,
    "IntOrString": IntOrString,
    "ResourceList": ResourceList,
    "FieldsV1": Mapping[str, Any],
}

every_struct = pytest.mark.parametrize("name", sorted(FIELDS))


def _python_type(go: str) -> Any:
    """The Python spelling of a Go type. Whatever is no struct and no known scalar is a named string."""
    if go in SCALARS:
        return SCALARS[go]
    if go.startswith("[]"):
        return types.GenericAlias(tuple, (_python_type(go[2:]), ...))
    if go.startswith("map[string]"):
        return types.GenericAlias(Mapping, (str, _python_type(go.removeprefix("map[string]"))))
    return CLASSES[go] if go in FIELDS else str


def _acceptable_types(go: str) -> list[Any]:
    """A pointer may be None. So may a number, a flag and a time, unless upstream always writes it."""
    plain = _python_type(go.removeprefix("*"))
    if go.startswith("*") or go in ("Time", "MicroTime", "Quantity"):
        return [plain | None]
    return [plain, plain | None] if go in ("bool", "int32", "int64") else [plain]


def _hints(kind: type[Struct]) -> dict[str, Any]:
    """Type by JSON name."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(kind)}


def _is_optional(hint: Any) -> bool:
    return type(None) in typing.get_args(hint)


def _without_none(hint: Any) -> Any:
    kinds = [each for each in typing.get_args(hint) if each is not type(None)]
    return kinds[0] if _is_optional(hint) and len(kinds) == 1 else hint


@every_struct
def test_every_struct_has_exactly_the_fields_of_upstream(name: str) -> None:
    assert sorted(_hints(CLASSES[name])) == sorted(FIELDS[name])


@every_struct
def test_every_field_has_the_type_of_upstream(name: str) -> None:
    hints = _hints(CLASSES[name])
    wrong = {field: hints[field] for field, go in FIELDS[name].items() if hints[field] not in _acceptable_types(go)}
    assert not wrong


@every_struct
def test_a_field_that_may_be_none_is_none_when_absent_and_any_other_is_empty(name: str) -> None:
    empty, hints = CLASSES[name](), _hints(CLASSES[name])
    for field in msgspec.structs.fields(CLASSES[name]):
        value = getattr(empty, field.name)
        if _is_optional(hints[field.encode_name]):
            assert value is None, field.name
        else:
            assert value in ("", 0, False, (), {}) or value == type(value)(), field.name


@every_struct
def test_an_object_with_every_field_set_survives_the_round_trip(name: str) -> None:
    full = _full(CLASSES[name], count(1))
    data = codec.encode(full)
    assert sorted(json.loads(data)) == sorted(FIELDS[name])
    assert codec.decode(CLASSES[name], data) == full
    assert codec.convert(CLASSES[name], json.loads(data)) == full
    assert codec.encode_canonical(codec.decode(CLASSES[name], data)) == codec.encode_canonical(full)


@every_struct
def test_an_empty_object_survives_the_round_trip(name: str) -> None:
    empty = CLASSES[name]()
    assert codec.decode(CLASSES[name], codec.encode(empty)) == empty
    assert codec.decode(CLASSES[name], b"{}") == empty


@every_struct
def test_a_null_in_any_field_means_absent(name: str) -> None:
    data = json.dumps(dict.fromkeys(FIELDS[name]))
    assert codec.decode(CLASSES[name], data) == CLASSES[name]()
    assert codec.convert(CLASSES[name], json.loads(data)) == CLASSES[name]()


@every_struct
def test_an_explicit_zero_survives_and_is_not_the_same_as_absent(name: str) -> None:
    kind = CLASSES[name]
    for field, zero in _zeros(kind).items():
        explicit = codec.decode(kind, json.dumps({field: zero}))
        written = codec.to_builtins(explicit)
        assert field in written, field
        assert codec.decode(kind, json.dumps(written)) == explicit, field
        if _is_optional(_hints(kind)[field]):
            assert explicit != kind(), field
            assert written[field] == zero or isinstance(zero, dict), field


@every_struct
def test_an_empty_list_map_or_text_is_the_same_as_absent(name: str) -> None:
    for field, hint in _hints(CLASSES[name]).items():
        origin = typing.get_origin(hint)
        empty: Any = [] if origin is tuple else {} if origin is Mapping else "" if hint is str else None
        assert codec.decode(CLASSES[name], json.dumps({field: empty})) == CLASSES[name](), field


def test_equal_objects_have_equal_canonical_bytes_whatever_the_order_of_their_maps() -> None:
    one = codec.decode(CLASSES["ObjectMeta"], b'{"labels":{"a":"1","b":"2"},"name":"x"}')
    other = codec.decode(CLASSES["ObjectMeta"], b'{"name":"x","labels":{"b":"2","a":"1"}}')
    assert one == other
    assert codec.encode_canonical(one) == codec.encode_canonical(other)


def _zeros(kind: type[Struct]) -> dict[str, Any]:
    """JSON name -> the zero of each field that tells a zero from nothing."""
    zeros: dict[str, Any] = {}
    for field, hint in _hints(kind).items():
        plain = _without_none(hint)
        if isinstance(plain, type) and issubclass(plain, Struct):
            zeros[field] = {}
        elif plain is bool:
            zeros[field] = False
        elif plain in (Int32, Int64, IntOrString):
            zeros[field] = 0
        elif plain is Quantity:
            zeros[field] = "0"
        elif plain is str and _is_optional(hint):
            zeros[field] = ""
    return zeros


def _full(hint: Any, numbers: "count[int]") -> Any:
    """A value of a type with all that it can hold, no two numbers or texts alike."""
    hint = _without_none(hint)
    number = next(numbers)
    samples: dict[Any, Any] = {
        bool: True,
        Int32: number,
        Int64: 2**40 + number,
        str: f"text-{number}",
        bytes: f"bytes-{number}\xff".encode("latin-1"),
        Time: datetime.fromtimestamp(1_700_000_000 + number, UTC),
        MicroTime: MicroTime.of(datetime.fromtimestamp(1_700_000_000 + number, UTC).replace(microsecond=number)),
        Quantity: Quantity(number * 10**6),
        Any: {f"f:{number}": {}},
    }
    if hint in samples:
        return samples[hint]
    arguments = typing.get_args(hint)
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return _full(arguments[number % len(arguments)], numbers)
    if typing.get_origin(hint) is tuple:
        return (_full(arguments[0], numbers), _full(arguments[0], numbers))
    if typing.get_origin(hint) is Mapping:
        return {f"key-{next(numbers)}": _full(arguments[1], numbers) for _ in range(2)}
    hints = typing.get_type_hints(hint, include_extras=True)
    return hint(**{field.name: _full(hints[field.name], numbers) for field in msgspec.structs.fields(hint)})

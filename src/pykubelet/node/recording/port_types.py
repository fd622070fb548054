"""What a port can be asked, read from its contract: a recording needs no table of its own that could be forgotten.

A port that is new among the agent's Dependencies is recorded as soon as it is there.
"""

import inspect
from collections import abc
from collections.abc import AsyncGenerator, Awaitable, Mapping
from enum import Enum, auto
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from pykubelet.node.dependencies import Dependencies
from pykubelet.pod.ports.runtime import Capabilities

NOT_RECORDED: Final = frozenset({"journal", "now"})
"""Fields of the Dependencies that a recording has its own of."""


class Way(Enum):
    """How something outside is used."""

    CALL = auto()
    """It is asked, and answers in its time."""
    STREAM = auto()
    """It is listened to."""
    SAY = auto()
    """It is told, or answers at once."""
    LOOK = auto()
    """It says what is the case at the moment, and mostly the same as before."""
    MAKE = auto()
    """It gives another port, or none."""


class Method(NamedTuple):
    way: Way
    gives: Any
    """The type of what comes back; NoneType: nothing."""
    parameters: tuple[str, ...] = ()
    """By position. What has no name here has none in the contract either."""


class Fields(NamedTuple):
    """The Dependencies, sorted, by their names. Those of a part that has parts itself are named `part.name`."""

    ports: dict[str, Any]
    port_maps: dict[str, Any]
    """Several of a kind, by name."""
    functions: dict[str, Method]
    settings: dict[str, Any]
    """Plain values, by their types."""
    groups: dict[str, Any]
    """Parts that have parts."""


@cache
def fields() -> Fields:
    found = Fields({}, {}, {}, {}, {})
    _sort(found, Dependencies, "")
    return found


def _sort(found: Fields, whole: type[Struct], prefix: str) -> None:
    for field, hint in get_type_hints(whole).items():
        name, kind = f"{prefix}{field}", _without_none(hint)
        if name in NOT_RECORDED:
            continue
        if _is_protocol(kind):
            found.ports[name] = kind
        elif get_origin(kind) is Mapping and _is_protocol(get_args(kind)[1]):
            found.port_maps[name] = get_args(kind)[1]
        elif get_origin(kind) is abc.Callable:
            found.functions[name] = _function(*get_args(kind))
        elif _has_parts(kind):
            found.groups[name] = kind
            _sort(found, kind, f"{name}.")
        else:
            found.settings[name] = hint


def _function(arguments: Any, gives: Any) -> Method:
    if get_origin(gives) is Awaitable:
        return Method(Way.CALL, _given(get_args(gives)[0]))
    if _is_protocol(_without_none(gives)):
        return Method(Way.MAKE, _without_none(gives))
    return Method(Way.SAY if arguments or _given(gives) is NoneType else Way.LOOK, _given(gives))


@cache
def methods(port: Any) -> Mapping[str, Method]:
    """By name."""
    found = {}
    for name, function in vars(port).items():
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        gives = get_type_hints(function).get("return", NoneType)
        way = Way.CALL if inspect.iscoroutinefunction(function) else Way.SAY
        if get_origin(gives) is AsyncGenerator:
            way, gives = Way.STREAM, get_args(gives)[0]
        parameters = tuple(inspect.signature(function).parameters)[1:]
        found[name] = Method(way, gives, parameters)
    return found


@cache
def capability_functions() -> Mapping[str, Method]:
    """What a runtime can be asked beyond the contract of all."""
    hints = {name: _without_none(hint) for name, hint in get_type_hints(Capabilities).items()}
    functions = {name: get_args(kind) for name, kind in hints.items() if get_origin(kind) is abc.Callable}
    return {name: _function(*each) for name, each in functions.items() if get_origin(each[1]) is Awaitable}


@cache
def capability_settings() -> Mapping[str, Any]:
    return {name: hint for name, hint in get_type_hints(Capabilities).items() if hint in (bool, str, int)}


def _given(gives: Any) -> Any:
    return NoneType if gives is None else gives


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, UnionType):
        return hint
    others = [each for each in get_args(hint) if each is not NoneType]
    return others[0] if len(others) == 1 else hint


def _is_protocol(kind: Any) -> bool:
    return isinstance(kind, type) and bool(getattr(kind, "_is_protocol", False))


def _has_parts(kind: Any) -> bool:
    """Whether it is more than a plain value."""
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return False
    inside = [_without_none(hint) for hint in get_type_hints(kind).values()]
    return any(_is_protocol(each) or get_origin(each) is abc.Callable for each in inside)

"""What a port can be asked, read from its contract: a recording needs no table of its own that could be forgotten.

A port that is new among the agent's Dependencies is recorded as soon as it is there.
"""

import inspect
from collections import abc
from collections.abc import AsyncGenerator, Awaitable, Mapping
from enum import Enum, auto
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from pykubelet.node.dependencies import Dependencies
from pykubelet.pod.ports.runtime import Capabilities

NOT_RECORDED = frozenset({"journal", "now"})
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


class Method(NamedTuple):
    way: Way
    gives: Any
    """The type of what comes back; NoneType: nothing."""
    parameters: tuple[str, ...] = ()
    """By position. What has no name here has none in the contract either."""


class Fields(NamedTuple):
    """The Dependencies, sorted."""

    ports: dict[str, Any]
    port_maps: dict[str, Any]
    """Several of a kind, by name."""
    functions: dict[str, Method]
    settings: dict[str, Any]
    """Plain values, by their types."""


@cache
def fields() -> Fields:
    found = Fields({}, {}, {}, {})
    for name, hint in get_type_hints(Dependencies).items():
        if name in NOT_RECORDED:
            continue
        kind = _without_none(hint)
        if _is_protocol(kind):
            found.ports[name] = kind
        elif get_origin(kind) is Mapping and _is_protocol(get_args(kind)[1]):
            found.port_maps[name] = get_args(kind)[1]
        elif get_origin(kind) is abc.Callable:
            arguments, gives = get_args(kind)
            nothing = gives in (None, NoneType)
            way = Way.SAY if arguments or nothing else Way.LOOK
            found.functions[name] = Method(way, NoneType if nothing else gives)
        else:
            found.settings[name] = hint
    return found


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
    found = {}
    for name, hint in get_type_hints(Capabilities).items():
        kind = _without_none(hint)
        if get_origin(kind) is abc.Callable and get_origin(get_args(kind)[1]) is Awaitable:
            gives = get_args(get_args(kind)[1])[0]
            found[name] = Method(Way.CALL, NoneType if gives is None else gives)
    return found


@cache
def capability_settings() -> Mapping[str, Any]:
    return {name: hint for name, hint in get_type_hints(Capabilities).items() if hint in (bool, str, int)}


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, UnionType):
        return hint
    others = [each for each in get_args(hint) if each is not NoneType]
    return others[0] if len(others) == 1 else hint


def _is_protocol(kind: Any) -> bool:
    return isinstance(kind, type) and bool(getattr(kind, "_is_protocol", False))

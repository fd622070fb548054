"""The KubeletConfiguration in force, in upstream's JSON: `/configz` serves it, and it can be handed back as a file."""

from collections.abc import Mapping
from typing import Any, Final

from pykubelet.api import codec
from pykubelet.api.durations import format_duration, parse_duration
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.config.option import Kind, Option
from pykubelet.config.options import OPTIONS

MASKED: Final = "<masked>"
"""Stands for what nobody is told."""
_ALWAYS: Final = ("authentication.x509", "crashLoopBackOff", "memorySwap")
"""Groups that are written even with nothing in them."""


def configz(values: Mapping[str, Any]) -> dict[str, Any]:
    """From the values of all options by their keys."""
    fields = {option.field: _written(option, values[option.key]) for option in OPTIONS if option.field}
    whole: dict[str, Any] = {}
    for group in _ALWAYS:
        put(whole, group, {})
    for field, value in sorted(fields.items()):
        if value is not None:
            put(whole, field, value)
    return whole


def put(whole: dict[str, Any], field: str, value: Any) -> None:
    *groups, name = field.split(".")
    for group in groups:
        whole = whole.setdefault(group, {})
    whole[name] = value


def _written(option: Option, value: Any) -> Any:
    """None for what upstream does not write."""
    if value is None:
        return None
    match option.kind:
        case Kind.PERIOD | Kind.DURATION | Kind.EXACT_DURATION | Kind.SIGNED_DURATION:
            return format_duration(parse_duration(value))
        case Kind.FLUSH_PERIOD:
            return format_duration(parse_duration(value) if isinstance(value, str) else value / 1e9)
        case Kind.QUANTITY:
            return str(parse_quantity(str(value)))
        case Kind.HEADERS:
            return {name: [MASKED] for name in value} or None
        case Kind.TRUTH | Kind.NUMBER | Kind.LONG | Kind.FLOAT:
            return value
        case Kind.TEXT if option.key == "containerRuntimeEndpoint":
            return value
        case Kind.TAINTS:
            return codec.to_builtins(value) or None
        case Kind.LIST | Kind.ADDRESSES | Kind.VMODULE | Kind.GRACE_PERIODS | Kind.MEMORY:
            return list(value) or None
        case Kind.TEXT_OR_NOTHING:
            return value
    return value or None

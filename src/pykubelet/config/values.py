"""What is made of a value that a file or a flag gives: seconds of a duration, bytes of a size, and so on."""

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from pykubelet.api.durations import parse_duration
from pykubelet.api.quantity import ResourceList
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.base.errors import Invalid
from pykubelet.config.feature_gates import feature_gates
from pykubelet.config.option import Kind, Option
from pykubelet.pod.pinning.cpu_set import CpuSet, parse_cpu_set

_RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")


def setting(option: Option, value: Any) -> Any:
    """As the rooms want it. Raises Invalid, which names the option."""
    match option.kind:
        case Kind.PERIOD:
            return _seconds(option.key, value) or _seconds(option.key, option.default)
        case Kind.SIGNED_DURATION:
            return _seconds(option.key, value.removeprefix("-")) * (-1 if value.startswith("-") else 1)
        case Kind.FLUSH_PERIOD:
            return _seconds(option.key, value if isinstance(value, str) else f"{value}ns")
        case Kind.GATES:
            return feature_gates(value)
        case Kind.VMODULE:
            return tuple((each["filePattern"], each["verbosity"]) for each in value)
    made = _MADE.get(option.kind)
    return made(option.key, value) if made else value


def _seconds(name: str, text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        _refuse(name, error)
    if seconds < 0:
        _refuse(name, f"must not be negative, got {text}")
    return seconds


def _quantity(name: str, written: str | int) -> int:
    try:
        return parse_quantity(str(written)).value
    except ValueError as error:
        _refuse(name, error)


def _bytes(name: str, text: str) -> int:
    amount = _quantity(name, text)
    if amount <= 0:
        _refuse(name, f"must be positive, got {text}")
    return amount


def _address(name: str, text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        _refuse(name, f"{text!r} is not an address")
    return text


def _addresses(name: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_address(name, text) for text in texts)


def _amounts(name: str, given: Mapping[str, str]) -> ResourceList:
    amounts = {}
    for resource, text in given.items():
        if resource not in _RESERVABLE:
            _refuse(name, f"{resource!r} cannot be reserved; there are {', '.join(_RESERVABLE)}")
        try:
            amounts[resource] = parse_quantity(text)
        except ValueError as error:
            _refuse(f"{name}.{resource}", error)
        if amounts[resource].sign < 0:
            _refuse(f"{name}.{resource}", f"must not be negative, got {text}")
    return amounts


def _refuse(name: str, reason: object) -> NoReturn:
    raise Invalid(f"{name}: {reason}") from None


_MADE: Final[Mapping[Kind, Callable[[str, Any], Any]]] = {
    Kind.DURATION: _seconds,
    Kind.EXACT_DURATION: _seconds,
    Kind.SIZE: _bytes,
    Kind.QUANTITY: _quantity,
    Kind.ADDRESS: _address,
    Kind.ADDRESSES: _addresses,
    Kind.RESOURCES: _amounts,
}


def cpu_set(name: str, text: str) -> CpuSet:
    """`0-3,8` -> the numbers of the processors. Raises Invalid."""
    try:
        return parse_cpu_set(text)
    except ValueError as error:
        _refuse(name, error)

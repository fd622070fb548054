"""The one door for typed objects: JSON bytes or plain Python values in, Structs out, and back.

Whatever is wrong with the input becomes a `DecodeError` with the field's path; nothing else gets out.
Text that people write (YAML, hand-made JSON) is first read by `documents`, which knows lines and columns.
"""

import gc
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import msgspec

from pykubelet.api import quantity
from pykubelet.api.quantity import Quantity
from pykubelet.api.struct import MicroTime

T = TypeVar("T")

_PLACE = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
_LARGE = 1 << 20


class DecodeError(ValueError):
    """Input that is not what it should be. `field` is the path, or "" when the text itself is broken."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason = reason
        self.field = field


def decode(kind: type[T], data: bytes | str | msgspec.Raw) -> T:
    """JSON to a typed object. A null means absent, everywhere, as it does for Kubernetes."""
    with _gc_held_off(0 if isinstance(data, msgspec.Raw) else len(data)):
        try:
            return cast(T, _decoder(kind)(data))
        except msgspec.ValidationError as error:
            if "got `null`" not in str(error):
                raise _explained(error) from None
            return convert(kind, decode_any(data))
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _explained(error) from None


def decode_any(data: bytes | str | msgspec.Raw) -> Any:
    """JSON to plain Python values."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _explained(error) from None


def convert(kind: type[T], value: object) -> T:
    """Plain Python values (as YAML gives them) to a typed object."""
    try:
        return msgspec.convert(value, kind, dec_hook=_from_wire, strict=True)
    except msgspec.ValidationError as error:
        if "got `null`" not in str(error):
            raise _explained(error) from None
    except RecursionError as error:
        raise _explained(error) from None
    try:
        return msgspec.convert(_without_nulls(value), kind, dec_hook=_from_wire, strict=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _explained(error) from None


def encode(value: object) -> bytes:
    """A typed object to JSON."""
    return _ENCODER.encode(value)


def encode_canonical(value: object) -> bytes:
    """A typed object to JSON with sorted keys: equal objects give equal bytes."""
    return _CANONICAL_ENCODER.encode(value)


def to_builtins(value: object) -> Any:
    """A typed object to plain Python values, as JSON would show them."""
    return msgspec.json.decode(encode(value))


def _from_wire(kind: type[Any], value: object) -> object:
    if kind is Quantity:
        if isinstance(value, str):
            return quantity.parse(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return quantity.parse(repr(value))
        raise ValueError("a quantity is text or a number, such as 250m or 2")
    if kind is MicroTime:
        if isinstance(value, str):
            return MicroTime.parse(value)
        raise ValueError("a time is text, such as 2026-01-02T15:04:05.000000Z")
    raise NotImplementedError(f"no decoder for {kind}")


def _to_wire(value: object) -> object:
    if isinstance(value, Quantity | MicroTime):
        return str(value)
    raise NotImplementedError(f"no encoder for {type(value)}")


_ENCODER = msgspec.json.Encoder(enc_hook=_to_wire)
_CANONICAL_ENCODER = msgspec.json.Encoder(enc_hook=_to_wire, order="sorted")


_DECODERS: dict[type[Any], Callable[[bytes | str | msgspec.Raw], Any]] = {}


def _decoder(kind: type[Any]) -> Callable[[bytes | str | msgspec.Raw], Any]:
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind, dec_hook=_from_wire).decode
    return decoder


@contextmanager
def _gc_held_off(size: int) -> Iterator[None]:
    """Collections in the middle of a large decode find nothing and cost three times the decode itself."""
    hold = size >= _LARGE and gc.isenabled()
    if hold:
        gc.disable()
    try:
        yield
    finally:
        if hold:
            gc.enable()


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _explained(error: Exception) -> DecodeError:
    if isinstance(error, RecursionError):
        return DecodeError("is nested too deeply")
    if isinstance(error, UnicodeDecodeError | UnicodeEncodeError):
        return DecodeError(f"is not UTF-8: {error.reason} at byte {error.start}")
    text = str(error)
    match = _PLACE.search(text)
    reason = text[: match.start()] if match else text
    reason = reason.replace("`", "")
    if not isinstance(error, msgspec.ValidationError):
        return DecodeError(f"is not JSON: {reason}")
    return DecodeError(reason[:1].lower() + reason[1:], match[1].replace("[...]", "[]") if match else "")

"""The base of every API type, and the scalar types they share.

Three rules make a Struct mean what the API means:
- an optional number, flag or object is None when absent, so that an explicit 0, false or {} survives;
- an optional list, map or string is empty when absent: Kubernetes makes no difference between the two
  (where it does, as for `storageClassName`, the field may be None);
- a field that Kubernetes always writes, even when it is empty, is `written(kind)`.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Self, TypeVar

import msgspec

from pykubelet.api.names import json_name

T = TypeVar("T")

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
IntOrString = Int32 | str
Time = Annotated[datetime, msgspec.Meta(tz=True)]


class Struct(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,  # a value made of values cannot be part of a cycle
    rename=json_name,
):
    """An immutable API object. Shared freely, never copied; `msgspec.structs.replace` makes a changed one."""


def written(kind: Callable[[], T]) -> T:
    """A field that is encoded even when it holds its default, the empty `kind`."""
    field: T = msgspec.field(default_factory=lambda: kind())  # a bare list or tuple would be left out when empty
    return field


class MicroTime(datetime):
    """A time that is always written with six digits of fraction, as leases and events need it."""

    @classmethod
    def of(cls, moment: datetime) -> Self:
        utc = moment.astimezone(UTC)
        return cls.combine(utc.date(), utc.timetz())

    @classmethod
    def parse(cls, text: str) -> Self:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError(f"a time needs a zone, such as Z: {text!r}")
        try:
            return cls.of(moment)
        except OverflowError:
            raise ValueError(f"{text!r} lies outside of the years 1 to 9999") from None

    def __str__(self) -> str:
        return self.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def rfc3339(moment: datetime) -> str:
    """A time as Kubernetes writes most of them: UTC, whole seconds."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def rfc3339_nano(moment: datetime) -> str:
    """A time with nine digits of fraction, as the kubelet's own annotations carry it."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}000Z"


def changed(value: T, **fields: Any) -> T:
    """The same object with some fields replaced."""
    return msgspec.structs.replace(value, **fields)  # type: ignore[type-var]

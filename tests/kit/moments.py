"""One of each kind of moment, with something in every field."""

import types
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec.structs import fields

from pykubelet.pod.moments import Moment

AT = datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC)


def one_of_each(*, error: str = "") -> Iterator[Moment]:
    """`error` is what those say that can fail."""
    for kind in get_args(Moment):
        hints = get_type_hints(kind)
        values = {each.name: _some(hints[each.name]) for each in fields(kind)}
        if "error" in values:
            values["error"] = error
        yield kind(**values)


def _some(hint: Any) -> Any:
    origin = get_origin(hint)
    if origin is Literal:
        return get_args(hint)[0]
    if origin in (Union, types.UnionType):
        return _some(get_args(hint)[0])
    if origin is tuple:
        return ("init",)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    return {str: "some", int: 3, float: 1.5, bool: True, datetime: AT}[hint]

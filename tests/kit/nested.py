"""Values nested as deeply as one likes."""

from typing import Any


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value

"""What happens to a pod that asks for another size, for the journal."""

from typing import Literal

from msgspec import Struct

Stage = Literal["Deferred", "Infeasible", "Begun", "Told", "Error", "Completed"]
"""Told: its containers were, one after the other; Completed: it is seen that all have what they should."""
Operation = Literal["add", "remove", "increase", "decrease"]


class Resized(Struct, frozen=True, tag=True):
    stage: Stage
    message: str = ""
    cause: str = ""
    """In one word: why it is infeasible; what made room for one that was deferred."""
    seconds: float | None = None
    """That telling them took."""


class ResizeAsked(Struct, frozen=True, tag=True):
    """Of one container."""

    container: str
    resource: Literal["cpu", "memory"]
    requirement: Literal["requests", "limits"]
    operation: Operation

"""What happens to a pod that asks for another size, for the journal."""

from typing import Literal

from msgspec import Struct

Stage = Literal["Deferred", "Infeasible", "Begun", "Error", "Completed"]


class Resized(Struct, frozen=True, tag=True):
    stage: Stage
    message: str = ""
    cause: str = ""
    """In one word: why it is infeasible; what made room for one that was deferred."""

"""What flows through the agent at one moment: from the sources of pods through the inbox and the workers to the runtime
and back to the API server."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct


class SourcePicture(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    is_ready: bool
    """It has said all that it has at least once."""
    pods: int


class Doing(Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that has begun and is not over: a worker's operation, or a call of the runtime."""

    what: str
    since: datetime
    uid: str = ""
    """Of the pod that it is done for; empty: for the node."""
    namespace: str = ""
    name: str = ""


class StatusQueue(Struct, frozen=True, kw_only=True, rename="camel"):
    waiting: int = 0
    sending: int = 0
    trying_again: int = 0
    """The API server did not take them, and they wait for their next turn."""


class LoopPicture(Struct, frozen=True, kw_only=True, rename="camel"):
    sources: tuple[SourcePicture, ...]
    inbox: int
    """Messages that wait."""
    inbox_size: int
    handled: Mapping[str, int]
    """Messages since the agent was started, by their kind."""
    lateness: float
    """Seconds for which the loop has not come round."""
    workers: Mapping[str, int]
    """Pods, by the phase of their worker."""
    work: tuple[Doing, ...]
    calls: tuple[Doing, ...]
    statuses: StatusQueue

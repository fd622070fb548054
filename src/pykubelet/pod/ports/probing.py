"""What the agent runs against containers, as contracts: probes, which ask, and lifecycle hooks, which tell."""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.handlers import LifecycleHandler, Probe


class Verdict(StrEnum):
    SUCCESS = "success"
    WARNING = "warning"
    """A success that people should look at."""
    FAILURE = "failure"
    UNKNOWN = "unknown"


class Answer(Struct, frozen=True):
    verdict: Verdict
    output: str = ""
    is_error: bool = False
    """The attempt itself went wrong, which says nothing about the container."""


class Asking(Protocol):
    """How a container is asked."""

    async def attempt(self, probe: Probe, container: Container, container_id: str, pod_ip: str) -> Answer:
        """Never raises for what a container, its spec or the runtime may do."""
        ...

    async def close(self) -> None: ...


class Hooks(Protocol):
    """How a container is told that it has started, or is about to be stopped."""

    async def run(self, container_id: str, container: Container, hook: LifecycleHandler, pod_ip: str) -> None:
        """Raises base.errors with the reason when it fails. The caller bounds the time."""
        ...

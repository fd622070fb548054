"""What the agent's own HTTP API needs from the rest: who asks, whether they may, and streams into containers."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from pykubelet.api.pod import Pod


class Identity(Struct, frozen=True, kw_only=True):
    """Somebody who was recognised."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class Access(Struct, frozen=True, kw_only=True):
    """What somebody wants to do to this node, in the words of the API server's authorizer."""

    verb: str
    """get, create, update, patch or delete, by the method of the request."""
    subresource: str
    """Of `nodes`: proxy, stats, log, metrics, spec, checkpoint, healthz, pods, configz."""
    node: str


class Decision(Struct, frozen=True, kw_only=True):
    allowed: bool
    reason: str = ""


class Reviews(Protocol):
    """The API server's word on tokens and rights. Raises base.errors when there is no answer."""

    async def who(self, token: str) -> Identity | None:
        """Whose token it is; None when it is nobody's."""
        ...

    async def may(self, identity: Identity, access: Access) -> Decision: ...


# --- streams into containers


class StreamUrl(Struct, frozen=True):
    """The runtime's own streaming server takes the connection over at this address, byte for byte."""

    url: str


class Session(Protocol):
    """A program's input and output, held open. Whoever asked for it closes it."""

    def output(self) -> AsyncGenerator[tuple[Literal["stdout", "stderr"], bytes], None]:
        """What it writes, as it comes; ends when it can write no more. With a terminal all of it is stdout."""
        ...

    async def send(self, data: bytes) -> None:
        """To its standard input; waits while that is full. Harmless after its end."""
        ...

    async def close_input(self) -> None: ...

    async def resize(self, width: int, height: int) -> None:
        """Of its terminal, if it has one."""
        ...

    async def exit_code(self) -> int:
        """Once it has ended. An attached session ends with the container."""
        ...

    async def close(self) -> None:
        """The other side has gone: the program of an exec is ended; a container that was attached to goes on."""
        ...


class Connection(Protocol):
    """A TCP connection into a pod."""

    async def receive(self) -> bytes:
        """Empty at the end."""
        ...

    async def send(self, data: bytes) -> None: ...

    async def end(self) -> None:
        """Nothing more will be sent."""
        ...

    async def close(self) -> None: ...


class Streams(Protocol):
    """The part of a runtime that opens streams. All raise base.errors: NotFound, Invalid, Retry."""

    async def exec(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> StreamUrl | Session: ...

    async def attach(
        self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> StreamUrl | Session: ...

    async def port_forward(self, sandbox_id: str, ports: Sequence[int]) -> StreamUrl | None:
        """None: `connect` is to be used, once for each connection."""
        ...

    async def connect(self, sandbox_id: str, port: int) -> Connection: ...

    async def checkpoint(self, container_id: str, location: str) -> None:
        """Write a checkpoint of a running container to a file. Invalid when this runtime cannot."""
        ...


# --- the agent, as its HTTP API sees it


class Inside(Protocol):
    """The agent's own knowledge. Never waits."""

    @property
    def node_name(self) -> str: ...

    def pods(self) -> Sequence[Pod]:
        """All pods of the node, each with its newest status."""
        ...

    def find_pod(self, namespace: str, name: str, uid: str = "") -> Pod | None:
        """One of `pods()`, by its name and, if given, by any uid that people know: a mirror pod's stands for its static
        pod's."""
        ...

    def sandbox_id(self, uid: str) -> str:
        """Of a pod's ready sandbox; empty when it has none."""
        ...

    def lateness(self) -> float:
        """For how many seconds the sync loop has not come round."""
        ...

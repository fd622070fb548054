"""What a runtime has been seen to hold of a pod. The only truth that decisions are made from."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from pykubelet.api.pod import ContainerUser


class State(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"
    """The runtime has lost sight of it; whether it runs cannot be said."""


class EnforcedLimits(Struct, frozen=True, kw_only=True):
    """What the kernel was told last of a container, as far as its runtime says. None: nothing."""

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    cpu_period: int = 100_000
    memory: int | None = None


class ObservedContainer(Struct, frozen=True, kw_only=True):
    """One attempt at running one container of a pod."""

    id: str
    name: str
    state: State
    sandbox_id: str = ""
    attempt: int = 0
    """0 for the first try; the restart count of this container so far."""
    hash: str = ""
    """The fingerprint of the spec that it was made from (`pod.container.container_hash`)."""
    image: str = ""
    image_id: str = ""
    volume_images: tuple[str, ...] = ()
    """The ids of the images that are mounted in it."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int = 0
    """128 + n when a signal n ended it."""
    reason: str = ""
    """Of its end: Completed, Error, OOMKilled, or the runtime's own word."""
    message: str = ""
    """What it said of its end, or what the runtime said of its failure."""
    stop_signal: str | None = None
    """By which it is stopped, where the runtime says so."""
    peak: int = 0
    """Bytes of memory that it had at most, where it has ended for want of more and the runtime can tell."""
    grace_seconds: int | None = None
    """The grace period that its pod had when it was made, for the day that nobody knows the pod any more."""
    user: ContainerUser | None = None
    """Whom its first process runs as, where the runtime says so: an image may put its user into further groups."""
    limits: EnforcedLimits | None = None
    """None: the runtime does not say."""


class ObservedSandbox(Struct, frozen=True, kw_only=True):
    """One attempt at the place that a pod's containers share: its network, its names, its processes."""

    id: str
    ready: bool
    attempt: int = 0
    created_at: datetime | None = None
    ips: tuple[str, ...] = ()
    """Empty with the host's network."""
    host_network: bool = False


class ObservedPod(Struct, frozen=True, kw_only=True):
    """Everything that a runtime holds of one pod."""

    uid: str
    name: str = ""
    namespace: str = ""
    sandboxes: tuple[ObservedSandbox, ...] = ()
    """Newest first."""
    containers: tuple[ObservedContainer, ...] = ()
    """Newest first."""

    def newest(self, name: str) -> ObservedContainer | None:
        """The latest attempt at a container."""
        return next((container for container in self.containers if container.name == name), None)

    def attempts(self, name: str) -> tuple[ObservedContainer, ...]:
        """All attempts at a container that are still there, newest first."""
        return tuple(container for container in self.containers if container.name == name)

    @property
    def is_gone(self) -> bool:
        return not self.sandboxes and not self.containers

    @property
    def is_running(self) -> bool:
        """Whether anything of it may still be running."""
        return any(s.ready for s in self.sandboxes) or any(
            c.state in (State.RUNNING, State.UNKNOWN) for c in self.containers
        )

"""Why a pod is not well, as a closed union: one type for each cause that people can act on differently.

`code` is what programs look for: a code keeps its meaning and its fields, and new ones may be added.
"""

from datetime import datetime
from typing import Literal

from msgspec import Struct

ProbeKind = Literal["liveness", "readiness", "startup"]
ObjectKind = Literal["ConfigMap", "Secret"]


class _Of(Struct, frozen=True, tag_field="code", tag=True, rename="camel", kw_only=True, omit_defaults=True):
    """What all causes have: the field that says which one it is."""


# --- no node


class NotScheduled(_Of, frozen=True, kw_only=True):
    """No scheduler has said anything yet, or says what is none of the following."""

    message: str = ""


class SchedulingGated(_Of, frozen=True, kw_only=True):
    gates: tuple[str, ...] = ()


class NoRoom(_Of, frozen=True, kw_only=True):
    """Of a resource there is not enough: on any node, or, when `node` is given, on that one, which turned it away."""

    resources: tuple[str, ...]
    node: str = ""
    message: str = ""


class NoDevices(_Of, frozen=True, kw_only=True):
    """No node can give what the pod's claims ask for; or a claim or a class that they name is not there."""

    claim: str = ""
    device_class: str = ""
    message: str = ""


class UntoleratedTaint(_Of, frozen=True, kw_only=True):
    taints: tuple[str, ...]
    message: str = ""


# --- its image


class ImageNotFound(_Of, frozen=True, kw_only=True):
    container: str
    image: str
    message: str


class TagNotFound(_Of, frozen=True, kw_only=True):
    """The registry knows the image, or may know it, and not by this tag."""

    container: str
    image: str
    message: str


class ImageDenied(_Of, frozen=True, kw_only=True):
    container: str
    image: str
    has_secret: bool
    message: str


class RegistryUnreachable(_Of, frozen=True, kw_only=True):
    container: str
    image: str
    message: str


class ImagePullFailed(_Of, frozen=True, kw_only=True):
    container: str
    image: str
    message: str


class ImageNeverPulled(_Of, frozen=True, kw_only=True):
    """It is not on the node, and imagePullPolicy is Never."""

    container: str
    image: str


class InvalidImageName(_Of, frozen=True, kw_only=True):
    container: str
    image: str


class PullSlow(_Of, frozen=True, kw_only=True):
    """It goes on, and takes long."""

    image: str
    since: datetime


# --- what it needs


class ObjectNotFound(_Of, frozen=True, kw_only=True):
    kind: ObjectKind
    name: str
    namespace: str


class KeyNotFound(_Of, frozen=True, kw_only=True):
    kind: ObjectKind
    name: str
    namespace: str
    key: str


class VolumeFailed(_Of, frozen=True, kw_only=True):
    volume: str
    message: str


class ClaimNotReady(_Of, frozen=True, kw_only=True):
    """A claim on devices, which cannot be used as it is or whose driver cannot prepare it."""

    claim: str
    message: str


class DriverAway(_Of, frozen=True, kw_only=True):
    """Of claimed devices: it is not on the node, or does not answer."""

    driver: str
    message: str


class NetworkNotReady(_Of, frozen=True, kw_only=True):
    message: str


class SandboxFailed(_Of, frozen=True, kw_only=True):
    message: str


class PortTaken(_Of, frozen=True, kw_only=True):
    """`container`: its own words say so; none: the node turned the pod away."""

    port: str = ""
    container: str = ""
    message: str = ""


# --- its containers


class ContainerNotMade(_Of, frozen=True, kw_only=True):
    container: str
    reason: str
    message: str


class WrongUser(_Of, frozen=True, kw_only=True):
    container: str
    message: str


class CommandNotFound(_Of, frozen=True, kw_only=True):
    container: str
    command: str
    message: str
    times: int = 1


class Ended(_Of, frozen=True, kw_only=True):
    """The part that all causes have in which a container's program has ended."""

    container: str
    exit_code: int
    times: int = 1
    last_words: str = ""
    is_init: bool = False


class Crashed(Ended, frozen=True, kw_only=True):
    """With an error, or although it is to run for ever."""

    reason: str = ""


class OutOfMemory(Ended, frozen=True, kw_only=True):
    limit: str = ""
    peak: str = ""
    """What it had at most; empty: nobody could tell."""


class ReadOnlyFileSystem(Ended, frozen=True, kw_only=True):
    pass


class PermissionDenied(Ended, frozen=True, kw_only=True):
    user: int | None = None


class ProbeFailed(_Of, frozen=True, kw_only=True):
    """Liveness and startup: it is started again because of that; readiness: it gets no traffic."""

    container: str
    probe: ProbeKind
    message: str
    times: int = 0
    """How often it was started again."""
    seconds: float | None = None
    """That a startup probe gives it."""
    is_ending: bool = False
    """It still runs, and has its grace to end because of that."""


class HookFailed(_Of, frozen=True, kw_only=True):
    container: str
    hook: Literal["postStart", "preStop"]


class ReadinessGate(_Of, frozen=True, kw_only=True):
    gates: tuple[str, ...]


# --- the node


class RuntimeDown(_Of, frozen=True, kw_only=True):
    message: str
    since: datetime | None = None


class ApiServerAway(_Of, frozen=True, kw_only=True):
    message: str
    since: datetime | None = None


class AgentDown(_Of, frozen=True, kw_only=True):
    """What is told is what was written down last."""

    since: datetime | None = None
    was_stopped: bool = False
    """The pod was stopped with the agent."""


# --- its end


class Evicted(_Of, frozen=True, kw_only=True):
    message: str


class Preempted(_Of, frozen=True, kw_only=True):
    by: str


class DeadlineExceeded(_Of, frozen=True, kw_only=True):
    seconds: float | None = None


class Rejected(_Of, frozen=True, kw_only=True):
    """By the node, for another reason."""

    reason: str
    message: str


class Failed(_Of, frozen=True, kw_only=True):
    """What its status says, when nothing more is known."""

    reason: str
    message: str = ""


Unplaced = NotScheduled | SchedulingGated | NoRoom | NoDevices | UntoleratedTaint
OfImage = (
    ImageNotFound | TagNotFound | ImageDenied | RegistryUnreachable | ImagePullFailed | ImageNeverPulled
    | InvalidImageName | PullSlow
)  # fmt: skip
OfClaims = ClaimNotReady | DriverAway
OfNeeds = ObjectNotFound | KeyNotFound | VolumeFailed | OfClaims | NetworkNotReady | SandboxFailed | PortTaken
OfContainer = (
    ContainerNotMade | WrongUser | CommandNotFound | Crashed | OutOfMemory | ReadOnlyFileSystem | PermissionDenied
    | ProbeFailed | HookFailed | ReadinessGate
)  # fmt: skip
OfNode = RuntimeDown | ApiServerAway | AgentDown
OfEnd = Evicted | Preempted | DeadlineExceeded | Rejected | Failed
Cause = Unplaced | OfImage | OfNeeds | OfContainer | OfNode | OfEnd

"""The moments that the journal is made of: everything that can happen to a pod, and to the node, as a closed union.

Rooms note them, and whoever wants to know reads them: metrics, the log, explanations. What a reader needs is a field; a
`message` is for people. Whose moment it is and when it was stands beside it (`base.journal.Noted`).
"""

from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.base import journal
from pykubelet.pod.claims.moments import OfClaims
from pykubelet.pod.container.volume_moments import DriverCalled, VolumeChanged
from pykubelet.pod.devices.moments import OfDevices
from pykubelet.pod.lifecycle.pod_update import Op
from pykubelet.pod.lifecycle.probe_results import ProbeKind, Result
from pykubelet.pod.resize.moments import ResizeAsked, Resized

ContainerKind = Literal["container", "init_container", "ephemeral_container"]
Operation = Literal["create", "update", "sync", "kill", "terminated", "remove"]
Step = Literal["look", "devices", "network", "mirror pod", "cgroup", "volumes", "containers", "tidy"]
StopReason = Literal["deleted", "removed", "preempted", "evicted", "rejected", "ended", "orphaned", "shutdown"]
"""Who asks: the API server's pod is deleted; no source has it now; a critical pod needs its room; it uses too much; an
earlier agent ran what this one turned away; it ran to its end or deadline; nobody knew it; the machine goes down."""
Awaited = Literal["pod", "network", "volume", "configmap", "secret", "mirror pod", "pull", "pull slot",
                  "claim", "driver"]  # fmt: skip
LONGEST_MESSAGE: Final = 1024
"""Of what people were told: a probe may say ten times as much, and there may be two thousand pods."""


class Phase(StrEnum):
    """How far a pod's worker is."""

    WAITING = "waiting"
    """For another pod to end that has its name, or its room."""
    RUNNING = "running"
    STOPPING = "stopping"
    RELEASING = "releasing"
    RELEASED = "released"
    """Nothing of it runs; it stays known as long as its source has it, so that it never starts again."""
    REMOVING = "removing"
    GONE = "gone"


# --- a pod arrives


class Watched(Struct, frozen=True, tag=True):
    """A pod that has never run was seen from its beginning: the pod-startup SLI counts only those."""

    created_at: datetime | None
    is_stateful: bool
    has_own_network: bool
    init_containers: tuple[str, ...]


class Merged(Struct, frozen=True, tag=True):
    op: Op
    source: str


class Admitted(Struct, frozen=True, tag=True):
    is_static: bool


class Rejected(Struct, frozen=True, tag=True):
    reason: str
    message: str


class Preempted(Struct, frozen=True, tag=True):
    """It makes room for a critical pod."""

    by_uid: str
    by: str


class Evicted(Struct, frozen=True, tag=True):
    signal: str
    message: str
    stats_age: float | None = None


class OrphanFound(Struct, frozen=True, tag=True):
    """Nobody knows the pod."""

    in_runtime: bool
    """False: only a folder is left of it."""


# --- its worker lives


class PhaseEntered(Struct, frozen=True, tag=True):
    phase: Phase


class Began(Struct, frozen=True, tag=True):
    """The worker is about to sync the pod for the first time."""

    containers: int
    first_seen: datetime | None
    is_new: bool
    """Nobody has reported that it runs or has run."""


class Awaiting(Struct, frozen=True, tag=True):
    """It cannot go on without something."""

    what: Awaited
    name: str
    """Which one; of a pod its uid, of a pull, for another pod, its image."""
    message: str = ""


class WorkBegun(Struct, frozen=True, tag=True):
    operation: Operation


class WorkEnded(Struct, frozen=True, tag=True):
    operation: Operation
    seconds: float
    error: str = ""


class Resting(Struct, frozen=True, tag=True):
    """The work has failed and is tried again in so many seconds, unless there is news before."""

    seconds: float


class StepBegun(Struct, frozen=True, tag=True):
    """One step of the work, such as the pod's volumes."""

    step: Step


class StepEnded(Struct, frozen=True, tag=True):
    step: Step
    seconds: float
    error: str = ""


class StopAsked(Struct, frozen=True, tag=True):
    by: StopReason
    grace: float


class DeadlinePassed(Struct, frozen=True, tag=True):
    """It was active for longer than it may."""


class CgroupChanged(Struct, frozen=True, tag=True):
    operation: Literal["create", "update", "destroy"]
    seconds: float
    error: str = ""


# --- its containers


class SandboxMade(Struct, frozen=True, tag=True):
    attempt: int
    handler: str
    has_own_users: bool
    seconds: float
    error: str = ""


class PullBegun(Struct, frozen=True, tag=True):
    image: str


class PullProgressed(Struct, frozen=True, tag=True):
    image: str
    seconds: float


class PullEnded(Struct, frozen=True, tag=True):
    image: str
    seconds: float
    """Of the pull itself."""
    waited: float = 0.0
    """From when the pod wanted it."""
    bytes: int = 0
    is_shared: bool = False
    """It was pulled for another pod."""
    error: str = ""


class ContainerCreated(Struct, frozen=True, tag=True):
    container: str
    attempt: int
    image_volumes: int = 0


class ContainerStarted(Struct, frozen=True, tag=True):
    container: str
    kind: ContainerKind
    attempt: int


class StartFailed(Struct, frozen=True, tag=True):
    container: str
    kind: ContainerKind
    reason: str
    """As in its status: ErrImagePull, CreateContainerError ..."""
    message: str
    again_in: float


class BackedOff(Struct, frozen=True, tag=True):
    """It is not tried before `until`."""

    container: str
    until: datetime
    image: str = ""
    """The image that cannot be pulled; empty: the container crashes."""


class HookFailed(Struct, frozen=True, tag=True):
    container: str
    hook: Literal["postStart", "preStop"]
    message: str
    was_asleep: bool = False
    """It was to sleep, and the grace was too short for that."""


class ContainerStopping(Struct, frozen=True, tag=True):
    container: str
    grace: float
    message: str = ""
    """Why, when the rest of the pod goes on."""


class Exited(Struct, frozen=True, tag=True):
    container: str
    attempt: int
    code: int
    reason: str
    started_at: datetime | None
    finished_at: datetime | None
    peak: int = 0


class Probed(Struct, frozen=True, tag=True):
    kind: ProbeKind
    container: str
    result: Result
    seconds: float


class HealthChanged(Struct, frozen=True, tag=True):
    """Probes have come to another result often enough to count."""

    kind: ProbeKind
    container: str
    result: Result


class ProbingEnded(Struct, frozen=True, tag=True):
    kind: ProbeKind
    container: str


# --- its status


class StatusSet(Struct, frozen=True, tag=True):
    phase: str
    reason: str
    is_ready: bool
    running_since: datetime | None
    """When the first of the containers that run has started."""


class StatusSent(Struct, frozen=True, tag=True):
    """The API server has it."""

    phase: str
    has_started: bool
    """All containers run."""


class StatusAcknowledged(Struct, frozen=True, tag=True):
    """The API server has all that was to be told, so long after it changed."""

    seconds: float


class PodDeleted(Struct, frozen=True, tag=True):
    """From the API server, because nothing of it is left on this node."""


class EventRecorded(Struct, frozen=True, tag=True):
    """What people are told."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


# --- the node as a whole, and calls of it for a pod


class RuntimeCalled(Struct, frozen=True, tag=True):
    method: str
    """The CRI's name of it, such as RunPodSandbox."""
    seconds: float
    error: str = ""


class Relisted(Struct, frozen=True, tag=True):
    """The runtime was looked at as a whole."""

    seconds: float
    interval: float | None
    """Since the look before it began."""


class ImageRemoved(Struct, frozen=True, tag=True):
    image: str
    reason: Literal["age", "space"]


class ApiAnswered(Struct, frozen=True, tag=True):
    """One request, one answer: its status, or `<error>` when there was none."""

    method: str
    host: str
    code: str


class ApiRequested(Struct, frozen=True, tag=True):
    """A request is over, with all tries: seconds that the rate limit and the server took, bytes out and in."""

    method: str
    host: str
    waited: float
    seconds: float
    sent: int
    received: int | None  # None: it failed


class ApiRetried(Struct, frozen=True, tag=True):
    """A request is sent once more, after this answer."""

    method: str
    host: str
    code: str


class EventsFollowed(Struct, frozen=True, tag=True):
    """The runtime's hints are listened to, or no more."""

    error: str = ""


class NodeStage(Struct, frozen=True, tag=True):
    """How far a node is that the API server has not known before."""

    stage: Literal["registering", "registered", "ready"]


class CertificateRotated(Struct, frozen=True, tag=True):
    kind: Literal["client", "server"]
    age: float
    """Seconds for which the former one was in force, 0 when there was none."""


class CertificateRenewalFailed(Struct, frozen=True, tag=True):
    kind: Literal["client", "server"]


Arrival = Watched | Merged | Admitted | Rejected | Preempted | Evicted | OrphanFound | Resized | ResizeAsked
Work = (PhaseEntered | Began | Awaiting | WorkBegun | WorkEnded | Resting | StepBegun | StepEnded
        | StopAsked | DeadlinePassed | CgroupChanged)  # fmt: skip
Containers = (SandboxMade | PullBegun | PullProgressed | PullEnded | ContainerCreated | ContainerStarted
              | StartFailed | BackedOff | HookFailed | ContainerStopping | Exited)  # fmt: skip
Probing = Probed | HealthChanged | ProbingEnded
Reporting = StatusSet | StatusSent | StatusAcknowledged | PodDeleted | EventRecorded
OfNode = RuntimeCalled | Relisted | ImageRemoved | EventsFollowed | VolumeChanged | DriverCalled | NodeStage
OfApi = ApiAnswered | ApiRequested | ApiRetried | CertificateRotated | CertificateRenewalFailed
Moment = Arrival | Work | Containers | Probing | Reporting | OfNode | OfApi | OfClaims | OfDevices
Journal = journal.Journal[Moment]
Noted = journal.Noted[Moment]


def about(pod: Pod) -> journal.About:
    return journal.About(pod.metadata.uid, pod.metadata.namespace, pod.metadata.name)

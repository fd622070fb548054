"""Everything beyond the agent itself: what `app/agent.py` passes in, and tests pass others of."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from pykubelet.api.node import Node
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.node.eviction import EvictionParts
from pykubelet.node.images import ImagePullSettings
from pykubelet.node.pinning import PinningParts
from pykubelet.pod.container.dns import DnsSettings
from pykubelet.pod.lifecycle.crash_loop_backoff import RestartWaits
from pykubelet.pod.lifecycle.node_shutdown import ShutdownPeriod
from pykubelet.pod.lifecycle.plan import PodActions
from pykubelet.pod.lifecycle.pod_features import PodFeatures
from pykubelet.pod.moments import Journal
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.api import Keyring, PodApi, PodObjects, Recorder, RuntimeClasses
from pykubelet.pod.ports.claims import Claims, DeviceHealth
from pykubelet.pod.ports.devices import Devices
from pykubelet.pod.ports.machine import (
    AllocationStore,
    Checkpoint,
    LogFiles,
    PodCgroups,
    PodHost,
    ShutdownNotice,
    ShutdownTimes,
)
from pykubelet.pod.ports.node import NodeRecorder
from pykubelet.pod.ports.probing import Asking, Hooks
from pykubelet.pod.ports.runtime import Runtime
from pykubelet.pod.ports.syncer import PodSource
from pykubelet.pod.resize.actions import MemoryUse
from pykubelet.pod.resize.feasibility import ResizeRules
from pykubelet.pod.stats.stats import StorageStats
from pykubelet.pod.status.container_status import NodeFacts


class ShutdownParts(Struct, frozen=True, kw_only=True):
    """What ending pods before the machine goes down takes."""

    periods: tuple[ShutdownPeriod, ...]
    notice: ShutdownNotice | None
    """None: nobody tells of it but the signal that ends the agent."""
    times: ShutdownTimes
    recorder: NodeRecorder
    changed: Callable[[], None] = lambda: None
    """The node is ready no more, or again."""


class NodeInfo(Struct, frozen=True, kw_only=True):
    """What containers are told about the node, and what their limits are measured against."""

    facts: NodeFacts = NodeFacts()
    allocatable: ResourceList = {}
    memory: int = 0
    swap: int = 0
    """What pods may have of it together."""
    log_root: str = "/var/log/pods"
    dns: DnsSettings = DnsSettings()
    api_server: tuple[str, int] | None = None
    """Where pods find it, if not at its service's address."""


class Dependencies(Struct, frozen=True, kw_only=True):
    """Everything beyond the agent itself."""

    sources: Mapping[str, PodSource]
    runtime: Runtime
    host: PodHost
    recorder: Recorder
    journal: Journal
    node: Callable[[], Node | None]
    """What pods are admitted to."""
    node_info: Callable[[], NodeInfo]
    api: PodApi | None = None
    objects: PodObjects | None = None
    classes: RuntimeClasses | None = None
    keyring: Keyring | None = None
    image_pulls: ImagePullSettings = ImagePullSettings()
    restart_waits: RestartWaits = RestartWaits()
    features: PodFeatures = PodFeatures()
    resync_period: float = 60.0
    """Seconds after which a pod is looked at of which there is no news."""
    asking: Asking | None = None
    hooks: Hooks | None = None
    """How probes ask and hooks tell; None: through the runtime and the network."""
    planned: Callable[[str, PodActions], None] = lambda uid, actions: None
    """What is about to be done to a pod has been decided."""
    addressed: Callable[[str, tuple[str, ...]], None] = lambda uid, ips: None
    """A pod has got its addresses; nothing in it runs yet."""
    image_used: Callable[[str], None] = lambda image_id: None
    """An image is about to be used: it must not be cleared away now."""
    cgroups: PodCgroups | None = None
    pinning: PinningParts | None = None
    """None: all containers share all processors."""
    logs: LogFiles | None = None
    devices: Devices | None = None
    """Those that plug-ins bring."""
    claims: Claims | None = None
    """On devices that were allocated to pods."""
    device_health: DeviceHealth | None = None
    """Of the devices that containers have; None: nothing is told of it."""
    stats: StorageStats | None = None
    """What pods write is measured, and limits on that are kept; None: they are not."""
    eviction: EvictionParts | None = None
    """None: pods stay however short the node runs."""
    api_node: Callable[[], Node | None] = lambda: None
    """The API server's object of the node, which owns mirror pods."""
    memory_use: Callable[[ObservedPod], Awaitable[MemoryUse]] | None = None
    """Of one pod, now. None: nobody counts it, and limits on memory cannot be lowered."""
    allocations: AllocationStore | None = None
    resize_rules: ResizeRules = ResizeRules()
    shutdown: ShutdownParts | None = None
    """None: pods are not ended before the machine goes down."""
    checkpoint: Checkpoint | None = None
    restored: tuple[Pod, ...] = ()
    """The pods that an earlier agent had admitted."""
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    refuse_unenforced: bool = False
    """Whether pods are refused that ask for limits which nobody here enforces; else they are told."""
    has_app_armor: bool = False
    """Whether the kernel can confine containers with AppArmor."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

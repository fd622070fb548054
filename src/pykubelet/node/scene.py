"""One turn at one pod: what is known of it, what is remembered of it, and how a container fails to start."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from pykubelet.api.objects import Secret
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.pod.container.dns import DnsSettings
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.lifecycle.crash_loop_backoff import CrashLoops
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.status.container_status import NodeFacts, Waiting


class Machine(Struct, frozen=True, kw_only=True):
    """What containers are told about the node, and what their limits are measured against."""

    facts: NodeFacts = NodeFacts()
    allocatable: ResourceList = {}
    memory: int = 0
    log_root: str = "/var/log/pods"
    dns: DnsSettings = DnsSettings()


class Memory:
    """What is remembered of one pod between two syncs."""

    def __init__(self) -> None:
        self.loops = CrashLoops()
        self.pulls = CrashLoops()
        """Images that cannot be pulled wait like containers that crash."""
        self.failed_pulls: dict[str, datetime] = {}
        self.pull_errors: dict[str, str] = {}
        """By image: what went wrong when it was last pulled, told while it waits."""
        self.mirror_trouble = ""
        """What was last said of why it has no mirror pod."""


class Scene(Struct, kw_only=True):
    """One turn at one pod: what is known of it, filled in step by step."""

    pod: Pod
    memory: Memory
    observed: ObservedPod
    volumes: Mapping[str, str] = {}
    pull_secrets: tuple[Secret, ...] = ()
    sandbox_id: str = ""
    sandbox_attempt: int = 0
    runtime_handler: str = ""
    """Of the pod's runtime class."""
    cgroup_parent: str = ""
    id_mappings: tuple[IdMapping, ...] = ()
    pod_ips: tuple[str, ...] = ()
    not_started: dict[str, Waiting] = {}
    """By container: why it could not be started now."""
    due: list[float] = []
    """Seconds after which things that have to wait may be tried again."""


class NotStarted(Exception):
    """One container could not be started. `waiting` is what its status says."""

    def __init__(self, reason: str, message: str, *, again_in: float) -> None:
        super().__init__(message)
        self.waiting = Waiting(reason, message)
        self.again_in = again_in

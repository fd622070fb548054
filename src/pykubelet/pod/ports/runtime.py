"""The container runtime, as a contract. Every implementation passes the same suite of tests."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Retry
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.observed import ObservedPod, ObservedSandbox
from pykubelet.pod.ports.server import Streams
from pykubelet.pod.ports.syncer import PodReports, Syncer
from pykubelet.pod.stats.stats import ContainerPlaces


class PortMapping(Struct, frozen=True, kw_only=True):
    container_port: int
    host_port: int
    protocol: str = "TCP"
    host_ip: str = ""


class SandboxConfig(Struct, frozen=True, kw_only=True):
    """The place that a pod's containers share."""

    pod: Pod
    """The pod itself, for what only some runtimes need: security contexts, sysctls, user namespaces."""
    attempt: int = 0
    hostname: str = ""
    log_directory: str = ""
    """Where the containers' logs go: `<root>/<namespace>_<name>_<uid>`."""
    dns_servers: tuple[str, ...] = ()
    dns_searches: tuple[str, ...] = ()
    dns_options: tuple[str, ...] = ()
    ports: tuple[PortMapping, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    cgroup_parent: str = ""
    runtime_handler: str = ""
    id_mappings: tuple[IdMapping, ...] = ()
    """Of the pod's own user namespace; empty: it has the host's."""


class Mount(Struct, frozen=True, kw_only=True):
    host_path: str = ""
    """Empty: it is an image that is mounted."""
    image: str = ""
    image_id: str = ""
    """Whose files are seen there, for reading alone, and none of them can be run."""
    sub_path: str = ""
    """The part of it that is shown, to be opened without a way out of it: its files may change at any moment."""
    container_path: str
    read_only: bool = False
    recursive_read_only: bool = False
    propagation: str = "None"
    """None, HostToContainer or Bidirectional."""


class Device(Struct, frozen=True, kw_only=True):
    """A device file of this machine that a container may use."""

    host_path: str
    container_path: str
    permissions: str = "rwm"
    """Of these letters: to read, to write, to make it anew."""


class ContainerMounts(Struct, frozen=True, kw_only=True):
    mounts: tuple[Mount, ...] = ()
    termination_message_path: str = ""


class Limits(Struct, frozen=True, kw_only=True):
    """What the kernel enforces. None: no limit."""

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    """Microseconds in each 100 ms."""
    memory: int | None = None
    swap: int | None = None
    """Bytes of it, beside that memory; None: nothing is said of it."""
    hugepages: Mapping[int, int] | None = None
    """Bytes of huge pages, by the size of a page: none of those that are not among them."""
    oom_score_adj: int = 0
    cpuset_cpus: str = ""
    """The processors that it may run on, as the kernel lists them: 0-3,8. Empty: all."""
    cpuset_mems: str = ""
    """The memory nodes that it may take memory from. Empty: all."""

    def updated(self, update: "Limits") -> "Limits":
        """What holds after `update_container` was told that."""
        said = {name: value for name in self.__struct_fields__ if (value := getattr(update, name)) not in (None, "")}
        return replace(self, **{**said, "oom_score_adj": self.oom_score_adj})


class ContainerConfig(Struct, frozen=True, kw_only=True):
    """One container, everything about it decided."""

    name: str
    attempt: int = 0
    image: str = ""
    image_id: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    """By name, for a runtime that knows what they stand for."""
    limits: Limits = Limits()
    log_path: str = ""
    """Below the sandbox's log directory: `<container>/<attempt>.log`."""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """Among them the hash, restart count and termination settings that `ObservedContainer` is read back from."""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    stop_signal: str = ""
    """By its name; empty: what the image says, or else SIGTERM."""
    termination_message_path: str = ""
    """The file on this machine that holds what the container says of its end; empty: none."""
    sandbox: SandboxConfig | None = None
    """The sandbox as it would be made now, with the pod in it: for runtimes that want to be told again, also by an
    agent that did not make it."""


class RuntimeVersion(Struct, frozen=True, kw_only=True):
    name: str
    version: str
    api_version: str = "v1"


class RuntimeHandler(Struct, frozen=True, kw_only=True):
    """One of the ways in which a runtime can run pods. The name of its default is empty."""

    name: str = ""
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


class RuntimeStatus(Struct, frozen=True, kw_only=True):
    ready: bool
    network_ready: bool
    message: str = ""
    network_message: str = ""
    isolation: str = ""
    """What keeps its pods apart from this machine, in one sentence; empty: it does not say."""
    limitations: tuple[str, ...] = ()
    """What this runtime cannot isolate or limit on this machine: one sentence each, for the node's conditions."""
    handlers: tuple[RuntimeHandler, ...] = ()
    supplemental_groups_policy: bool | None = None
    """Whether it heeds that field of a pod's security context; None: it does not say."""


class ExecResult(Struct, frozen=True, kw_only=True):
    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""


class Image(Struct, frozen=True, kw_only=True):
    id: str
    names: tuple[str, ...] = ()
    size: int = 0
    user: str = ""
    pinned: bool = False
    built_in: bool = False
    """It comes with the runtime: there is nothing to pull, whatever the policy says."""


class Storage(Struct, frozen=True, kw_only=True):
    """A file system, in bytes."""

    capacity: int
    available: int


class PullCredentials(Struct, frozen=True, kw_only=True):
    """Credentials for one pull. Never logged."""

    username: str = ""
    password: str = ""
    token: str = ""
    server: str = ""

    def __repr__(self) -> str:
        return "PullCredentials(...)"


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a runtime can do beyond what every one can. It says so itself: nobody guesses it from an endpoint."""

    streams: Streams | None = None
    """None: there is no exec, attach or port-forward."""
    places: ContainerPlaces | None = None
    """Where the kernel counts what containers use. None: there are no statistics."""
    cgroup_driver: Callable[[], Awaitable[str]] | None = None
    """It puts containers into control groups below a parent that it is told, named as this says: `systemd` or
    `cgroupfs`; empty when it does not say. None: it sees to that itself."""
    set_pod_cidr: Callable[[str], Awaitable[None]] | None = None
    """It is told which addresses pods have here. None: it does not care. Raises base.errors."""
    syncer: Callable[[PodReports], Syncer] | None = None
    """It runs whole pods in a way of its own. None: the node makes them of sandboxes and containers."""
    reopens_logs: bool = False
    """The agent rotates the logs. False: the runtime rotates its own."""
    own_network: bool = True
    """Pods have addresses of their own. False: this machine's, where nobody answers for services."""
    unenforced: Callable[[Pod], Awaitable[tuple[str, ...]]] | None = None
    """What of a pod it runs without on this machine, one phrase each. None: it keeps all that it accepts."""
    unavailable_ports: Callable[[Pod], str] | None = None
    """Which ports a pod with a sandbox means to have and may not get, in a sentence; empty: none. None: every pod has
    all ports to itself."""
    stand_in: Callable[[Container], Awaitable[Image | None]] | None = None
    """What a container runs on when no registry can be reached for its image, if it can run on that; a runtime with
    this has built-in images. None: nothing takes the place of an image."""
    knows_cdi: Callable[[], bool] = lambda: False
    """Whether it finds out by itself what the names of devices stand for."""
    keeps_images: bool = False
    """Pulled images take up room of this machine, and can be cleared away."""
    updates_containers: Callable[[], Awaitable[str]] | None = None
    """`update_container` is there. -> why it can do nothing on this machine; empty: it can. None: it is not there, and
    containers keep the limits that they were made with."""


IMAGE_VOLUME_FAILED: Final = "ImageVolumeMountFailed"
"""What a runtime begins with when it cannot mount an image."""


class RegistryUnreachable(Retry):
    """No registry has answered that could have an image. Raised by `pull_image` where that can be told."""


class Runtime(Protocol):
    """Sandboxes and containers on this machine.

    Ids are the runtime's own. All methods raise base.errors: Retry when it may work later, NotFound for an id that is
    not there, Invalid for what this runtime can never do (the text becomes part of the pod's status). Deadlines live in
    the implementation. Calls for different pods run concurrently.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    async def version(self) -> RuntimeVersion: ...

    async def status(self) -> RuntimeStatus: ...

    async def pods(self) -> tuple[ObservedPod, ...]:
        """Everything there is, also of pods that an earlier agent started."""
        ...

    async def observe(self, uid: str) -> ObservedPod:
        """One pod, seen now. Empty when there is nothing of it."""
        ...

    async def run_sandbox(self, config: SandboxConfig) -> ObservedSandbox:
        """Create and start a sandbox. -> what is seen of it then. What a failed call leaves behind, `observe` shows."""
        ...

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """End everything in it at once. Harmless when it is stopped or gone."""
        ...

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Stop it and forget it and its containers. Harmless when it is gone."""
        ...

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> str:
        """Make a container in a ready sandbox, without starting it. -> its id."""
        ...

    async def start_container(self, container_id: str) -> None:
        """Start a created container, once."""
        ...

    async def update_container(self, container_id: str, limits: Limits) -> None:
        """Give a container other limits, at once. What is None or empty stays as it is, and so does the OOM score; a
        quota of -1 takes the limit away. Harmless when it has ended. Retry when the kernel refuses it now (more memory
        is in use than there would be), Invalid when it cannot be limited here. Only with
        `Capabilities.updates_containers`."""
        ...

    async def stop_container(self, container_id: str, grace: float) -> None:
        """SIGTERM, then after `grace` seconds SIGKILL, to the whole process tree; returns when it has ended. Harmless
        when it has ended before or is gone. A second call with a shorter grace shortens the first."""
        ...

    async def remove_container(self, container_id: str) -> None:
        """Forget an ended container. A running one is killed first. Harmless when it is gone."""
        ...

    async def exec_sync(self, container_id: str, command: tuple[str, ...], timeout: float) -> ExecResult:
        """Run a command in a running container. After `timeout` seconds it is killed, and Retry is raised."""
        ...

    async def image(self, name: str) -> Image | None:
        """The image that is here under that name, if any."""
        ...

    async def pull_image(self, name: str, credentials: PullCredentials | None = None) -> Image: ...

    async def images(self) -> tuple[Image, ...]: ...

    async def remove_image(self, image_id: str) -> None: ...

    async def image_storage(self) -> Storage | None:
        """Where images are kept; None when that cannot be said."""
        ...

    async def reopen_log(self, container_id: str) -> None:
        """The log file was moved away: write to a new one from now on."""
        ...

    def changes(self) -> AsyncGenerator[str, None]:
        """The uids of pods that something has happened to: hints to look at once, never the truth; some may be lost.

        Ends when the runtime has no such stream (any more); raises Retry when it broke.
        """
        ...

    async def close(self) -> None:
        """The agent stops. Containers go on running."""
        ...

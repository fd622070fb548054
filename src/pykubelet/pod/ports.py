"""What the node needs from the outside world, as contracts. Every implementation passes the same suite of tests."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.services import Service
from pykubelet.pod.events import Applied, Gone, Listed
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.user_namespaces import IdMapping


class PodSource(Protocol):
    """Where pods come from."""

    def watch(self) -> AsyncGenerator[Listed | Applied | Gone, None]:
        """What there is, then every change.

        The first event is a Listed. The stream is endless and recovers by itself from whatever may happen outside: bad
        input and lost connections are reported in the log and take no pod away. It may be called again after it broke
        or was closed, one call at a time. The pods are values; nobody owns them.
        """
        ...


class Synced(Struct, frozen=True, kw_only=True):
    """What came of one sync."""

    ended: bool = False
    """The pod has run to its end, for good."""
    again_in: float | None = None
    """Seconds after which something is due, such as the next try of a crashing container."""


class Syncer(Protocol):
    """How one pod is made to run: the plug for people who run pods somewhere else. Calls for one pod never overlap.

    Every method may be called again after it failed, was cancelled, or succeeded: it looks at what is there and does
    what is missing. Failures are raised (base.errors) and tried again with back-off.
    """

    async def sync(self, pod: Pod) -> Synced:
        """Bring the pod as close as can be to what its spec asks for."""
        ...

    async def stop(self, pod: Pod, grace: float) -> None:
        """End all of its containers within `grace` seconds. Returns when none runs any more."""
        ...

    async def release(self, pod: Pod) -> None:
        """Give back what the stopped pod held while it ran: volumes, cgroups, names. Logs and dead containers stay."""
        ...

    async def remove(self, uid: str) -> None:
        """Nobody knows the pod any more: forget what is left of it, dead containers, logs and folders."""
        ...


# --- the API server, as the agent sees it


class Recorder(Protocol):
    """Where events go: an API server, or the log of a node that has none. Never waits and never fails."""

    def event(self, pod: Pod, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Tell people what happened to a pod, with one of upstream's reasons."""
        ...


class PodApi(Protocol):
    """What the agent does to pods on an API server. Raises base.errors; NotFound and Conflict mean what they say."""

    async def get(self, namespace: str, name: str) -> Pod: ...

    async def patch_status(self, namespace: str, name: str, uid: str, patch: Mapping[str, Any]) -> Pod:
        """Strategic merge patch of the status. Conflict when the name belongs to a pod of another uid by now."""
        ...

    async def create(self, pod: Pod) -> Pod: ...

    async def delete(self, namespace: str, name: str, uid: str, grace: int) -> None:
        """Conflict when the name belongs to a pod of another uid by now; harmless when the pod is gone."""
        ...


class Keyring(Protocol):
    """Credentials for images from somewhere else than pull secrets, such as a cloud's own plug-in."""

    async def credentials(self, image: str, pod: Pod) -> tuple["Registry", ...]:
        """Those that fit the image, the best first. Never raises: what cannot be had is told in the log."""
        ...


class Secrets(Protocol):
    """Where secrets come from. Raises base.errors."""

    async def secret(self, namespace: str, name: str) -> Secret: ...


class PodObjects(Protocol):
    """What pods use of an API server besides themselves. Raises base.errors; NotFound as upstream words it.

    An object may be some seconds old, unless it is asked for `fresh`: as it is now, for a pod that is about to start.
    One that was had before is believed for as long as the server does not answer.
    """

    async def secret(self, namespace: str, name: str, *, fresh: bool = False) -> Secret: ...

    async def config_map(self, namespace: str, name: str, *, fresh: bool = False) -> ConfigMap: ...

    async def service_account_token(
        self, namespace: str, name: str, audience: str, seconds: int | None, pod: Pod
    ) -> str:
        """A token that ends with the pod. The same one for as long as it is good, then another."""
        ...

    def renewal_in(self, uid: str) -> float | None:
        """Seconds after which a token of the pod has to be asked for again; None: it has none."""
        ...

    def forget(self, uid: str) -> None:
        """The pod is gone, and its tokens with it."""
        ...

    async def services(self, namespace: str, *, wait: bool = True) -> tuple[Service, ...]:
        """Those of a namespace, and the API server's own. With `wait`, Retry when they have never been read."""
        ...


class RuntimeClasses(Protocol):
    """What the names of runtime classes mean. Raises base.errors; NotFound when there is none of that name."""

    async def handler(self, name: str) -> str:
        """What the runtime calls the way to run the pods of this class."""
        ...


# --- the container runtime


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
    host_path: str
    container_path: str
    read_only: bool = False
    recursive_read_only: bool = False
    propagation: str = "None"
    """None, HostToContainer or Bidirectional."""


class ContainerMounts(Struct, frozen=True, kw_only=True):
    mounts: tuple[Mount, ...] = ()
    termination_message_path: str = ""


class Limits(Struct, frozen=True, kw_only=True):
    """What the kernel enforces. None: no limit."""

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    """Microseconds in each 100 ms."""
    memory: int | None = None
    oom_score_adj: int = 0


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
    limits: Limits = Limits()
    log_path: str = ""
    """Below the sandbox's log directory: `<container>/<attempt>.log`."""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """Among them the hash, restart count and termination settings that `ObservedContainer` is read back from."""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
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


class Storage(Struct, frozen=True, kw_only=True):
    """A file system, in bytes."""

    capacity: int
    available: int


class Registry(Struct, frozen=True, kw_only=True):
    """Credentials for one pull. Never logged."""

    username: str = ""
    password: str = ""
    token: str = ""
    server: str = ""

    def __repr__(self) -> str:
        return "Registry(...)"


class Runtime(Protocol):
    """Sandboxes and containers on this machine.

    Ids are the runtime's own. All methods raise base.errors: Retry when it may work later, NotFound for an id that is
    not there, Invalid for what this runtime can never do (the text becomes part of the pod's status). Deadlines live in
    the implementation. Calls for different pods run concurrently.
    """

    async def version(self) -> RuntimeVersion: ...

    async def status(self) -> RuntimeStatus: ...

    async def pods(self) -> tuple[ObservedPod, ...]:
        """Everything there is, also of pods that an earlier agent started."""
        ...

    async def observe(self, uid: str) -> ObservedPod:
        """One pod, seen now. Empty when there is nothing of it."""
        ...

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """Create and start a sandbox. -> its id. What a failed call leaves behind is seen by `observe`."""
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

    async def pull_image(self, name: str, credentials: Registry | None = None) -> Image: ...

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

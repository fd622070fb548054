"""A runtime in memory, for tests, simulation and benchmarks: told when to fail, to be slow, and to end programs."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta

from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.pod.moments import Journal
from pykubelet.pod.observed import EnforcedLimits, ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.pod.ports.runtime import (
    Capabilities,
    ContainerConfig,
    ExecResult,
    Image,
    Limits,
    PullCredentials,
    RuntimeStatus,
    RuntimeVersion,
    SandboxConfig,
    Storage,
)
from pykubelet.runtime.measured import measured

Now = Callable[[], datetime]
STUBBORN = "stubborn"
"""A command that never heeds SIGTERM."""

_HASH = "io.kubernetes.container.hash"
_GRACE = "io.kubernetes.pod.terminationGracePeriod"


class _Sandbox:
    def __init__(self, sandbox_id: str, config: SandboxConfig, created_at: datetime, ip: str) -> None:
        self.id = sandbox_id
        self.config = config
        self.created_at = created_at
        self.containers: list[_Container] = []
        self.ready = True
        self.host_network = bool(config.pod.spec.host_network)
        self.ips = () if self.host_network else (ip,)

    def observed(self) -> ObservedSandbox:
        return ObservedSandbox(
            id=self.id,
            ready=self.ready,
            attempt=self.config.attempt,
            created_at=self.created_at,
            ips=self.ips,
            host_network=self.host_network,
        )


class _Container:
    def __init__(
        self, number: int, container_id: str, sandbox: _Sandbox, config: ContainerConfig, created_at: datetime
    ) -> None:
        self.number = number
        self.id = container_id
        self.sandbox = sandbox
        self.config = config
        self.state = State.CREATED
        self.created_at = created_at
        self.started_at: datetime | None = None
        self.finished_at: datetime | None = None
        self.exit_code = 0
        self.reason = ""
        self.message = ""
        self.ended = asyncio.Event()

    def observed(self) -> ObservedContainer:
        grace = self.config.annotations.get(_GRACE)
        return ObservedContainer(
            id=self.id,
            name=self.config.name,
            state=self.state,
            sandbox_id=self.sandbox.id,
            attempt=self.config.attempt,
            hash=self.config.annotations.get(_HASH, ""),
            image=self.config.image,
            image_id=self.config.image_id,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            exit_code=self.exit_code,
            reason=self.reason,
            message=self.message,
            grace_seconds=int(grace) if grace else None,
            limits=EnforcedLimits(
                cpu_shares=self.config.limits.cpu_shares,
                cpu_quota=self.config.limits.cpu_quota,
                memory=self.config.limits.memory,
            ),
        )


@measured
class FakeRuntime:
    """Keeps the port's promises. What is below `# --- the script` is the test's side of it."""

    def __init__(self, *, now: Now | None = None, journal: Journal | None = None) -> None:
        self.journal = journal or Journal()
        self.capabilities = Capabilities(updates_containers=self._no_refusal)
        loop = asyncio.get_running_loop()
        began = datetime(2026, 1, 1, tzinfo=UTC)
        self._now: Now = now or (lambda: began + timedelta(seconds=loop.time()))
        self._sandboxes: dict[str, _Sandbox] = {}
        self._by_uid: dict[str, list[_Sandbox]] = {}
        self._containers: dict[str, _Container] = {}
        self._ids = itertools.count(1)
        self._changed: set[str] = set()
        self._news = asyncio.Event()
        self._images: dict[str, Image] = {}
        self.calls: list[tuple[str, str]] = []
        """Each call with what it was about, in order."""
        self.failures: dict[str, list[Exception]] = defaultdict(list)
        """By method: the errors that its next calls raise."""
        self.delays: dict[str, float] = {}
        """By method: how long each call takes."""
        self.updates: list[tuple[str, Limits]] = []
        """What containers were told while they ran."""
        self.stop_seconds = 0.0
        """How long programs take to heed SIGTERM; longer than the grace, and they are killed."""
        self.is_ready = True
        self.network_ready = True
        self.has_events = True
        self.missing_images: set[str] = set()
        self.executed: list[tuple[str, tuple[str, ...]]] = []
        """The commands that were run in containers."""
        self.exit_codes: dict[str, int] = {}
        """By command: what it ends with, if not 0."""
        self.storage: Storage | None = Storage(capacity=100 << 30, available=90 << 30)
        """Where images are kept. What is removed from it makes room."""

    # --- the port

    async def version(self) -> RuntimeVersion:
        return RuntimeVersion(name="fake", version="1")

    async def status(self) -> RuntimeStatus:
        await self._call("status", "")
        return RuntimeStatus(ready=self.is_ready, network_ready=self.network_ready)

    async def pods(self) -> tuple[ObservedPod, ...]:
        await self._call("pods", "")
        return tuple(self.seen(uid) for uid in sorted(self._by_uid))

    async def observe(self, uid: str) -> ObservedPod:
        await self._call("observe", uid)
        return self.seen(uid)

    async def run_sandbox(self, config: SandboxConfig) -> ObservedSandbox:
        await self._call("run_sandbox", config.pod.metadata.uid)
        number = next(self._ids)
        sandbox_id = f"sandbox-{number}"
        ip = f"10.0.{number // 250 % 250}.{number % 250 + 1}"
        self._sandboxes[sandbox_id] = sandbox = _Sandbox(sandbox_id, config, self._now(), ip)
        self._by_uid.setdefault(config.pod.metadata.uid, []).append(sandbox)
        return sandbox.observed()

    async def stop_sandbox(self, sandbox_id: str) -> None:
        await self._call("stop_sandbox", sandbox_id)
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            return
        for container in sandbox.containers:
            self._end(container, 137, "Error")
        sandbox.ready = False
        sandbox.ips = ()

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self.stop_sandbox(sandbox_id)
        await self._call("remove_sandbox", sandbox_id)
        sandbox = self._sandboxes.pop(sandbox_id, None)
        if sandbox is not None:
            for container in sandbox.containers:
                del self._containers[container.id]
            uid = sandbox.config.pod.metadata.uid
            self._by_uid[uid].remove(sandbox)
            if not self._by_uid[uid]:
                del self._by_uid[uid]

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> str:
        await self._call("create_container", config.name)
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            raise NotFound(f"sandbox {sandbox_id} does not exist")
        if not sandbox.ready:
            raise Retry(f"sandbox {sandbox_id} is not ready")
        if not config.command and not config.image:
            raise Invalid("a container needs an image or a command")
        taken = any(c.config.name == config.name and c.config.attempt == config.attempt for c in sandbox.containers)
        if taken:
            raise Invalid(f"container {config.name}, attempt {config.attempt}, exists already")
        number = next(self._ids)
        container_id = f"{config.name}-{number}"
        self._containers[container_id] = container = _Container(number, container_id, sandbox, config, self._now())
        sandbox.containers.append(container)
        return container_id

    async def start_container(self, container_id: str) -> None:
        await self._call("start_container", container_id)
        container = self._found(container_id)
        if container.state is not State.CREATED:
            raise Invalid(f"container {container_id} is {container.state}, not created")
        container.state = State.RUNNING
        container.started_at = self._now()

    async def update_container(self, container_id: str, limits: Limits) -> None:
        await self._call("update_container", container_id)
        container = self._found(container_id)
        if container.state is State.EXITED:
            return
        container.config = changed(container.config, limits=container.config.limits.updated(limits))
        self.updates.append((container_id, limits))

    async def stop_container(self, container_id: str, grace: float) -> None:
        await self._call("stop_container", container_id)
        container = self._containers.get(container_id)
        if container is None or container.state is State.EXITED:
            return
        if container.state is State.RUNNING:
            heeded = self.stop_seconds <= grace and container.config.command[:1] != (STUBBORN,)
            try:
                async with asyncio.timeout(self.stop_seconds if heeded else grace):
                    await container.ended.wait()
                return
            except TimeoutError:
                self._end(container, 143 if heeded else 137, "Error")
        else:
            self._end(container, 137, "Error")

    async def remove_container(self, container_id: str) -> None:
        await self._call("remove_container", container_id)
        container = self._containers.pop(container_id, None)
        if container is not None:
            self._end(container, 137, "Error")
            container.sandbox.containers.remove(container)

    async def exec_sync(self, container_id: str, command: tuple[str, ...], timeout: float) -> ExecResult:
        await self._call("exec_sync", container_id)
        if self._found(container_id).state is not State.RUNNING:
            raise Retry(f"container {container_id} does not run")
        self.executed.append((container_id, command))
        return ExecResult(exit_code=self.exit_codes.get(command[0], 0), stdout=" ".join(command).encode())

    async def image(self, name: str) -> Image | None:
        await self._call("image", name)
        return self._images.get(name)

    async def pull_image(self, name: str, credentials: PullCredentials | None = None) -> Image:
        await self._call("pull_image", name)
        if name in self.missing_images:
            raise NotFound(f"image {name} does not exist")
        self._images[name] = image = Image(id=f"sha256:{name}", names=(name,), size=1)
        return image

    async def images(self) -> tuple[Image, ...]:
        return tuple(self._images.values())

    async def remove_image(self, image_id: str) -> None:
        await self._call("remove_image", image_id)
        gone = {image.id: image.size for image in self._images.values() if image.id == image_id}
        self._images = {name: image for name, image in self._images.items() if image.id not in gone}
        if self.storage is not None:
            self.storage = changed(self.storage, available=self.storage.available + sum(gone.values()))

    async def image_storage(self) -> Storage | None:
        await self._call("image_storage", "")
        return self.storage

    async def reopen_log(self, container_id: str) -> None:
        await self._call("reopen_log", container_id)
        self._found(container_id)

    async def changes(self) -> AsyncGenerator[str, None]:
        while self.has_events:
            await self._news.wait()
            self._news.clear()
            while self._changed:
                yield self._changed.pop()

    async def close(self) -> None:
        pass

    # --- the script

    def hold(self, image: Image) -> None:
        """An image is here, as if it had been pulled long ago."""
        self._images[image.names[0]] = image

    def seen(self, uid: str) -> ObservedPod:
        """What `observe` would say, without asking."""
        sandboxes = self._by_uid.get(uid, [])
        if not sandboxes:
            return ObservedPod(uid=uid)
        meta = sandboxes[0].config.pod.metadata
        containers = sorted((c for s in sandboxes for c in s.containers), key=lambda c: c.number, reverse=True)
        return ObservedPod(
            uid=uid,
            name=meta.name,
            namespace=meta.namespace,
            sandboxes=tuple(s.observed() for s in reversed(sandboxes)),
            containers=tuple(c.observed() for c in containers),
        )

    def exit(self, uid: str, name: str, code: int = 0, *, reason: str = "") -> None:
        """A program ends by itself."""
        for container in [c for s in self._by_uid.get(uid, []) for c in s.containers]:
            if container.config.name == name:
                self._end(container, code, reason or ("Error" if code else "Completed"))

    def lose_sandbox(self, uid: str) -> None:
        """The machine was started again, or somebody killed the holder."""
        for sandbox in self._by_uid.get(uid, []):
            for container in sandbox.containers:
                self._end(container, 137, "Error")
            sandbox.ready = False
            self._tell(sandbox)

    def running(self) -> list[str]:
        """`pod/container` of everything that runs, sorted; twice if it runs twice."""
        return sorted(
            f"{c.sandbox.config.pod.metadata.name}/{c.config.name}"
            for c in self._containers.values()
            if c.state is State.RUNNING
        )

    @property
    def is_empty(self) -> bool:
        return not self._sandboxes and not self._containers

    # --- inside

    async def _no_refusal(self) -> str:
        return ""

    async def _call(self, method: str, about: str) -> None:
        self.calls.append((method, about))
        if delay := self.delays.get(method):
            await asyncio.sleep(delay)
        if self.failures[method]:
            raise self.failures[method].pop(0)

    def _found(self, container_id: str) -> _Container:
        container = self._containers.get(container_id)
        if container is None:
            raise NotFound(f"container {container_id} does not exist")
        return container

    def _end(self, container: _Container, code: int, reason: str) -> None:
        if container.state is State.EXITED:
            return
        container.state = State.EXITED
        container.exit_code = code
        container.reason = reason
        container.finished_at = self._now()
        container.ended.set()
        self._tell(container.sandbox)

    def _tell(self, sandbox: _Sandbox) -> None:
        self._changed.add(sandbox.config.pod.metadata.uid)
        self._news.set()

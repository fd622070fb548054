"""All that the runtime knows, kept true: read from disk when the agent starts, then by following the processes."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Coroutine, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from pykubelet.api.pod import Pod
from pykubelet.base.errors import NotFound, Retry
from pykubelet.pod.observed import ObservedPod, ObservedSandbox, State
from pykubelet.pod.ports.runtime import ContainerConfig
from pykubelet.runtime.process import cgroups
from pykubelet.runtime.process.known import Container, Sandbox, observed_pod
from pykubelet.runtime.process.process import Process, kill_holders
from pykubelet.runtime.process.store import ContainerEnd, ContainerRun, SandboxRun, Store, read, write

log = logging.getLogger(__name__)

_LONGEST_MESSAGE: Final = 4096


class Table:
    """Changed only on the event loop. Things are in it from oldest to newest."""

    def __init__(self, store: Store, machine_ips: tuple[str, ...]) -> None:
        self.store = store
        self._machine_ips = machine_ips
        self.sandboxes: dict[str, Sandbox] = {}
        self.containers: dict[str, Container] = {}
        self._pods: dict[str, list[Sandbox]] = {}
        self._listeners: set[_Listener] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        sandboxes, containers = await asyncio.to_thread(self._read)
        for sandbox in sandboxes:
            self.add_sandbox(sandbox)
            self.follow_sandbox(sandbox)
        for container in containers:
            self.add_container(container)
            if container.end is not None:
                container.ended.set()
            elif container.run is not None:
                await self.follow_container(container)

    def add_sandbox(self, sandbox: Sandbox) -> None:
        self.sandboxes[sandbox.id] = sandbox
        self._pods.setdefault(sandbox.uid, []).append(sandbox)

    def drop_sandbox(self, sandbox: Sandbox) -> None:
        if self.sandboxes.pop(sandbox.id, None) is not None:
            self._pods[sandbox.uid].remove(sandbox)
            if not self._pods[sandbox.uid]:
                del self._pods[sandbox.uid]

    def add_container(self, container: Container) -> None:
        self.containers[container.id] = container
        container.sandbox.containers.append(container)

    def drop_container(self, container: Container) -> None:
        if self.containers.pop(container.id, None) is not None:
            container.sandbox.containers.remove(container)

    def ready(self, sandbox_id: str) -> Sandbox:
        """Raises NotFound; Retry for one that has ended."""
        sandbox = self.sandboxes.get(sandbox_id)
        if sandbox is None:
            raise NotFound(f"sandbox {sandbox_id} does not exist")
        if sandbox.process is None:
            raise Retry(f"sandbox {sandbox_id} is not ready")
        return sandbox

    async def renew(self, sandbox: Sandbox, config: ContainerConfig) -> None:
        """Ephemeral containers come to a pod that runs: what they ask for is in the pod as it is now. Raises Retry."""
        pod, known = config.sandbox.pod if config.sandbox else None, sandbox.record.config.pod.spec
        if pod is None or pod.spec.ephemeral_containers == known.ephemeral_containers:
            return
        try:
            sandbox.record = await asyncio.to_thread(self.store.renew, sandbox.record, pod)
        except OSError as error:
            raise Retry(f"container {config.name} cannot be noted: {error}") from error

    def found(self, container_id: str) -> Container:
        container = self.containers.get(container_id)
        if container is None:
            raise NotFound(f"container {container_id} does not exist")
        return container

    def running(self, container_id: str) -> Container:
        container = self.found(container_id)
        if container.state is not State.RUNNING:
            raise Retry(f"container {container_id} does not run")
        return container

    def seen(self, uid: str) -> ObservedPod:
        return observed_pod(uid, self._pods.get(uid, ()), self._machine_ips)

    def seen_sandbox(self, sandbox: Sandbox) -> ObservedSandbox:
        return sandbox.observed(self._machine_ips)

    def all_seen(self) -> tuple[ObservedPod, ...]:
        return tuple(observed_pod(uid, sandboxes, self._machine_ips) for uid, sandboxes in self._pods.items())

    def pods(self) -> Iterator[Pod]:
        """Those that are there now."""
        return (each.record.config.pod for each in self.sandboxes.values() if each.process is not None)

    # --- following

    def follow_sandbox(self, sandbox: Sandbox) -> None:
        sandbox.process = Process.open(sandbox.run.holder) if sandbox.run else None
        if sandbox.process is None:
            sandbox.ended.set()
        else:
            sandbox.process.when_ended(lambda: self._sandbox_ended(sandbox))

    def _sandbox_ended(self, sandbox: Sandbox) -> None:
        sandbox.process = None
        sandbox.ended.set()
        self._tell(sandbox.uid)

    async def refresh_sandbox(self, sandbox: Sandbox) -> None:
        sandbox.run = await asyncio.to_thread(read, self.store.folder(sandbox.record) / "run.json", SandboxRun)
        self.follow_sandbox(sandbox)

    async def follow_container(self, container: Container) -> None:
        assert container.run is not None
        container.process = Process.open(container.run.monitor)
        if container.process is None:
            await self._settle(container)
        else:
            container.process.when_ended(lambda: self._own(self._settle(container)))

    async def refresh_container(self, container: Container) -> None:
        """After the shim was asked to start it, whatever came of that."""
        folder = self.store.folder(container.record)
        run = await asyncio.to_thread(read, folder / "run.json", ContainerRun)
        end = await asyncio.to_thread(read, folder / "exit.json", ContainerEnd)
        container.run = run
        if end is not None:
            await self._settle(container)
        elif run is not None and container.process is None:
            await self.follow_container(container)

    async def _settle(self, container: Container, end: ContainerEnd | None = None) -> None:
        """Its monitor is gone, or never was: note how it ended. `end`: if that is known without the monitor."""
        container.process = None
        if container.end is not None:
            return
        container.end, container.last_words = await asyncio.to_thread(self._ending, container, end)
        container.ended.set()
        self._tell(container.sandbox.uid)

    async def end_unstarted(self, container: Container, code: int, reason: str, message: str) -> None:
        end = ContainerEnd(exit_code=code, reason=reason, message=message, finished_at=datetime.now(UTC))
        await self._settle(container, end)

    def _ending(self, container: Container, known: ContainerEnd | None) -> tuple[ContainerEnd, str]:
        path = self.store.folder(container.record) / "exit.json"
        end = None if known else read(path, ContainerEnd)
        if end is None:
            end = known or self._lost(container)
            try:
                if path.parent.is_dir():
                    write(path, end)
            except OSError as error:  # on a full disk, too, it has to be possible to stop pods
                log.warning("how container %s ended cannot be noted: %s", container.record.id, error)
        return end, _last_words(container)

    def _lost(self, container: Container) -> ContainerEnd:
        """The monitor went without a word. What may be left of the container is killed, if it surely is that."""
        message = "the container's monitor ended without saying how: it was killed, or the machine was started again"
        if container.run is not None:
            main = Process.open(container.run.main)
            if main is not None:
                main.kill_and_close()
            cgroups.kill(container.record.placement.folders)
            kill_holders(container.run.pipes)
        return ContainerEnd(exit_code=255, reason="Unknown", message=message, finished_at=datetime.now(UTC))

    # --- telling

    async def changes(self) -> AsyncGenerator[str, None]:
        listener = _Listener()
        self._listeners.add(listener)
        try:
            while not listener.closed:
                await listener.news.wait()
                listener.news.clear()
                while listener.uids:
                    yield listener.uids.popitem()[0]
        finally:
            self._listeners.discard(listener)

    def _tell(self, uid: str) -> None:
        for listener in self._listeners:
            listener.uids[uid] = None
            listener.news.set()

    # --- the rest

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("cannot note the end of a container", exc_info=task.exception())

    async def close(self) -> None:
        for listener in self._listeners:
            listener.closed = True
            listener.news.set()
        processes = [each.process for each in self.sandboxes.values()]
        processes += [each.process for each in self.containers.values()]
        for process in processes:
            if process is not None:
                process.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _read(self) -> tuple[list[Sandbox], list[Container]]:
        sandboxes: dict[str, Sandbox] = {}
        for record, run in sorted(self.store.read_sandboxes(), key=lambda found: found[0].created_at):
            sandboxes[record.id] = sandbox = Sandbox(record)
            sandbox.run = run
        containers = []
        for each, container_run, end in sorted(self.store.read_containers(), key=lambda found: found[0].created_at):
            owner = sandboxes.get(each.sandbox_id)
            if owner is None:
                log.warning("container %s belongs to no sandbox: it is left alone", each.id)
                continue
            container = Container(each, owner)
            container.run, container.end = container_run, end
            container.last_words = _last_words(container) if end else ""
            containers.append(container)
        return list(sandboxes.values()), containers


class _Listener:
    def __init__(self) -> None:
        self.uids: dict[str, None] = {}
        self.news = asyncio.Event()
        self.closed = False


def _last_words(container: Container) -> str:
    """Its termination message."""
    path = container.record.config.termination_message_path
    if not path:
        return ""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            return file.read(_LONGEST_MESSAGE).decode("utf-8", "replace")
    except OSError:
        return ""

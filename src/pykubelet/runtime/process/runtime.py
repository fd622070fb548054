"""The Runtime port on nothing but this machine's kernel: what each call means, and in which order it is done."""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from pykubelet import __version__
from pykubelet.api import container as pod_container
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.pod.moments import Journal
from pykubelet.pod.observed import ObservedPod, ObservedSandbox, State
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
from pykubelet.runtime.process import cgroups, exec, specs
from pykubelet.runtime.process.abilities import Abilities, probe_abilities, runtime_status
from pykubelet.runtime.process.assembly import Assembly, Logs
from pykubelet.runtime.process.cgroups import Cgroups
from pykubelet.runtime.process.filters import Filters
from pykubelet.runtime.process.images.images import MACHINE, Images
from pykubelet.runtime.process.known import Container, Sandbox, ended_within
from pykubelet.runtime.process.machine_files import MachineFiles
from pykubelet.runtime.process.security import context_of
from pykubelet.runtime.process.spawner import Answer, Spawner
from pykubelet.runtime.process.stats import ProcessPlaces
from pykubelet.runtime.process.store import SandboxRecord, Store
from pykubelet.runtime.process.streams import ProcessStreams
from pykubelet.runtime.process.table import Table
from pykubelet.runtime.process.unenforced import unavailable_ports, unenforced
from pykubelet.runtime.process.whole import Whole
from pykubelet.runtime.settings import ImageSource

_STARTING: Final = 60.0
_KILLING: Final = 10.0
_REOPENING: Final = 5.0
_KILLED: Final = 137
_AUTHORS: Final = ("exec: ", "working directory ")  # failures that only the pod's author can mend


@measured
class ProcessRuntime:
    """Containers as processes, without a daemon and without root.

    All state is below `root`; `hidden` is what else containers must not see. With `isolated` False they are plain
    processes even where more would be possible. `python` runs the shim: any 3.11 with its standard library alone.
    """

    def __init__(
        self,
        root: Path,
        *,
        log_root: Path | None = None,
        images: ImageSource = "machine",
        machine_ips: tuple[str, ...] = ("127.0.0.1",),
        hidden: Sequence[Path] = (),
        isolated: bool = True,
        python: str = "",
        log_size: int = 10 * 1024 * 1024,
        log_files: int = 5,
        filters: Filters | None = None,
        journal: Journal | None = None,
        cgroups: Callable[[], Cgroups] = Cgroups,
    ) -> None:
        self.journal = journal or Journal()
        self._root, self._isolated = root.absolute(), isolated
        self._logs = Logs(root=(log_root or root / "logs").absolute(), size=log_size, files=log_files)
        self._machine_files = MachineFiles((self._root, self._logs.root, *hidden))
        self._filters = filters or Filters(folder=self._root / "seccomp")
        self._images = Images(self._root, images if isolated else "machine")
        self._store = Store(self._root)
        self._table = Table(self._store, machine_ips)
        self._spawner = Spawner(python or getattr(sys, "_base_executable", sys.executable))
        self._streams = ProcessStreams(self._open, self._table, self._spawner)
        self.capabilities = Capabilities(
            streams=self._streams,
            places=ProcessPlaces(self._table, lambda: self._abilities is not None and self._abilities.overlay),
            stand_in=self._stand_in,
            own_network=False,
            unenforced=self._unenforced,
            unavailable_ports=lambda pod: unavailable_ports(pod, self._table.pods(), self._abilities),
            keeps_images=True,
            updates_containers=self._update_refusal,
        )
        self._find_cgroups = cgroups
        self._cgroups: Cgroups | None = None
        self._abilities: Abilities | None = None
        self._assembly: Assembly | None = None
        self._opening = asyncio.Lock()
        self._whole = Whole()

    async def _open(self) -> Assembly:
        """The first call of anything looks at the machine and at what an earlier agent has left running."""
        async with self._opening:
            if self._assembly is None:
                if self._isolated:
                    self._machine_files.look()
                await asyncio.to_thread(self._store.open)
                await asyncio.to_thread(self._images.open)
                self._cgroups = await asyncio.to_thread(self._find_cgroups)
                self._abilities = await self._look()
                await self._table.load()  # what cannot be read now has to be read before anything is begun
                self._assembly = Assembly(
                    self._abilities,
                    self._images,
                    self._filters,
                    sandboxes=self._store.sandboxes,
                    containers=self._store.containers,
                    machine_files=self._machine_files,
                    logs=self._logs,
                )
            return self._assembly

    async def _look(self) -> Abilities:
        assert self._cgroups is not None
        if self._isolated:
            return await probe_abilities(self._spawner, self._root, self._cgroups)
        return Abilities.plain("isolation is switched off", self._cgroups, is_wanted=True)

    # --- what there is

    async def version(self) -> RuntimeVersion:
        return RuntimeVersion(name="process", version=__version__)

    async def status(self) -> RuntimeStatus:
        await self._open()
        assert self._abilities is not None
        return runtime_status(self._abilities, self._images.source, in_memory=self._store.memory is not None)

    async def _unenforced(self, pod: Pod) -> tuple[str, ...]:
        await self._open()
        assert self._abilities is not None
        return unenforced(pod, self._abilities)

    async def _update_refusal(self) -> str:
        await self._open()
        assert self._cgroups is not None
        return f"{self._cgroups.refusal}; {cgroups.remedy()}" if self._cgroups.refusal else ""

    async def pods(self) -> tuple[ObservedPod, ...]:
        await self._open()
        return self._table.all_seen()

    async def observe(self, uid: str) -> ObservedPod:
        await self._open()
        return self._table.seen(uid)

    async def changes(self) -> AsyncGenerator[str, None]:
        await self._open()
        async with aclosing(self._table.changes()) as uids:
            async for uid in uids:
                yield uid

    # --- sandboxes

    async def run_sandbox(self, config: SandboxConfig) -> ObservedSandbox:
        assembly = await self._open()
        assert self._abilities is not None
        specs.check_sandbox(config, self._abilities)
        record = SandboxRecord(id=secrets.token_hex(16), config=config, created_at=datetime.now(UTC))
        return await self._whole.run(self._run_sandbox(record, assembly))

    async def _run_sandbox(self, record: SandboxRecord, assembly: Assembly) -> ObservedSandbox:
        await asyncio.to_thread(self._store.add, record)
        sandbox = Sandbox(record)
        self._table.add_sandbox(sandbox)
        try:
            spec = await asyncio.to_thread(assembly.prepare_sandbox, record)
            answer = await self._spawner.ask("sandbox", spec, within=_STARTING)
            await self._table.refresh_sandbox(sandbox)
            if sandbox.process is None:
                raise Retry(f"the sandbox cannot be made: {answer.failure or 'its process has ended'}")
        except (OSError, PykubeletError) as error:
            await self._forget_sandbox(sandbox)
            raise error if isinstance(error, PykubeletError) else Retry(str(error)) from error
        return self._table.seen_sandbox(sandbox)

    async def stop_sandbox(self, sandbox_id: str) -> None:
        assembly = await self._open()
        sandbox = self._table.sandboxes.get(sandbox_id)
        if sandbox is None:
            return
        kills = [self._kill(container) for container in sandbox.containers]
        for result in await asyncio.gather(*kills, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        if sandbox.process is not None:
            sandbox.process.send(signal.SIGKILL)
            await ended_within(sandbox.ended, _KILLING, f"sandbox {sandbox_id}")
        await asyncio.to_thread(assembly.clear_sandbox, sandbox)

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self.stop_sandbox(sandbox_id)
        sandbox = self._table.sandboxes.get(sandbox_id)
        if sandbox is not None:
            for container in tuple(sandbox.containers):
                await self._forget_container(container)
            await self._forget_sandbox(sandbox)

    async def _forget_sandbox(self, sandbox: Sandbox) -> None:
        assert self._assembly is not None
        self._table.drop_sandbox(sandbox)
        await asyncio.to_thread(self._assembly.clear_sandbox, sandbox)
        await asyncio.to_thread(self._store.remove, sandbox.record)

    # --- containers

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> str:
        assembly = await self._open()
        sandbox = self._table.ready(sandbox_id)
        await self._table.renew(sandbox, config)
        record = await asyncio.to_thread(assembly.record, sandbox.record, config)
        await asyncio.to_thread(assembly.check, sandbox.record.config, config, record.image_id)
        for other in sandbox.containers:
            if (other.record.config.name, other.record.config.attempt) == (config.name, config.attempt):
                raise Invalid(f"container {config.name}, attempt {config.attempt}, exists already")
        container = Container(record, sandbox)
        self._table.add_container(container)
        try:
            await asyncio.to_thread(self._images.use, record.image_id, config, partial(self._store.add, record))
        except (OSError, Retry) as error:
            self._table.drop_container(container)
            raise Retry(f"container {config.name} cannot be noted: {error}") from error
        return record.id

    async def start_container(self, container_id: str) -> None:
        assembly = await self._open()
        container = self._table.found(container_id)
        if container.state is not State.CREATED or container.is_starting:
            raise Invalid(f"container {container_id} is {container.state}: only a created one can be started, once")
        if container.sandbox.process is None:
            raise Retry(f"sandbox {container.sandbox.id} is not ready")
        container.is_starting = True
        container.start_over.clear()
        await self._whole.run(self._start(container, assembly))

    async def _start(self, container: Container, assembly: Assembly) -> None:
        answer = Answer()
        try:
            await asyncio.to_thread(self._place, container)
            if self._isolated and container.record.image_id == MACHINE:
                await self._machine_files.ready()
            spec = await asyncio.to_thread(assembly.container, container)
            await self._spawner.ask("container", spec, answer=answer, within=_STARTING)
        except (OSError, Retry) as error:
            await asyncio.to_thread(answer.kill)
            raise Retry(f"container {container.record.config.name} cannot be started: {error}") from error
        finally:
            await self._table.refresh_container(container)
            container.is_starting = False
            container.start_over.set()
        failure = answer.failure or ("" if answer.get("started") else "its monitor gave no answer")
        if failure:
            if container.end is None and container.run is None:
                await self._table.end_unstarted(container, 128, "StartError", failure)
            kind = Invalid if failure.startswith(_AUTHORS) else Retry
            raise kind(f"unable to start container process: {failure}")

    def _place(self, container: Container) -> None:
        """Limits that cannot be set are among the limitations; they keep nothing from running."""
        assert self._cgroups is not None
        config, sandbox = container.record.config, container.sandbox.record.config
        privileged = bool(context_of(sandbox.pod, config.name).privileged)
        devices = None if privileged else config.devices
        placement = self._cgroups.place(container.id, sandbox.cgroup_parent, config.limits, devices)
        if placement.folders:
            container.record = self._store.change(container.record, placement=placement)

    async def update_container(self, container_id: str, limits: Limits) -> None:
        await self._open()
        container = self._table.found(container_id)
        await container.start_over.wait()
        if container.state is not State.EXITED:
            await asyncio.to_thread(self._update, container, limits)

    def _update(self, container: Container, limits: Limits) -> None:
        assert self._cgroups is not None
        if container.state is State.RUNNING:
            self._cgroups.update(container.record.placement, limits)
        container.record = self._store.change(container.record, limits=limits)

    async def stop_container(self, container_id: str, grace: float) -> None:
        await self._open()
        container = self._table.containers.get(container_id)
        if container is None:
            return
        await container.start_over.wait()
        if container.process is not None and grace > 0:
            if not container.was_asked_to_stop:
                container.was_asked_to_stop = True
                container.process.send(signal.SIGTERM)
            try:
                async with asyncio.timeout(grace):
                    await container.ended.wait()
                return
            except TimeoutError:
                pass
        await self._kill(container)

    async def _kill(self, container: Container) -> None:
        """Its monitor kills all the others; and if that does not answer, it goes too."""
        await container.start_over.wait()
        if container.state is State.CREATED:
            await self._table.end_unstarted(container, _KILLED, "Error", "it was stopped before it was started")
        if container.process is not None:
            container.process.send(signal.SIGUSR1)
            try:
                async with asyncio.timeout(_KILLING):
                    await container.ended.wait()
            except TimeoutError:
                if container.run is not None and container.run.own_pids and container.process is not None:
                    container.process.send(signal.SIGKILL)
        await ended_within(container.ended, _KILLING, f"container {container.id}")

    async def remove_container(self, container_id: str) -> None:
        await self._open()
        container = self._table.containers.get(container_id)
        if container is not None:
            await self._kill(container)
            await self._forget_container(container)

    async def _forget_container(self, container: Container) -> None:
        self._table.drop_container(container)
        await asyncio.to_thread(cgroups.remove, container.record.placement.folders)
        await asyncio.to_thread(self._store.remove, container.record)

    async def exec_sync(self, container_id: str, command: tuple[str, ...], timeout: float) -> ExecResult:
        assembly = await self._open()
        container = self._table.running(container_id)
        if not command:
            raise Invalid("there is no command to run")
        spec = await asyncio.to_thread(assembly.command, container, command)
        return await exec.run(self._spawner, spec, timeout)

    async def reopen_log(self, container_id: str) -> None:
        await self._open()
        container = self._table.found(container_id)
        if container.process is None:
            return
        path = container.record.log
        container.process.send(signal.SIGHUP)
        until = asyncio.get_running_loop().time() + _REOPENING
        while not os.path.exists(path):  # noqa: ASYNC240 - a look in memory; the monitor makes it when it has heard us
            if container.end is not None:
                return
            if asyncio.get_running_loop().time() > until:
                raise Retry(f"the log of container {container_id} was not opened again")
            await asyncio.sleep(0.002)

    # --- images

    async def image(self, name: str) -> Image | None:
        return await asyncio.to_thread(self._images.get, name)

    async def pull_image(self, name: str, credentials: PullCredentials | None = None) -> Image:
        await self._open()
        return await self._images.pull(name, credentials)

    async def images(self) -> tuple[Image, ...]:
        return await asyncio.to_thread(self._images.all)

    async def remove_image(self, image_id: str) -> None:
        await asyncio.to_thread(self._images.remove, image_id)

    async def image_storage(self) -> Storage | None:
        await self._open()
        return await asyncio.to_thread(self._images.storage)

    async def _stand_in(self, container: pod_container.Container) -> Image | None:
        return await asyncio.to_thread(self._images.stand_in, container)

    # --- the end

    async def close(self) -> None:
        await self._whole.close()
        await self._streams.close()
        await self._table.close()
        await self._spawner.close()
        await asyncio.to_thread(self._store.close)
        await self._machine_files.close()
        if self._assembly is not None and all(each.process is None for each in self._table.sandboxes.values()):
            await asyncio.to_thread(self._assembly.close)

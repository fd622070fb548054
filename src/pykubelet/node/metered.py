"""Wrappers around the ports that tell somebody how long everything takes. Those who do the work know nothing of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

from pykubelet.api.pod import Pod
from pykubelet.pod.observed import ObservedPod, ObservedSandbox
from pykubelet.pod.ports.machine import PodCgroups
from pykubelet.pod.ports.runtime import ContainerConfig, Image, PullCredentials, Runtime, SandboxConfig
from pykubelet.pod.ports.syncer import Synced, Syncer

T = TypeVar("T")

_CALLS: Final = {
    "version": "Version",
    "status": "Status",
    "pods": "ListPodSandbox",
    "observe": "PodSandboxStatus",
    "run_sandbox": "RunPodSandbox",
    "stop_sandbox": "StopPodSandbox",
    "remove_sandbox": "RemovePodSandbox",
    "create_container": "CreateContainer",
    "start_container": "StartContainer",
    "stop_container": "StopContainer",
    "remove_container": "RemoveContainer",
    "exec_sync": "ExecSync",
    "image": "ImageStatus",
    "pull_image": "PullImage",
    "images": "ListImages",
    "remove_image": "RemoveImage",
    "image_storage": "ImageFsInfo",
    "reopen_log": "ReopenContainerLog",
}
"""What a runtime over the wire would be asked."""


class Meters(Protocol):
    """Who wants to know. No method waits, and none fails."""

    def pod_begins(self, pod: Pod) -> None:
        """Its worker is about to sync it for the first time."""
        ...

    def pod_worked(self, pod: Pod, operation: str, seconds: float) -> None:
        """A step of its worker is over, well or not: create, update, sync, kill or terminated."""
        ...

    def pod_seen(self, observed: ObservedPod) -> None: ...

    def orphan_found(self) -> None:
        """The runtime has a pod that nobody knows."""
        ...

    def orphan_removed(self, failed: bool) -> None: ...

    def runtime_call(self, method: str, seconds: float, error: Exception | None) -> None: ...

    def sandbox_run(self, config: SandboxConfig, seconds: float, failed: bool) -> None: ...

    def container_started(self, pod: Pod, container: str, code: str) -> None:
        """An attempt to start a container is over. The code says why it failed; empty: it did not."""
        ...

    def image_pulled(self, size: int, seconds: float) -> None: ...

    def cgroup_changed(self, operation: str, seconds: float) -> None:
        """create, update or destroy."""
        ...


class MeteredSyncer:
    """A Syncer whose every step is timed."""

    def __init__(self, syncer: Syncer, meters: Meters) -> None:
        self._syncer = syncer
        self._meters = meters
        self._synced: dict[str, Pod] = {}
        self._orphans: set[str] = set()

    async def sync(self, pod: Pod) -> Synced:
        uid = pod.metadata.uid
        before, self._synced[uid] = self._synced.get(uid), pod
        if before is None:
            self._meters.pod_begins(pod)
        operation = "create" if before is None else "sync" if before is pod else "update"
        async with self._timed(pod, operation):
            return await self._syncer.sync(pod)

    async def stop(self, pod: Pod, grace: float) -> None:
        uid = pod.metadata.uid
        if not pod.spec.containers and uid not in self._orphans:
            self._orphans.add(uid)
            if pod.metadata.name:  # else there was only a folder
                self._meters.orphan_found()
        async with self._timed(pod, "kill"):
            await self._syncer.stop(pod, grace)

    async def release(self, pod: Pod) -> None:
        async with self._timed(pod, "terminated"):
            await self._syncer.release(pod)

    async def remove(self, uid: str) -> None:
        is_orphan = uid in self._orphans
        try:
            await self._syncer.remove(uid)
        except Exception:
            if is_orphan:
                self._meters.orphan_removed(failed=True)
            raise
        if is_orphan:
            self._meters.orphan_removed(failed=False)
        self._orphans.discard(uid)
        self._synced.pop(uid, None)

    @asynccontextmanager
    async def _timed(self, pod: Pod, operation: str) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            self._meters.pod_worked(pod, operation, loop.time() - began)


def metered_cgroups(cgroups: PodCgroups, meters: Meters) -> PodCgroups:
    return cast(PodCgroups, _MeteredCgroups(cgroups, meters))


class _MeteredCgroups:
    """Changes are timed; everything else passes through as it is."""

    def __init__(self, cgroups: PodCgroups, meters: Meters) -> None:
        self._cgroups = cgroups
        self._meters = meters
        self._made: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cgroups, name)

    async def set_up(self, pod: Pod) -> str:
        uid = pod.metadata.uid
        parent = await self._timed("update" if uid in self._made else "create", self._cgroups.set_up(pod))
        self._made.add(uid)
        return parent

    async def remove(self, uid: str) -> None:
        await self._timed("destroy", self._cgroups.remove(uid))
        self._made.discard(uid)

    async def balance(self, pods: Collection[Pod]) -> None:
        await self._timed("update", self._cgroups.balance(pods))

    async def _timed(self, operation: str, work: Awaitable[T]) -> T:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return await work
        finally:
            self._meters.cgroup_changed(operation, loop.time() - began)


def metered_runtime(runtime: Runtime, meters: Meters, *, calls: bool) -> Runtime:
    """`calls`: tell also of each call, for a runtime that has no wire on which they are counted."""
    return cast(Runtime, _MeteredRuntime(runtime, meters, calls=calls))


class _MeteredRuntime:
    """Everything else that a runtime can do passes through as it is."""

    def __init__(self, runtime: Runtime, meters: Meters, *, calls: bool) -> None:
        self._runtime = runtime
        self._meters = meters
        self._calls = _CALLS if calls else {}
        self._created: dict[str, tuple[Pod, str]] = {}
        """Containers that are about to be started."""

    def __getattr__(self, name: str) -> Any:
        return self._counted(name)

    async def observe(self, uid: str) -> ObservedPod:
        observed = cast(ObservedPod, await self._counted("observe")(uid))
        self._meters.pod_seen(observed)
        return observed

    async def run_sandbox(self, config: SandboxConfig) -> ObservedSandbox:
        loop = asyncio.get_running_loop()
        began, failed = loop.time(), True
        try:
            sandbox = cast(ObservedSandbox, await self._counted("run_sandbox")(config))
            failed = False
        finally:
            self._meters.sandbox_run(config, loop.time() - began, failed)
        return sandbox

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> str:
        pod = config.sandbox.pod if config.sandbox is not None else Pod()
        try:
            container_id = cast(str, await self._counted("create_container")(sandbox_id, config))
        except Exception:
            self._meters.container_started(pod, config.name, "CreateContainerError")
            raise
        self._created[container_id] = pod, config.name
        return container_id

    async def start_container(self, container_id: str) -> None:
        pod, name = self._created.pop(container_id, (Pod(), ""))
        try:
            await self._counted("start_container")(container_id)
        except Exception:
            self._meters.container_started(pod, name, "RunContainerError")
            raise
        self._meters.container_started(pod, name, "")

    async def remove_container(self, container_id: str) -> None:
        self._created.pop(container_id, None)
        await self._counted("remove_container")(container_id)

    async def pull_image(self, name: str, credentials: PullCredentials | None = None) -> Image:
        loop = asyncio.get_running_loop()
        began = loop.time()
        image = cast(Image, await self._counted("pull_image")(name, credentials))
        self._meters.image_pulled(image.size, loop.time() - began)
        return image

    def _counted(self, name: str) -> Callable[..., Awaitable[Any]]:
        plain: Callable[..., Awaitable[Any]] = getattr(self._runtime, name)
        method = self._calls.get(name)
        return partial(self._told, method, plain) if method else plain

    async def _told(self, method: str, plain: Callable[..., Awaitable[Any]], *args: Any, **more: Any) -> Any:
        loop = asyncio.get_running_loop()
        began = loop.time()
        error: Exception | None = None
        try:
            return await plain(*args, **more)
        except Exception as failure:
            error = failure
            raise
        finally:
            self._meters.runtime_call(method, loop.time() - began, error)

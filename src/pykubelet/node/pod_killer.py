"""Ending containers: all of a pod, or one that is to be restarted, each after its preStop hook and within one grace."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterable
from contextlib import asynccontextmanager

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.base.errors import PykubeletError
from pykubelet.node.dependencies import Dependencies
from pykubelet.node.hooks import RuntimeHooks
from pykubelet.pod.container.field_path import field_path
from pykubelet.pod.lifecycle.plan import Kill
from pykubelet.pod.lifecycle.termination_grace import MINIMUM_GRACE, container_grace, stop_waves
from pykubelet.pod.moments import ContainerStopping, HookFailed, Moment, about
from pykubelet.pod.observed import ObservedContainer, ObservedPod


class PodKiller:
    def __init__(self, outside: Dependencies) -> None:
        self._runtime = outside.runtime
        self._hooks = outside.hooks or RuntimeHooks(outside.runtime)
        self._recorder = outside.recorder
        self._journal = outside.journal
        self._node = outside.node_info

    async def kill_pod(self, pod: Pod, observed: ObservedPod, grace: float) -> None:
        """End all containers, sidecars last, then the sandboxes. The grace is one budget for hooks, turns and all."""
        deadline = asyncio.get_running_loop().time() + grace
        before: list[asyncio.Event] = []
        leaving = []
        for wave in stop_waves(pod, observed):
            ended = asyncio.Event()
            leaving.append(self._stop_wave(pod, observed, wave, deadline, tuple(before), ended))
            before.append(ended)
        failure: PykubeletError | None = None
        try:
            await together(leaving)
        except PykubeletError as error:  # a container would not end: its sandbox takes it along
            failure = error
        await together(self._runtime.stop_sandbox(sandbox.id) for sandbox in observed.sandboxes)
        if failure is not None:
            raise failure

    async def kill(self, pod: Pod, observed: ObservedPod, kill: Kill) -> None:
        """End one container of a pod that goes on, as planned."""
        container = named_container(pod, kill.name)
        message = kill.message or f"Container {kill.name} definition changed, will be restarted"
        grace = container_grace(pod, container, kill.reason)
        self._note(pod, ContainerStopping(kill.name, grace, message))
        self._recorder.event(pod, "Normal", "Killing", message, field_path=field_path(pod, kill.name))
        await self.end(pod, kill.container_id, container, self._address(observed), grace)

    async def end(self, pod: Pod, container_id: str, container: Container | None, address: str, grace: float) -> None:
        """One container of a pod that goes on: its hook, then the stop with what is left of the grace."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        async with self._pre_stop(pod, container_id, container, address, grace):
            await self._runtime.stop_container(container_id, max(deadline - loop.time(), float(MINIMUM_GRACE)))

    # --- inside

    async def _stop_wave(
        self,
        pod: Pod,
        observed: ObservedPod,
        wave: tuple[str, ...],
        deadline: float,
        before: tuple[asyncio.Event, ...],
        ended: asyncio.Event,
    ) -> None:
        """Hooks run at once, whosever turn it is; the stop itself waits for those who go first, or for the deadline."""
        alive = [container for container in observed.containers if container.id in wave]
        try:
            address = self._address(observed)
            await together(self._stop_container(pod, each, address, deadline, before) for each in alive)
        finally:
            ended.set()

    async def _stop_container(
        self, pod: Pod, seen: ObservedContainer, address: str, deadline: float, before: tuple[asyncio.Event, ...]
    ) -> None:
        loop = asyncio.get_running_loop()
        self._note(pod, ContainerStopping(seen.name, deadline - loop.time()))
        told = f"Stopping container {seen.name}"
        self._recorder.event(pod, "Normal", "Killing", told, field_path=field_path(pod, seen.name))
        container = named_container(pod, seen.name)
        async with self._pre_stop(pod, seen.id, container, address, deadline - loop.time()):
            try:
                async with asyncio.timeout(max(deadline - loop.time(), 0.0)):
                    for event in before:
                        await event.wait()
            except TimeoutError:
                pass
            await self._runtime.stop_container(seen.id, max(deadline - loop.time(), float(MINIMUM_GRACE)))

    @asynccontextmanager
    async def _pre_stop(
        self, pod: Pod, container_id: str, container: Container | None, address: str, seconds: float
    ) -> AsyncGenerator[None, None]:
        """Runs the hook, and waits for it while there is time. One that takes longer goes on until its container ends:
        it may be all that keeps it going."""
        hook = container.lifecycle.pre_stop if container and container.lifecycle else None
        if container is None or hook is None or seconds <= 0:
            yield
            return
        running = asyncio.create_task(self._hooks.run(container_id, container, hook, address))
        try:
            await asyncio.wait((running,), timeout=seconds)
            if not running.done():
                self._note(
                    pod, HookFailed(container.name, "preStop", "it has used up the grace", hook.sleep is not None)
                )
            elif (error := running.exception()) is not None:
                if not isinstance(error, PykubeletError):
                    raise error
                # Its text may hold secrets: it goes to the journal, not into an event.
                self._note(pod, HookFailed(container.name, "preStop", str(error)))
                path = field_path(pod, container.name)
                self._recorder.event(pod, "Warning", "FailedPreStopHook", "PreStopHook failed", field_path=path)
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _address(self, observed: ObservedPod) -> str:
        """Where hooks find the pod; empty: nowhere."""
        ips = (*(ip for sandbox in observed.sandboxes for ip in sandbox.ips), *self._node().facts.host_ips)
        return ips[0] if ips else ""

    def _note(self, pod: Pod, moment: Moment) -> None:
        self._journal.note(moment, about(pod))


def named_container(pod: Pod, name: str) -> Container | None:
    """The pod's container of that name, of whatever kind."""
    spec = pod.spec
    everyone = (*spec.ephemeral_containers, *spec.init_containers, *spec.containers)
    return next((container for container in everyone if container.name == name), None)


async def together(work: Iterable[Awaitable[None]]) -> None:
    """All at once, each to its end; then the first failure counts."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result

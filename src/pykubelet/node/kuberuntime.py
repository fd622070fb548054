"""Doing what the plan says: kill, make a sandbox, start containers."""

import asyncio
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.base.timed import timed
from pykubelet.node.container_env import container_environment
from pykubelet.node.dependencies import Dependencies
from pykubelet.node.hooks import run_hook
from pykubelet.node.images import Images
from pykubelet.node.scene import NotStarted, Scene
from pykubelet.pod.container.container_config import container_config
from pykubelet.pod.container.dns import pod_dns
from pykubelet.pod.container.missing_object import missing_object
from pykubelet.pod.container.sandbox_config import sandbox_config
from pykubelet.pod.lifecycle.crash_loop_backoff import crash_loop_key, crash_loop_message, last_exit
from pykubelet.pod.lifecycle.plan import Kill, PodActions
from pykubelet.pod.lifecycle.termination_grace import MINIMUM_GRACE, container_grace, stop_waves
from pykubelet.pod.moments import (
    Awaiting,
    BackedOff,
    ContainerCreated,
    ContainerStarted,
    ContainerStopping,
    HookFailed,
    Moment,
    SandboxMade,
    StartFailed,
    about,
    container_kind,
)
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.pod.ports.runtime import ContainerConfig, Image, SandboxConfig

_SOON: Final = 10.0
_SLOWLY: Final = 30.0
"""What cannot work as it is may still be mended from outside, but there is no hurry."""


class KubeRuntime:
    """The hands of the agent."""

    def __init__(self, outside: Dependencies) -> None:
        self._runtime = outside.runtime
        self._host = outside.host
        self._recorder = outside.recorder
        self._journal = outside.journal
        self._machine = outside.machine
        self._now = outside.now
        self._classes = outside.classes
        self._objects = outside.objects
        self._logs = outside.logs
        self._image_used = outside.image_used
        self._images = Images(
            outside.runtime,
            outside.recorder,
            outside.journal,
            now=outside.now,
            keyring=outside.keyring,
            most_pulls=outside.most_pulls,
        )

    async def act(self, scene: Scene, actions: PodActions) -> bool:
        """-> whether that was a step forward, so that another plan is worth making at once. Raises what stops the whole
        pod; a container that cannot be started is noted in the scene."""
        pod = scene.pod
        if actions.kill_pod:
            await self.stop(pod, scene.observed, container_grace(pod))
        else:
            address = self._address(scene.observed)
            await _together(self._kill(pod, kill, address) for kill in actions.kills)
        scene.sandbox_attempt, names = actions.attempt, actions.starts
        if actions.create_sandbox:
            await self._clear_init_containers(pod, scene.observed)
            sandbox = await self._run_sandbox(scene)
            scene.sandbox_id, scene.pod_ips = sandbox.id, sandbox.ips
        elif not actions.kill_pod:
            scene.sandbox_id = actions.sandbox_id
            scene.pod_ips = next((each.ips for each in scene.observed.sandboxes if each.id == scene.sandbox_id), ())
            if names:
                with suppress(PykubeletError):  # its class may be gone by now, but the pod has what it needs of it
                    scene.runtime_handler = await self._handler(pod)
        if not (scene.sandbox_id and names):
            return True
        scene.pod_ips = scene.pod_ips or self._machine().facts.host_ips
        return await self._start_all(scene, actions) > 0

    async def stop(self, pod: Pod, observed: ObservedPod, grace: float) -> None:
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
            await _together(leaving)
        except PykubeletError as error:  # a container would not end: its sandbox takes it along
            failure = error
        await _together(self._runtime.stop_sandbox(sandbox.id) for sandbox in observed.sandboxes)
        if failure is not None:
            raise failure

    # --- killing

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
            await _together(self._stop_container(pod, each, address, deadline, before) for each in alive)
        finally:
            ended.set()

    async def _stop_container(
        self, pod: Pod, seen: ObservedContainer, address: str, deadline: float, before: tuple[asyncio.Event, ...]
    ) -> None:
        loop = asyncio.get_running_loop()
        self._note(pod, ContainerStopping(seen.name, deadline - loop.time()))
        self._recorder.event(pod, "Normal", "Killing", f"Stopping container {seen.name}")
        await self._pre_stop(pod, seen.id, _container(pod, seen.name), address, deadline - loop.time())
        try:
            async with asyncio.timeout(max(deadline - loop.time(), 0.0)):
                for event in before:
                    await event.wait()
        except TimeoutError:
            pass
        await self._runtime.stop_container(seen.id, max(deadline - loop.time(), float(MINIMUM_GRACE)))

    async def _kill(self, pod: Pod, kill: Kill, address: str) -> None:
        container = _container(pod, kill.name)
        message = kill.message or f"Container {kill.name} definition changed, will be restarted"
        grace = container_grace(pod, container, kill.reason)
        self._note(pod, ContainerStopping(kill.name, grace, message))
        self._recorder.event(pod, "Normal", "Killing", message)
        await self._end(pod, kill.container_id, container, address, grace)

    async def _end(self, pod: Pod, container_id: str, container: Container | None, address: str, grace: float) -> None:
        """One container of a pod that goes on: its hook, then the stop with what is left of the grace."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        await self._pre_stop(pod, container_id, container, address, grace)
        await self._runtime.stop_container(container_id, max(deadline - loop.time(), float(MINIMUM_GRACE)))

    async def _pre_stop(
        self, pod: Pod, container_id: str, container: Container | None, address: str, seconds: float
    ) -> None:
        hook = container.lifecycle.pre_stop if container and container.lifecycle else None
        if container is None or hook is None or seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await run_hook(self._runtime, container_id, container, hook, address)
        except TimeoutError:
            self._note(pod, HookFailed(container.name, "preStop", "it has used up the grace"))
        except PykubeletError as error:  # its text may hold secrets: it goes to the journal, not into an event
            self._note(pod, HookFailed(container.name, "preStop", str(error)))
            self._recorder.event(pod, "Warning", "FailedPreStopHook", "PreStopHook failed")

    async def _post_start(self, pod: Pod, container_id: str, container: Container, address: str) -> None:
        """A container whose postStart hook fails has failed to start."""
        hook = container.lifecycle.post_start if container.lifecycle else None
        if hook is None:
            return
        try:
            await run_hook(self._runtime, container_id, container, hook, address)
        except PykubeletError as error:
            self._note(pod, HookFailed(container.name, "postStart", str(error)))
            self._recorder.event(pod, "Warning", "FailedPostStartHook", "PostStartHook failed")
            await self._end(pod, container_id, container, address, container_grace(pod, container))
            raise NotStarted("PostStartHookError", str(error), again_in=_SOON) from None

    def _address(self, observed: ObservedPod) -> str:
        """Where hooks find the pod; empty: nowhere."""
        ips = (*(ip for sandbox in observed.sandboxes for ip in sandbox.ips), *self._machine().facts.host_ips)
        return ips[0] if ips else ""

    async def _clear_init_containers(self, pod: Pod, observed: ObservedPod) -> None:
        """A new sandbox begins from the beginning: what ran in the old one must not be taken for done."""
        names = {container.name for container in pod.spec.init_containers}
        old = [c for c in observed.containers if c.name in names and c.state is not State.RUNNING]
        await _together(self._runtime.remove_container(container.id) for container in old)
        if self._logs is not None:
            meta = pod.metadata
            with suppress(PykubeletError):  # then the new one's lines come after the old one's
                for each in old:
                    await self._logs.forget(meta.namespace, meta.name, meta.uid, each.name, each.attempt, each.id)

    # --- the sandbox

    async def _run_sandbox(self, scene: Scene) -> ObservedSandbox:
        pod = scene.pod
        try:
            scene.runtime_handler = await self._handler(pod)
            for left_out in pod_dns(pod, self._machine().dns)[1]:
                self._recorder.event(pod, "Warning", "DNSConfigForming", left_out)
            made = partial(SandboxMade, scene.sandbox_attempt, scene.runtime_handler, pod.spec.host_users is False)
            with timed(self._journal, made, about(pod)):
                return await self._runtime.run_sandbox(self._sandbox_config(scene))
        except PykubeletError as error:
            self._recorder.event(pod, "Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
            raise

    def _sandbox_config(self, scene: Scene) -> SandboxConfig:
        """The same for the sandbox itself and for each container that is made in it."""
        machine = self._machine()
        dns, _ = pod_dns(scene.pod, machine.dns)
        return sandbox_config(
            scene.pod,
            scene.sandbox_attempt,
            log_root=machine.log_root,
            cluster_domain=machine.dns.cluster_domain or "cluster.local",
            dns_servers=dns.servers,
            dns_searches=dns.searches,
            dns_options=dns.options,
            cgroup_parent=scene.cgroup_parent,
            runtime_handler=scene.runtime_handler,
            id_mappings=scene.id_mappings,
        )

    async def _handler(self, pod: Pod) -> str:
        """Of the pod's runtime class; empty: the runtime's default."""
        name = pod.spec.runtime_class_name
        if not name:
            return ""
        if self._classes is None:
            raise Invalid(f"runtime class {name} is not known: this node has no API server; leave runtimeClassName out")
        return await self._classes.handler(name)

    # --- starting

    async def _start_all(self, scene: Scene, actions: PodActions) -> int:
        started = 0
        for name in actions.starts:
            container = _container(scene.pod, name)
            if container is None:
                continue
            try:
                await self._start(scene, container)
                started += 1
            except NotStarted as failure:
                why = failure.waiting
                kind = container_kind(scene.pod, name)
                self._note(scene.pod, StartFailed(name, kind, why.reason, why.message, failure.again_in))
                scene.not_started[name] = why
                scene.due.append(failure.again_in)
                if name in actions.init_containers and not is_sidecar(container):
                    break  # the next ones count on this one
        return started

    async def _start(self, scene: Scene, container: Container) -> None:
        pod, memory, now = scene.pod, scene.memory, self._now()
        key, before = crash_loop_key(container), last_exit(scene.observed, container.name)
        finished = before.finished_at if before else None
        wait = memory.loops.wait(key, finished, now)
        if wait > 0:
            message = crash_loop_message(pod, container.name, memory.loops.length(key))
            self._recorder.event(pod, "Warning", "BackOff", f"Back-off restarting failed container {container.name}")
            self._note(pod, BackedOff(container.name, now + timedelta(seconds=wait)))
            raise NotStarted("CrashLoopBackOff", message, again_in=wait)
        image = await self._images.ensure(scene, container)
        self._image_used(image.id)
        newest = scene.observed.newest(container.name)
        attempt = newest.attempt + 1 if newest else 0
        container_id = await self._create(scene, container, attempt, image)
        memory.loops = memory.loops.started(key, finished, now)
        try:
            await self._runtime.start_container(container_id)
        except PykubeletError as error:
            raise self._failure(pod, "RunContainerError", error) from None
        self._note(pod, ContainerStarted(container.name, container_kind(pod, container.name), attempt))
        self._recorder.event(pod, "Normal", "Started", f"Started container {container.name}")
        if self._logs is not None:
            meta = pod.metadata
            await self._logs.link(meta.namespace, meta.name, meta.uid, container.name, attempt, container_id)
        await self._post_start(pod, container_id, container, next(iter(scene.pod_ips), ""))

    async def _create(self, scene: Scene, container: Container, attempt: int, image: Image) -> str:
        try:
            config = await self._config(scene, container, attempt, image)
        except PykubeletError as error:
            raise self._failure(scene.pod, "CreateContainerConfigError", error) from None
        try:
            container_id = await self._runtime.create_container(scene.sandbox_id, config)
        except PykubeletError as error:
            raise self._failure(scene.pod, "CreateContainerError", error) from None
        self._note(scene.pod, ContainerCreated(container.name, attempt))
        self._recorder.event(scene.pod, "Normal", "Created", f"Created container: {container.name}")
        return container_id

    async def _config(self, scene: Scene, container: Container, attempt: int, image: Image) -> ContainerConfig:
        pod, machine = scene.pod, self._machine()
        env = await container_environment(self._objects, pod, container, machine, scene.pod_ips)
        prepared = await self._host.mounts(pod, container, attempt, scene.volumes, env, scene.pod_ips)
        config = container_config(
            pod,
            container,
            attempt,
            image=image,
            env=env,
            mounts=prepared.mounts,
            memory_capacity=machine.memory,
            termination_log=prepared.termination_message_path,
        )
        return changed(config, sandbox=self._sandbox_config(scene))

    # --- telling

    def _failure(self, pod: Pod, reason: str, error: PykubeletError) -> NotStarted:
        if (missing := missing_object(error)) is not None:
            self._note(pod, Awaiting(missing.kind, missing.name, str(error)))
        self._recorder.event(pod, "Warning", "Failed", f"Error: {error}")
        after = error.after if isinstance(error, Retry) else _SLOWLY
        return NotStarted(reason, str(error), again_in=_SOON if after is None else after)

    def _note(self, pod: Pod, moment: Moment) -> None:
        self._journal.note(moment, about(pod))


def _container(pod: Pod, name: str) -> Container | None:
    spec = pod.spec
    everyone = (*spec.ephemeral_containers, *spec.init_containers, *spec.containers)
    return next((container for container in everyone if container.name == name), None)


async def _together(work: Iterable[Awaitable[None]]) -> None:
    """All at once, each to its end; then the first failure counts."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result

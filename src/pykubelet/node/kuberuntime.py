"""Doing what the plan says: kill, make a sandbox, start containers."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import shown_pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, PykubeletError, Retry, as_it_came
from pykubelet.base.timed import timed
from pykubelet.node.container_env import container_environment
from pykubelet.node.dependencies import Dependencies
from pykubelet.node.hooks import RuntimeHooks
from pykubelet.node.image_volumes import ImageVolumes
from pykubelet.node.images import Images
from pykubelet.node.not_started import NotStarted, awaited
from pykubelet.node.pinning import Pinning
from pykubelet.node.pod_devices import PodDevices
from pykubelet.node.pod_killer import PodKiller, named_container, together
from pykubelet.node.pull_secrets import fetch_pull_secrets
from pykubelet.node.resizer import Resizer
from pykubelet.node.resizes import PodResizes
from pykubelet.node.start_queue import StartQueue
from pykubelet.pod import moments as m
from pykubelet.pod.container.container_config import container_config
from pykubelet.pod.container.container_moments import container_kind
from pykubelet.pod.container.dns import missing_cluster_dns, pod_dns
from pykubelet.pod.container.field_path import field_path
from pykubelet.pod.container.mounts import block_devices
from pykubelet.pod.container.sandbox_config import sandbox_config
from pykubelet.pod.container.unenforced import unenforced_storage
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.lifecycle.crash_loop_backoff import (
    CrashLoops,
    RestartWaits,
    crash_loop_key,
    crash_loop_message,
    last_exit,
)
from pykubelet.pod.lifecycle.plan import PodActions
from pykubelet.pod.lifecycle.termination_grace import container_grace
from pykubelet.pod.moments import about
from pykubelet.pod.observed import ObservedPod, ObservedSandbox, State
from pykubelet.pod.ports.runtime import ContainerConfig, Image, SandboxConfig
from pykubelet.pod.status.container_status import Waiting, starts_told

_SOON: Final = 10.0
_SLOWLY: Final = 30.0
"""What cannot work as it is may still be mended from outside, but there is no hurry."""


class PodSetup(Struct, frozen=True, kw_only=True):
    """What was made ready for a pod outside of the runtime."""

    cgroup_parent: str = ""
    volumes: Mapping[str, str] = {}
    """By name: where each is on this machine."""
    id_mappings: tuple[IdMapping, ...] = ()


class Acted(Struct, frozen=True, kw_only=True):
    """What came of acting on a plan."""

    has_changed: bool
    """It was a step forward, so that another plan is worth making at once."""
    waiting: Mapping[str, Waiting] = {}
    """By container: why it could not be started."""
    again_in: float | None = None
    """Seconds after which to try these again."""


class _Place(Struct, frozen=True, kw_only=True):
    """Where a pod's containers are started."""

    sandbox_id: str
    config: SandboxConfig
    ips: tuple[str, ...]
    volumes: Mapping[str, str]
    images: ImageVolumes


class KubeRuntime:
    """Remembers how often containers have crashed and images could not be pulled."""

    def __init__(
        self, outside: Dependencies, killer: PodKiller, resizes: PodResizes, pinning: Pinning | None = None
    ) -> None:
        self._runtime = outside.runtime
        self._hooks = outside.hooks or RuntimeHooks(outside.runtime)
        self._host = outside.host
        self._recorder = outside.recorder
        self._journal = outside.journal
        self._node = outside.node_info
        self._now = outside.now
        self._classes = outside.classes
        self._objects = outside.objects
        self._logs = outside.logs
        self._devices = PodDevices(outside)
        self._addressed = outside.addressed
        self._pinning = pinning
        self._images = Images(
            outside.runtime,
            outside.recorder,
            outside.journal,
            partial(fetch_pull_secrets, outside.objects, outside.recorder),
            now=outside.now,
            keyring=outside.keyring,
            settings=outside.image_pulls,
            used=outside.image_used,
        )
        self._killer = killer
        self._resizes = resizes
        self._resizer = Resizer(outside, resizes)
        self._starts = StartQueue()
        self._waits = outside.restart_waits
        self._refuses_unenforced = outside.refuse_unenforced
        self._measures_storage = outside.stats is not None
        self._crash_loops: dict[str, CrashLoops] = {}
        """By uid."""
        self._asked: dict[str, set[str]] = {}
        """By uid: the ids of containers that people want to see started anew."""

    async def act(self, pod: Pod, observed: ObservedPod, actions: PodActions, setup: PodSetup) -> Acted:
        """Raises what stops the whole pod; of a container that cannot be started the outcome tells."""
        if actions.create_sandbox and actions.sandbox_id:
            what = "Pod sandbox changed, it will be killed and re-created."
            self._recorder.event(pod, "Normal", "SandboxChanged", what)
        if actions.resizes.restarts:
            await self._resizes.saved()  # what cannot be written down would have to be done again
        if actions.kill_pod:
            await self._killer.kill_pod(pod, observed, container_grace(pod))
        else:
            await together(self._killer.kill(pod, observed, kill) for kill in actions.kills)
        untold = "" if actions.kill_pod else await self._resizer.tell(pod, observed, actions.resizes)
        if actions.create_sandbox:
            await self._clear_init_containers(pod, observed)
            await self._devices.prepare(pod)
            place = await self._make_sandbox(pod, actions.attempt, setup)
        elif actions.kill_pod or not actions.starts:
            return Acted(has_changed=not untold, again_in=_SOON if untold else None)
        else:
            place = await self._sandbox_in_use(pod, observed, actions, setup)
        acted = await self._start_all(pod, observed, actions, place)
        return changed(acted, again_in=min(acted.again_in or _SOON, _SOON)) if untold else acted

    def restart(self, uid: str, container_id: str) -> None:
        """At the next sync, whatever its crash-loop back-off says."""
        self._asked.setdefault(uid, set()).add(container_id)

    def wait_by(self, waits: RestartWaits) -> None:
        """Whoever waits already waits no longer than before."""
        self._waits = waits
        self._crash_loops = {uid: changed(loops, waits=waits) for uid, loops in self._crash_loops.items()}

    def asked(self, uid: str) -> Collection[str]:
        """The ids of containers that are to be restarted."""
        return self._asked.get(uid, ())

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._asked.pop(uid, None)
        self._crash_loops.pop(uid, None)
        self._images.forget(uid)

    async def _clear_init_containers(self, pod: Pod, observed: ObservedPod) -> None:
        """A new sandbox begins from the beginning: what ran in the old one must not be taken for done."""
        names = {container.name for container in pod.spec.init_containers}
        old = [c for c in observed.containers if c.name in names and c.state is not State.RUNNING]
        await together(self._runtime.remove_container(container.id) for container in old)
        if self._logs is not None:
            meta = pod.metadata
            with suppress(PykubeletError):  # then the new one's lines come after the old one's
                for each in old:
                    await self._logs.forget(meta.namespace, meta.name, meta.uid, each.name, each.attempt, each.id)

    # --- the sandbox

    async def _make_sandbox(self, pod: Pod, attempt: int, setup: PodSetup) -> _Place:
        try:
            handler = await self._handler(pod)
            config, left_out = self._sandbox_config(pod, attempt, handler, setup)
            for each in left_out:
                self._recorder.event(pod, "Warning", "DNSConfigForming", each)
            if missing := missing_cluster_dns(pod, self._node().dns):
                self._recorder.event(pod, "Warning", "MissingClusterDNS", missing)
            if not self._refuses_unenforced and (what := await self._unenforced(pod)):
                self._recorder.event(pod, "Warning", "NotEnforced", what)
            made = partial(m.SandboxMade, attempt, handler, pod.spec.host_users is False)
            async with self._starts.turn(pod, "sandbox", begun=False):
                with timed(self._journal, made, about(pod)):
                    sandbox = await self._runtime.run_sandbox(config)
        except PykubeletError as error:
            what = f"Failed to create pod sandbox: {as_it_came(error)}"
            self._recorder.event(pod, "Warning", "FailedCreatePodSandBox", what)
            raise
        self._addressed(pod.metadata.uid, sandbox.ips)
        ports = self._runtime.capabilities.unavailable_ports
        if ports is not None and (what := ports(pod)):  # of two that come together one at least sees the other now
            self._recorder.event(pod, "Warning", "PortsUnavailable", what)
        return self._place(sandbox, config, setup)

    async def _unenforced(self, pod: Pod) -> str:
        """What of a pod's limits is not kept here; empty: all are."""
        asked = self._runtime.capabilities.unenforced
        storage = unenforced_storage(pod, is_measured=self._measures_storage)
        found = (*(await asked(pod) if asked is not None else ()), *storage)
        return f"Not enforced on this node: {'; '.join(found)}" if found else ""

    async def _sandbox_in_use(self, pod: Pod, observed: ObservedPod, actions: PodActions, setup: PodSetup) -> _Place:
        handler = ""
        with suppress(PykubeletError):  # its class may be gone by now, but the pod has what it needs of it
            handler = await self._handler(pod)
        config, _ = self._sandbox_config(pod, actions.attempt, handler, setup)
        sandbox = next(each for each in observed.sandboxes if each.id == actions.sandbox_id)
        return self._place(sandbox, config, setup)

    def _place(self, sandbox: ObservedSandbox, config: SandboxConfig, setup: PodSetup) -> _Place:
        ips = sandbox.ips or self._node().facts.host_ips
        images = ImageVolumes(self._images, config.pod)
        return _Place(sandbox_id=sandbox.id, config=config, ips=ips, volumes=setup.volumes, images=images)

    def _sandbox_config(
        self, pod: Pod, attempt: int, handler: str, setup: PodSetup
    ) -> tuple[SandboxConfig, tuple[str, ...]]:
        """-> the same for the sandbox itself and for each container that is made in it, and what had to be left out of
        its name servers, one sentence each."""
        node = self._node()
        dns, left_out = pod_dns(pod, node.dns)
        config = sandbox_config(
            pod,
            attempt,
            log_root=node.log_root,
            cluster_domain=node.dns.cluster_domain,
            dns_servers=dns.servers,
            dns_searches=dns.searches,
            dns_options=dns.options,
            cgroup_parent=setup.cgroup_parent,
            runtime_handler=handler,
            id_mappings=setup.id_mappings,
        )
        return config, left_out

    async def _handler(self, pod: Pod) -> str:
        """Of the pod's runtime class; empty: the runtime's default."""
        name = pod.spec.runtime_class_name
        if not name:
            return ""
        if self._classes is None:
            raise Invalid(f"runtime class {name} is not known: this node has no API server; leave runtimeClassName out")
        return await self._classes.handler(name)

    # --- starting

    async def _start_all(self, pod: Pod, observed: ObservedPod, actions: PodActions, place: _Place) -> Acted:
        started, waiting, again = 0, {}, []
        for name in actions.starts:
            container = named_container(pod, name)
            if container is None:
                continue
            try:
                await self._start(pod, container, observed, place)
                started += 1
            except NotStarted as failure:
                why = failure.waiting
                self._note(
                    pod, m.StartFailed(name, container_kind(pod, name), why.reason, why.message, failure.again_in)
                )
                waiting[name] = why
                again.append(failure.again_in)
                if name in actions.init_containers and not is_sidecar(container):
                    break  # the next ones count on this one
        return Acted(has_changed=started > 0, waiting=waiting, again_in=min(again, default=None))

    async def _start(self, pod: Pod, container: Container, observed: ObservedPod, place: _Place) -> None:
        uid, now = pod.metadata.uid, self._now()
        key, before = crash_loop_key(container), last_exit(observed, container.name)
        loops = self._crash_loops.get(uid) or CrashLoops(self._waits)
        finished = loops.last_end(key, before.finished_at if before else None)
        newest = observed.newest(container.name)
        is_asked = newest is not None and newest.id in self.asked(uid)
        wait = loops.wait(key, finished, now)
        if wait > 0 and not is_asked:
            message = crash_loop_message(pod, container.name, loops.length(key))
            what = f"Back-off restarting failed container {container.name} in pod {shown_pod(pod)}"
            self._tell(pod, container, "Warning", "BackOff", what)
            self._note(pod, m.BackedOff(container.name, now + timedelta(seconds=wait)))
            raise NotStarted("CrashLoopBackOff", message, again_in=wait)
        await place.images.pull(container)
        image = await self._images.ensure(pod, container)
        attempt = await self._attempt(pod, container, observed)
        container_id = await self._create(pod, container, attempt, image, place)
        self._crash_loops[uid] = loops.started(key, None if is_asked else finished, now)
        if newest is not None and is_asked:
            self._asked[uid].discard(newest.id)
        try:
            async with self._starts.turn(pod, "start", begun=True):
                await self._runtime.start_container(container_id)
        except PykubeletError as error:
            self._crash_loops[uid] = self._crash_loops[uid].failed(key, self._now())
            raise self._failure(pod, container, "RunContainerError", error) from None
        if self._pinning is not None:
            self._pinning.started(pod, container)
        self._note(pod, m.ContainerStarted(container.name, container_kind(pod, container.name), attempt))
        self._tell(pod, container, "Normal", "Started", f"Started container {container.name}")
        if self._logs is not None:
            meta = pod.metadata
            await self._logs.link(meta.namespace, meta.name, meta.uid, container.name, attempt, container_id)
        await self._post_start(pod, container_id, container, next(iter(place.ips), ""))

    async def _attempt(self, pod: Pod, container: Container, observed: ObservedPod) -> int:
        """Counted on from what the runtime holds, or, when it has lost its memory, from the logs that are there and
        from what was told of the container: a reboot may have wiped either."""
        newest, meta = observed.newest(container.name), pod.metadata
        if newest is not None:
            return newest.attempt + 1
        logged = 0
        if self._logs is not None:
            logged = await self._logs.attempts(meta.namespace, meta.name, meta.uid, container.name)
        return max(logged, starts_told(pod.status, container.name))

    async def _post_start(self, pod: Pod, container_id: str, container: Container, address: str) -> None:
        """A container whose postStart hook fails has failed to start."""
        hook = container.lifecycle.post_start if container.lifecycle else None
        if hook is None:
            return
        try:
            await self._hooks.run(container_id, container, hook, address)
        except PykubeletError as error:
            self._note(pod, m.HookFailed(container.name, "postStart", str(error)))
            self._tell(pod, container, "Warning", "FailedPostStartHook", "PostStartHook failed")
            await self._killer.end(pod, container_id, container, address, container_grace(pod, container))
            raise NotStarted("PostStartHookError", str(error), again_in=_SOON) from None

    async def _create(self, pod: Pod, container: Container, attempt: int, image: Image, place: _Place) -> str:
        try:
            if self._refuses_unenforced and (what := await self._unenforced(pod)):
                raise Invalid(f"{what}; this node refuses such pods (--refuse-unenforced)")
            config = await self._container_config(pod, container, attempt, image, place)
        except PykubeletError as error:
            raise self._failure(pod, container, "CreateContainerConfigError", error) from None
        try:
            await self._resizes.tell(pod, container.name, container.resources)
            async with self._starts.turn(pod, "create", begun=True):
                container_id = await self._runtime.create_container(place.sandbox_id, config)
        except PykubeletError as error:
            raise self._failure(pod, container, "CreateContainerError", error) from None
        if self._pinning is not None:
            self._pinning.created(pod, container, container_id, config.limits)
        self._note(pod, m.ContainerCreated(container.name, attempt, sum(bool(each.image) for each in config.mounts)))
        self._tell(pod, container, "Normal", "Created", f"Created container: {container.name}")
        return container_id

    async def _container_config(
        self, pod: Pod, container: Container, attempt: int, image: Image, place: _Place
    ) -> ContainerConfig:
        node = self._node()
        env = await container_environment(self._objects, pod, container, node, place.ips)
        prepared = await self._host.mounts(pod, container, attempt, place.volumes, env, place.ips)
        given = await self._devices.given(pod, container)
        blocks = block_devices(pod, container, place.volumes)
        config = container_config(
            pod,
            container,
            attempt,
            image=image,
            env=env,
            mounts=place.images.mounted(prepared.mounts),
            devices=changed(given, devices=(*blocks, *given.devices)) if blocks else given,
            memory_capacity=node.memory,
            swap_capacity=node.swap,
            termination_log=prepared.termination_message_path,
        )
        limits = config.limits
        if self._pinning is not None:
            limits = await self._pinning.limits(pod, container, limits)
        return changed(config, limits=limits, sandbox=place.config)

    # --- telling

    def _failure(self, pod: Pod, container: Container, reason: str, error: PykubeletError) -> NotStarted:
        if (awaiting := awaited(error)) is not None:
            self._note(pod, awaiting)
        self._tell(pod, container, "Warning", "Failed", f"Error: {error}")
        after = error.after if isinstance(error, Retry) else _SLOWLY
        return NotStarted(reason, str(error), again_in=_SOON if after is None else after)

    def _tell(
        self, pod: Pod, container: Container, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        self._recorder.event(pod, kind, reason, message, field_path=field_path(pod, container.name))

    def _note(self, pod: Pod, moment: m.Moment) -> None:
        self._journal.note(moment, about(pod))

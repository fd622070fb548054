"""What a runtime holds, seen with few questions: two lists, and one more question for each thing that has changed its
state since it was last asked about. What does not change is not asked for again."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.api.pod import ContainerUser, LinuxContainerUser
from pykubelet.base.errors import NotFound, Retry
from pykubelet.pod.container.cgroup import PERIOD
from pykubelet.pod.container.labels import (
    CONTAINER_HASH,
    CONTAINER_NAME,
    POD_UID,
    RESTART_COUNT,
    TERMINATION_GRACE_PERIOD,
)
from pykubelet.pod.observed import EnforcedLimits, ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.signals import signal_name
from pykubelet.runtime.cri.termination import termination_message
from pykubelet.web.grpc_channel import Channel

SERVICE: Final = "runtime.v1.RuntimeService"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_AT_ONCE: Final = 16
_ROUGHLY: Final = 5.0
"""Seconds that one thing may hold up a look at everything."""
_KILLED: Final = 137
_STATES: Final = {
    cri.CONTAINER_CREATED: State.CREATED,
    cri.CONTAINER_RUNNING: State.RUNNING,
    cri.CONTAINER_EXITED: State.EXITED,
}

Listed = TypeVar("Listed")
Seen = TypeVar("Seen")


class _Sandbox(Struct, frozen=True):
    uid: str
    name: str
    namespace: str
    created: int
    observed: ObservedSandbox


class _Container(Struct, frozen=True):
    uid: str
    created: int
    listed_as: int
    observed: ObservedContainer


class Observer:
    """Remembers what it has seen, by id and state: a thing that is in the same state as before is the same."""

    def __init__(self, channel: Channel, *, now: Callable[[], datetime]) -> None:
        self._channel = channel
        self._now = now
        self._sandboxes: dict[str, _Sandbox] = {}
        self._containers: dict[str, _Container] = {}
        self._abandoned: dict[str, datetime] = {}
        self._stops: dict[str, asyncio.Event] = {}

    async def pods(self) -> tuple[ObservedPod, ...]:
        """Everything. What cannot be asked about is seen as the list shows it: it must hide nobody else."""
        before = {*self._sandboxes, *self._containers, *self._abandoned}
        sandboxes, containers = await self._list({})
        self._forget(before - {each.id for each in sandboxes} - {each.id for each in containers})
        return await self._pods(sandboxes, containers, patience=_ROUGHLY)

    async def pod(self, uid: str) -> ObservedPod:
        sandboxes, containers = await self._list({POD_UID: uid})
        found = await self._pods(sandboxes, containers, patience=None)
        return next((pod for pod in found if pod.uid == uid), ObservedPod(uid=uid))

    async def sandbox(self, sandbox_id: str) -> ObservedSandbox:
        """One that has just been made. The next look at its pod need not ask about it again."""
        return self._remembered(await self.sandbox_status(sandbox_id)).observed

    async def container_status(self, container_id: str, *, deadline: float | None = None) -> cri.ContainerStatus:
        """Asked now. NotFound when it is gone."""
        request, reply = cri.ContainerStatusRequest(container_id=container_id), cri.ContainerStatusResponse
        return (await self._channel.call(f"{SERVICE}/ContainerStatus", request, reply, deadline=deadline)).status

    async def sandbox_status(self, sandbox_id: str, *, deadline: float | None = None) -> cri.PodSandboxStatus:
        request, reply = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id), cri.PodSandboxStatusResponse
        return (await self._channel.call(f"{SERVICE}/PodSandboxStatus", request, reply, deadline=deadline)).status

    async def containers(self, labels: Mapping[str, str], sandbox_id: str = "") -> Iterable[cri.Container]:
        match = cri.ContainerFilter(label_selector=labels, pod_sandbox_id=sandbox_id)
        request = cri.ListContainersRequest(filter=match)
        return (await self._channel.call(f"{SERVICE}/ListContainers", request, cri.ListContainersResponse)).containers

    def abandon(self, container_id: str) -> None:
        """It was stopped before it began. A runtime goes on calling it created, but it must never run: we say that it
        has ended. An agent that comes after us sees it as created, and makes a new one all the same."""
        self._abandoned.setdefault(container_id, self._now())
        self.forget(container_id)

    def is_abandoned(self, container_id: str) -> bool:
        return container_id in self._abandoned

    def forget(self, container_id: str) -> None:
        self._containers.pop(container_id, None)

    @contextmanager
    def stopping(self, key: str) -> Iterator[None]:
        """The block asks the runtime to stop a container or sandbox, and goes on until it has stopped."""
        over = self._stops.setdefault(key, asyncio.Event())
        try:
            yield
        finally:
            over.set()
            if self._stops.get(key) is over:
                del self._stops[key]

    async def stop_of(self, key: str) -> None:
        """Wait until nobody here is stopping it: before that, a look is in vain."""
        if (over := self._stops.get(key)) is not None:
            await over.wait()

    def is_sandbox(self, sandbox_id: str) -> bool:
        """Whether it has been seen as one. No for one that nobody has looked at yet."""
        return sandbox_id in self._sandboxes

    # --- inside

    async def _list(self, labels: Mapping[str, str]) -> tuple[list[cri.PodSandbox], list[cri.Container]]:
        match = cri.PodSandboxFilter(label_selector=labels)
        request = cri.ListPodSandboxRequest(filter=match)
        sandboxes, containers = await asyncio.gather(
            self._channel.call(f"{SERVICE}/ListPodSandbox", request, cri.ListPodSandboxResponse),
            self.containers(labels),
        )
        return [s for s in sandboxes.items if s.metadata.uid], [c for c in containers if c.labels.get(POD_UID)]

    async def _pods(
        self, sandboxes: Iterable[cri.PodSandbox], containers: Iterable[cri.Container], *, patience: float | None
    ) -> tuple[ObservedPod, ...]:
        """With `patience`, in seconds for each question, the list will do for what cannot be asked about."""
        ask_sandbox, ask_container = partial(self._sandbox, patience), partial(self._container, patience)
        by_uid: dict[str, tuple[list[_Sandbox], list[_Container]]] = defaultdict(lambda: ([], []))
        for sandbox in await _look_at(sandboxes, self._known_sandbox, ask_sandbox):
            by_uid[sandbox.uid][0].append(sandbox)
        for container in await _look_at(containers, self._known_container, ask_container):
            by_uid[container.uid][1].append(container)
        return tuple(_pod(uid, *parts) for uid, parts in sorted(by_uid.items()))

    def _known_sandbox(self, listed: cri.PodSandbox) -> _Sandbox | None:
        known = self._sandboxes.get(listed.id)
        return known if known is not None and known.observed.ready == (listed.state == cri.SANDBOX_READY) else None

    def _known_container(self, listed: cri.Container) -> _Container | None:
        known = self._containers.get(listed.id)
        return known if known is not None and known.listed_as == listed.state else None

    async def _sandbox(self, patience: float | None, listed: cri.PodSandbox) -> _Sandbox | None:
        meta = listed.metadata
        try:
            status = await self.sandbox_status(listed.id, deadline=patience)
        except NotFound:
            return None
        except Retry:
            if patience is None:
                raise
            return _Sandbox(meta.uid, meta.name, meta.namespace, listed.created_at, _listed_sandbox(listed))
        return self._remembered(status)

    def _remembered(self, status: cri.PodSandboxStatus) -> _Sandbox:
        meta, observed = status.metadata, observed_sandbox(status)
        sandbox = _Sandbox(meta.uid, meta.name, meta.namespace, status.created_at, observed)
        if observed.host_network or observed.ips or not observed.ready:
            self._sandboxes[status.id] = sandbox
        return sandbox

    async def _container(self, patience: float | None, listed: cri.Container) -> _Container | None:
        try:
            status = await self.container_status(listed.id, deadline=patience)
        except NotFound:
            return None
        except Retry:
            if patience is None:
                raise
            rough = observed_container(_listed_container(listed), listed)
            return _Container(listed.labels[POD_UID], listed.created_at, listed.state, rough)
        observed = observed_container(status, listed)
        if observed.state is State.EXITED and (said := await asyncio.to_thread(termination_message, status)):
            observed = replace(observed, message=": ".join(filter(None, (observed.message, said))))
        if observed.state is State.CREATED and (when := self._abandoned.get(listed.id)):
            observed = replace(observed, state=State.EXITED, exit_code=_KILLED, reason="Error", finished_at=when)
        container = _Container(listed.labels[POD_UID], status.created_at, status.state, observed)
        if observed.state is not State.UNKNOWN:
            self._containers[listed.id] = container
        return container

    def _forget(self, gone: Iterable[str]) -> None:
        for key in gone:
            self._sandboxes.pop(key, None)
            self._containers.pop(key, None)
            self._abandoned.pop(key, None)


def _listed_sandbox(listed: cri.PodSandbox) -> ObservedSandbox:
    """As much as the list says."""
    return observed_sandbox(
        cri.PodSandboxStatus(id=listed.id, metadata=listed.metadata, state=listed.state, created_at=listed.created_at)
    )


def _listed_container(listed: cri.Container) -> cri.ContainerStatus:
    return cri.ContainerStatus(
        id=listed.id,
        metadata=listed.metadata,
        state=listed.state,
        created_at=listed.created_at,
        image=listed.image,
        image_ref=listed.image_ref,
        labels=listed.labels,
        annotations=listed.annotations,
    )


def observed_sandbox(status: cri.PodSandboxStatus) -> ObservedSandbox:
    ready = status.state == cri.SANDBOX_READY
    host_network = status.linux.namespaces.options.network == cri.NODE
    ips = (status.network.ip, *(each.ip for each in status.network.additional_ips))
    return ObservedSandbox(
        id=status.id,
        ready=ready,
        attempt=status.metadata.attempt,
        created_at=_time(status.created_at),
        ips=tuple(filter(None, ips)) if ready and not host_network else (),
        host_network=host_network,
    )


def observed_container(status: cri.ContainerStatus, listed: cri.Container) -> ObservedContainer:
    state = _STATES.get(status.state, State.UNKNOWN)
    exited = state is State.EXITED
    annotations = status.annotations
    grace = annotations.get(TERMINATION_GRACE_PERIOD, "")
    restarts = annotations.get(RESTART_COUNT, "")
    return ObservedContainer(
        id=status.id,
        name=status.labels.get(CONTAINER_NAME, "") or status.metadata.name,
        state=state,
        sandbox_id=listed.pod_sandbox_id,
        attempt=int(restarts) if restarts.isdecimal() else status.metadata.attempt,
        hash=annotations.get(CONTAINER_HASH, ""),
        image=_image_name(status, listed),
        image_id=status.image_ref or status.image_id,  # with its digest, which people can pull again
        volume_images=tuple(each.image.image for each in status.mounts if each.image.image),
        created_at=_time(status.created_at),
        started_at=_time(status.started_at) if state is not State.CREATED else None,
        finished_at=_time(status.finished_at) if exited else None,
        exit_code=status.exit_code if exited else 0,
        reason=status.reason if exited else "",
        message=status.message if exited else "",
        grace_seconds=int(grace) if grace.isdecimal() else None,
        user=_user(status.user) if status.HasField("user") else None,
        stop_signal=signal_name(status.stop_signal),
        limits=_limits(status.resources.linux) if status.resources.HasField("linux") else None,
    )


def _limits(told: cri.LinuxContainerResources) -> EnforcedLimits:
    return EnforcedLimits(
        cpu_shares=told.cpu_shares or None,
        cpu_quota=told.cpu_quota if told.cpu_quota > 0 and told.cpu_period > 0 else None,
        cpu_period=told.cpu_period or PERIOD,
        memory=told.memory_limit_in_bytes or None,
    )


def _user(user: cri.ContainerUser) -> ContainerUser:
    if not user.HasField("linux"):
        return ContainerUser()
    own = user.linux
    return ContainerUser(
        linux=LinuxContainerUser(uid=own.uid, gid=own.gid, supplemental_groups=tuple(own.supplemental_groups))
    )


def _image_name(status: cri.ContainerStatus, listed: cri.Container) -> str:
    """A list says what the container was made from: as upstream does it an image's id, whose name the status knows."""
    ask_one = listed.image.image
    is_id = ask_one.startswith("sha256:") or "@" in ask_one or ask_one in (status.image_ref, status.image_id)
    return status.image.image if is_id or not ask_one else ask_one


def _pod(uid: str, sandboxes: list[_Sandbox], containers: list[_Container]) -> ObservedPod:
    sandboxes.sort(key=lambda each: each.created, reverse=True)
    containers.sort(key=lambda each: each.created, reverse=True)
    newest = sandboxes[0] if sandboxes else None
    return ObservedPod(
        uid=uid,
        name=newest.name if newest else "",
        namespace=newest.namespace if newest else "",
        sandboxes=tuple(each.observed for each in sandboxes),
        containers=tuple(each.observed for each in containers),
    )


async def _look_at(
    listed: Iterable[Listed],
    known: Callable[[Listed], Seen | None],
    ask: Callable[[Listed], Coroutine[Any, Any, Seen | None]],
) -> list[Seen]:
    """Those that are still there. On a quiet node everything is known, so that a look costs no tasks."""
    found, unknown = [], []
    for each in listed:
        seen = known(each)
        if seen is not None:
            found.append(seen)
        else:
            unknown.append(each)
    limit = asyncio.Semaphore(_AT_ONCE)  # of this look: what another one waits for is none of its business

    async def ask_one(each: Listed) -> Seen | None:
        async with limit:
            return await ask(each)

    found += [seen for seen in await asyncio.gather(*map(ask_one, unknown)) if seen is not None]
    return found


def _time(nanoseconds: int) -> datetime | None:
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds > 0 else None

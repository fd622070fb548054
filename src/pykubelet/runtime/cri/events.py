"""Hints that something has happened: from containerd's own stream where there is one, else from CRI's.

Containerd has both, but until version 2 each event of its CRI stream goes to one listener alone, be it one that has
long gone away: after a restart of the agent the first events would be lost. Its own stream tells everybody, though of
the end of a program before its CRI side has taken note of it. So nobody is told before a look would show it.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, Final

from pykubelet.base.errors import NotFound, PykubeletError, Retry
from pykubelet.pod.container.labels import POD_UID
from pykubelet.runtime.cri._gen import containerd_events_pb2 as containerd
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.observe import SERVICE, Observer
from pykubelet.web.grpc_channel import Channel, Unimplemented

_CONTAINERD: Final = "containerd.services.events.v1.Events/Subscribe"
_EXITS: Final = 'namespace=="k8s.io",topic=="/tasks/exit"'
_SHORTEST_PAUSE: Final = 0.004
"""About as long as containerd's CRI side needs to take note of an end: a look before that is in vain."""
_LONGEST_PAUSE: Final = 0.1
_PATIENCE: Final = 5.0
_OVER: Final = frozenset({cri.CONTAINER_EXITED, cri.CONTAINER_UNKNOWN})


async def changes(channel: Channel, observer: Observer) -> AsyncGenerator[str, None]:
    """The uids of pods in which something ended. What begins was begun by the agent, who looks by itself."""
    for stream in (_containerd_changes, _cri_changes):
        with suppress(Unimplemented):
            async with aclosing(stream(channel, observer)) as uids:
                async for uid in uids:
                    yield uid
            return


async def _cri_changes(channel: Channel, _: Observer) -> AsyncGenerator[str, None]:
    stream = channel.stream(f"{SERVICE}/GetContainerEvents", cri.GetEventsRequest(), cri.ContainerEventResponse)
    async with aclosing(stream) as events:
        async for event in events:
            uid = event.pod_sandbox_status.metadata.uid
            if uid and event.container_event_type in (cri.CONTAINER_STOPPED_EVENT, cri.CONTAINER_DELETED_EVENT):
                yield uid


async def _containerd_changes(channel: Channel, observer: Observer) -> AsyncGenerator[str, None]:
    """Each exit is looked into on its own, so that a slow one holds up no other."""
    told: asyncio.Queue[str | PykubeletError | None] = asyncio.Queue()
    tasks: set[asyncio.Task[None]] = set()

    async def look(container_id: str) -> None:
        with suppress(PykubeletError):  # a hint that is lost
            if uid := await _wait_for_end(observer, container_id):
                told.put_nowait(uid)

    async def listen() -> None:
        request = containerd.SubscribeRequest(filters=[_EXITS])
        try:
            async with aclosing(channel.stream(_CONTAINERD, request, containerd.Envelope)) as events:
                async for event in events:
                    exit = containerd.TaskExit.FromString(event.event.value)
                    if exit.id == exit.container_id:  # else a command in a container, not the container
                        start(look(exit.container_id))
            told.put_nowait(None)
        except PykubeletError as error:
            told.put_nowait(error)

    def start(work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    start(listen())
    try:
        while (news := await told.get()) is not None:
            if isinstance(news, PykubeletError):
                raise news
            yield news
    finally:
        await _cancel(tasks)


async def _wait_for_end(observer: Observer, container_id: str) -> str:
    """The pod of a container or sandbox, as soon as a look at it would show that it has ended."""
    pause, loop = _SHORTEST_PAUSE, asyncio.get_running_loop()
    patience = loop.time() + _PATIENCE
    while True:
        await observer.stop_of(container_id)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
        is_late = loop.time() > patience
        try:
            uid, over = await _state(observer, container_id)
        except Retry:
            if is_late:
                raise
            uid, over = "", False
        if over or is_late:
            return uid


async def _state(observer: Observer, container_id: str) -> tuple[str, bool]:
    """Of a container or a sandbox: the uid of its pod, and whether it has ended."""
    if not observer.is_sandbox(container_id):
        with suppress(NotFound):
            status = await observer.container_status(container_id)
            return status.labels.get(POD_UID, ""), status.state in _OVER
    sandbox = await observer.sandbox_status(container_id)
    return sandbox.metadata.uid, sandbox.state != cri.SANDBOX_READY


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in (*tasks,):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

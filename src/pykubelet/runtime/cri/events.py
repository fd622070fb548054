"""Hints that something has happened: from CRI's own stream where the runtime has it, else from containerd's.

Containerd tells of the end of a program before its CRI side has taken note of it. So nobody is told before a look would
show it.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, Final

from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.pod.labels import POD_UID
from pykubelet.runtime.cri._gen import containerd_events_pb2 as containerd
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.channel import Channel, Unimplemented
from pykubelet.runtime.cri.observe import SERVICE, Observer

_CONTAINERD: Final = "containerd.services.events.v1.Events/Subscribe"
_EXITS: Final = 'namespace=="k8s.io",topic=="/tasks/exit"'
_SHORTEST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.1
_PATIENCE: Final = 5.0
_OVER: Final = frozenset({cri.CONTAINER_EXITED, cri.CONTAINER_UNKNOWN})


async def changes(channel: Channel, observer: Observer) -> AsyncGenerator[str, None]:
    """The uids of pods in which something ended. What begins was begun by the agent, who looks by itself."""
    for stream in (_cri_changes, _containerd_changes):
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
            if uid := await _ended(observer, container_id):
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


async def _ended(observer: Observer, container_id: str) -> str:
    """The pod of a container or sandbox, as soon as a look at it would show that it has ended."""
    pause, loop = _SHORTEST_PAUSE, asyncio.get_running_loop()
    patience = loop.time() + _PATIENCE
    while True:
        try:
            status = await observer.container_status(container_id)
            uid, over = status.labels.get(POD_UID, ""), status.state in _OVER
        except NotFound:
            sandbox = await observer.sandbox_status(container_id)
            uid, over = sandbox.metadata.uid, sandbox.state != cri.SANDBOX_READY
        if over or loop.time() > patience:
            return uid
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in (*tasks,):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

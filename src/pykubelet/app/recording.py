"""The agent, as it is or recorded: the rest of the program makes no difference between the two."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from msgspec import Struct

from pykubelet.base.tasks import supervise
from pykubelet.host.recording_file import RecordingFile
from pykubelet.node.agent import Agent
from pykubelet.node.dependencies import Dependencies
from pykubelet.pod.observed import ObservedPod


class LivingAgent(Struct, frozen=True, kw_only=True):
    agent: Agent
    """To be looked at."""
    look: Callable[[], Awaitable[tuple[ObservedPod, ...]]]
    stop_pods: Callable[[], Awaitable[None]]
    tasks: "Callable[[], list[asyncio.Task[Any]]]"
    """Cancelling them ends the agent, and no pod."""


async def living_agent(tasks: asyncio.TaskGroup, outside: Dependencies, file: RecordingFile | None) -> LivingAgent:
    """Started. With a file, all that comes to it and all that it does is recorded there. Raises Invalid."""
    if file is not None:
        return await _recorded(tasks, outside, file)
    agent = Agent(tasks, outside)
    running = agent.start()
    return LivingAgent(
        agent=agent,
        look=agent.pleg.look,
        stop_pods=agent.stop_pods,
        tasks=lambda: [*running, *agent.worker_tasks()],
    )


async def _recorded(tasks: asyncio.TaskGroup, outside: Dependencies, file: RecordingFile) -> LivingAgent:
    from pykubelet.node.recording.live import RecordedAgent  # what few need is not loaded for all

    recorded = RecordedAgent(outside, file)
    agent = await recorded.made()
    running = [tasks.create_task(recorded.run()), tasks.create_task(supervise("recording", file.run))]
    return LivingAgent(
        agent=agent,
        look=partial(recorded.ask, "look"),
        stop_pods=partial(recorded.ask, "stop_pods"),
        tasks=lambda: running,
    )


def recording_file(path: str, stack: AsyncExitStack) -> RecordingFile | None:
    """Until the stack is unwound. None: nothing is to be recorded. Raises Invalid."""
    if not path:
        return None
    file = RecordingFile(path)
    stack.push_async_callback(file.close)
    return file

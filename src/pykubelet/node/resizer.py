"""Telling running containers what their pod was allocated, one after the other."""

import asyncio
import logging

from pykubelet.api.pod import Pod
from pykubelet.base.errors import PykubeletError, as_it_came
from pykubelet.node.dependencies import Dependencies
from pykubelet.node.pod_killer import named_container
from pykubelet.node.resizes import PodResizes
from pykubelet.pod.moments import about
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.runtime import Limits
from pykubelet.pod.resize.actions import (
    MemoryUse,
    Resizes,
    Update,
    falling_limits,
    memory_refusal,
    told_limits,
    told_resources,
)

log = logging.getLogger(__name__)


class Resizer:
    def __init__(self, outside: Dependencies, resizes: PodResizes) -> None:
        self._runtime = outside.runtime
        self._memory_use = outside.memory_use
        self._resizes = resizes

    async def tell(self, pod: Pod, observed: ObservedPod, resizes: Resizes) -> str:
        """-> why not all could be told; the rest waits for the next try. What was told before is on disk before
        anything is done: an agent that comes later goes on from there."""
        if resizes.is_empty:
            return ""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await self._resizes.saved()
            failure = await self._refusal(pod, observed, resizes)
            for update in () if failure else resizes.updates:
                await self._update(pod, update)
        except PykubeletError as error:
            failure = as_it_came(error)
        if failure:
            log.warning("pod %s is not resized yet: %s", about(pod), failure)
            self._resizes.fail(pod, failure, clock() - began)
        else:
            self._resizes.told_all(pod, clock() - began)
        return failure

    async def _refusal(self, pod: Pod, observed: ObservedPod, resizes: Resizes) -> str:
        whole, falling = falling_limits(pod, self._resizes.actuated(pod) or {}, resizes)
        if not resizes.memory or (whole is None and not falling):
            return ""
        use = await self._memory_use(observed) if self._memory_use is not None else MemoryUse()
        return memory_refusal(whole, falling, use)

    async def _update(self, pod: Pod, update: Update) -> None:
        container = named_container(pod, update.container)
        if container is None:
            return
        limits = told_limits(pod, container, update)
        if limits != Limits():
            await self._runtime.update_container(update.container_id, limits)
        told = told_resources(container, self._resizes.told(pod.metadata.uid).get(update.container), update.kind)
        await self._resizes.tell(pod, update.container, told)

"""Every ten seconds: look at what pods have written that have a limit on it, and tell the sync loop of those above."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import is_critical
from pykubelet.base.errors import PykubeletError
from pykubelet.base.tasks import every
from pykubelet.node.messages import Message, OverLimit
from pykubelet.node.pleg import Pleg
from pykubelet.pod.eviction.local_storage import has_own_image_disk, is_limited, storage_eviction
from pykubelet.pod.stats.stats import StorageStats

log = logging.getLogger(__name__)

PERIOD: Final = 10.0


async def watch_storage(
    pods: Callable[[], Iterable[Pod]], pleg: Pleg, stats: StorageStats, inbox: "asyncio.Queue[Message]"
) -> None:
    """Until cancelled. Critical pods are spared, static ones among them: nothing would start those again."""
    async for _ in every(PERIOD):
        limited = {pod.metadata.uid: pod for pod in pods() if is_limited(pod) and not is_critical(pod)}
        if not limited or pleg.is_blind:
            continue
        try:
            reading = await stats.storage(tuple(pleg.seen.values()), limited.keys())
        except PykubeletError as error:
            log.debug("what pods have written cannot be measured: %s", error)
            continue
        own_image_disk = has_own_image_disk(reading.node)
        for used in reading.pods:
            if (found := storage_eviction(limited[used.uid], used, own_image_disk=own_image_disk)) is not None:
                await inbox.put(OverLimit(used.uid, found))

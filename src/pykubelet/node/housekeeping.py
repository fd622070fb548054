"""Every two seconds: look at what is on the machine, and let the sync loop decide what nobody wants any more."""

import asyncio
import logging
from typing import Final

from pykubelet.base.errors import PykubeletError
from pykubelet.base.tasks import every
from pykubelet.node.messages import Housekeep, Message
from pykubelet.node.pleg import Pleg
from pykubelet.pod.ports.machine import PodCgroups, PodHost

log = logging.getLogger(__name__)

PERIOD: Final = 2.0


async def keep_house(pleg: Pleg, host: PodHost, cgroups: PodCgroups | None, inbox: "asyncio.Queue[Message]") -> None:
    """Until cancelled. While the loop is behind with its work, or the runtime cannot be seen, the house has to wait.

    What the runtime holds the sync loop reads itself, in the moment in which it decides.
    """
    async for _ in every(PERIOD):
        if inbox.qsize() > inbox.maxsize // 2 > 0:
            log.warning("housekeeping is put off: %d messages wait", inbox.qsize())
            continue
        if pleg.is_blind:
            continue
        try:
            folders = await host.uids()
            if cgroups is not None:
                folders |= await cgroups.orphan_groups(pleg.seen.keys() | folders)
        except PykubeletError as error:
            log.debug("housekeeping cannot look: %s", error)
            continue
        await inbox.put(Housekeep(folders))

"""Which addresses pods have on this node: a controller of the cluster decides it some time after the node was made, and
the runtime has to be told, for its network may wait for that."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pykubelet.api.node import Node
from pykubelet.base.errors import PykubeletError
from pykubelet.base.tasks import every

log = logging.getLogger(__name__)

_PERIOD: Final = 1.0


async def tell_pod_cidr(
    tell: Callable[[str], Awaitable[None]], node: Callable[[], Node | None], configured: str = ""
) -> None:
    """Tell it whenever it has changed, until cancelled. Without a node object, or while that says nothing, what is
    configured counts."""
    told = complaint = ""
    async for _ in every(_PERIOD):
        known = node()
        cidr = ",".join(known.spec.pod_cidrs) if known else ""
        cidr = cidr or configured
        if cidr in ("", told):
            continue
        try:
            await tell(cidr)
        except PykubeletError as error:
            if str(error) != complaint:
                log.warning("the runtime cannot be told that pods have the addresses %s: %s", cidr, error)
            complaint = str(error)
            continue
        log.info("pods have the addresses %s", cidr)
        told, complaint = cidr, ""

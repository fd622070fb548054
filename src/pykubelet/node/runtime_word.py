"""How the runtime is, by its own word, or why there is none."""

import asyncio
import logging
from typing import Final

from pykubelet.api.struct import changed
from pykubelet.base.errors import PykubeletError
from pykubelet.pod.node.node_object import RuntimeReport
from pykubelet.pod.ports.node import RuntimeHealth
from pykubelet.pod.ports.runtime import RuntimeStatus

log = logging.getLogger(__name__)

_PATIENCE: Final = 15.0
"""Seconds that the runtime may take to say how it is. One that hangs would hold up the node's report otherwise, and
with it the word that it hangs, for as long as a call may take."""


class RuntimeWord:
    """The runtime's word on itself, or why there is none."""

    def __init__(self, runtime: RuntimeHealth) -> None:
        self._runtime = runtime
        self._last = RuntimeReport(status=RuntimeStatus(ready=False, network_ready=False))

    async def report(self) -> RuntimeReport:
        """What cannot be learned now is as it was, except for the status."""
        try:
            async with asyncio.timeout(_PATIENCE):
                status = await self._runtime.status()
        except TimeoutError:
            why = f"the runtime has not said how it is for {_PATIENCE:g} s"
            if why != self._last.status.message:
                log.warning("%s", why)
            return self._away(why)
        except PykubeletError as error:
            return self._away(str(error))
        self._last = changed(self._last, status=status)
        try:
            async with asyncio.timeout(_PATIENCE):
                self._last = changed(self._last, version=await self._runtime.version())
                self._last = changed(self._last, images=await self._runtime.images())
        except (PykubeletError, TimeoutError) as error:
            why = str(error) or f"no answer within {_PATIENCE:g} s"
            log.warning("the runtime does not tell its version or its images: %s", why)
        return self._last

    def _away(self, why: str) -> RuntimeReport:
        before = self._last.status
        status = RuntimeStatus(
            ready=False,
            network_ready=False,
            message=why,
            handlers=before.handlers,
            supplemental_groups_policy=before.supplemental_groups_policy,
        )
        self._last = changed(self._last, status=status)
        return self._last

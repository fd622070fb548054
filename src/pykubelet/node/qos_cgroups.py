"""The control groups of the QoS classes: each as large as the pods in it ask for together."""

import logging
from collections.abc import Callable, Collection
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.base.errors import PykubeletError
from pykubelet.base.tasks import every
from pykubelet.pod.ports.machine import PodCgroups

log = logging.getLogger(__name__)

_PERIOD: Final = 60.0


class QosCgroups:
    """`pods` are all that have not ended."""

    def __init__(self, cgroups: PodCgroups, pods: Callable[[], Collection[Pod]]) -> None:
        self._cgroups = cgroups
        self._pods = pods

    async def run(self) -> None:
        """Until cancelled: pods end, and others change what they ask for."""
        async for _ in every(_PERIOD):
            await self.balance()

    async def balance(self) -> None:
        """Bring them up to date. When that cannot be done the pods run all the same."""
        try:
            await self._cgroups.balance(self._pods())
        except PykubeletError as error:
            log.warning("the control groups of the classes of service cannot be brought up to date: %s", error)

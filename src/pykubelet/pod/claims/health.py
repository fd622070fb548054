"""How well the devices of drivers are, as far as they tell: silence for half a minute means that nobody knows."""

from collections.abc import Mapping
from typing import Final, Literal

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod, ResourceHealth, ResourceStatus
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.claims.table import ClaimTable
from pykubelet.pod.claims.wanted import container_claims

Health = Literal["Healthy", "Unhealthy", "Unknown"]
PATIENCE: Final = 30.0
_MOST: Final = 65_536
"""Devices of one driver: who tells of others all the time is not listened to for all of them."""


class ClaimedHealth:
    """Times are in seconds, on any clock that only goes forward."""

    def __init__(self) -> None:
        self._told: dict[str, dict[tuple[str, str], tuple[Health, float]]] = {}
        """By driver, and by pool and device: how it is, and when that was told."""

    def learn(self, driver: str, told: Mapping[tuple[str, str], Health], now: float) -> frozenset[tuple[str, str]]:
        """-> the devices of which that is news. What is told of no more counts for as long as it did anyway."""
        known = self._told.setdefault(driver, {})
        late = {key for key, (_, at) in known.items() if key not in told and now - at > PATIENCE}
        news = {key for key, each in told.items() if self.of(driver, *key, now) != each}
        known |= {key: (each, now) for key, each in told.items()}
        if len(known) > _MOST:
            late |= known.keys() - told.keys()
        for key in late:
            del known[key]
        return frozenset(news | late)

    def forget(self, driver: str) -> frozenset[tuple[str, str]]:
        """It tells nothing any more. -> the devices of which it had."""
        return frozenset(self._told.pop(driver, ()))

    def of(self, driver: str, pool: str, device: str, now: float) -> Health:
        health, at = self._told.get(driver, {}).get((pool, device), ("Unknown", now))
        return health if now - at <= PATIENCE else "Unknown"

    def statuses(
        self, pod: Pod, container: Container, table: ClaimTable, now: float, *, extended: bool = False
    ) -> tuple[ResourceStatus, ...]:
        """What a container's status tells of the devices that it was allocated."""
        found: dict[str, tuple[ResourceHealth, ...]] = {}
        try:
            for use in container_claims(pod, container, extended=extended):
                if not use.called:
                    continue  # what stands for extended resources has no name here
                name = f"claim:{use.called}/{use.request}" if use.request else f"claim:{use.called}"
                found[name] = tuple(
                    ResourceHealth(
                        resource_id=next(iter(each.cdi_ids), f"{driver}/{each.pool}/{each.device}"),
                        health=self.of(driver, each.pool, each.device, now),
                    )
                    for driver, each in table.devices(pod.metadata.namespace, use)
                )
        except ClaimFailed:
            return ()
        return tuple(ResourceStatus(name=name, resources=each) for name, each in found.items() if each)

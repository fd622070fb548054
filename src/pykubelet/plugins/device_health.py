"""How well the devices are that containers have, from whoever brings them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

from pykubelet.api.pod import Pod, ResourceHealth, ResourceStatus
from pykubelet.pod.claims.health import ClaimedHealth, Health
from pykubelet.pod.claims.table import ClaimTable
from pykubelet.pod.devices.allocations import DeviceInventory


class HealthOfDevices:
    """The DeviceHealth port. What is in use is looked up when somebody wants to know."""

    def __init__(
        self,
        inventory: Callable[[], DeviceInventory] = DeviceInventory,
        table: Callable[[], ClaimTable] = ClaimTable,
        *,
        extended: bool = False,
    ) -> None:
        self._inventory = inventory
        self._table = table
        self._extended = extended
        self._claimed = ClaimedHealth()
        self._news: set[str] = set()
        self._has_news = asyncio.Event()

    def of(self, pod: Pod) -> Mapping[str, tuple[ResourceStatus, ...]]:
        found = {
            each.name: (*self._plugged(pod, each.name), *self._claims(pod, each.name)) for each in pod.spec.containers
        }
        return {name: each for name, each in found.items() if each}

    async def changes(self) -> AsyncGenerator[frozenset[str], None]:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            news, self._news = frozenset(self._news), set()
            yield news

    def learn(self, driver: str, told: Mapping[tuple[str, str], Health]) -> None:
        """What a driver says of its devices, by pool and name."""
        news = self._claimed.learn(driver, told, _now())
        self._tell(self._table().users(driver, news))

    def forget(self, driver: str) -> None:
        """It says nothing any more."""
        self._tell(self._table().users(driver, self._claimed.forget(driver)))

    def plugged_changed(self) -> None:
        """Of a device plug-in."""
        self._tell(holder.uid for holder in self._inventory().held)

    def _tell(self, uids: Iterable[str]) -> None:
        self._news.update(uids)
        if self._news:
            self._has_news.set()

    def _plugged(self, pod: Pod, container: str) -> list[ResourceStatus]:
        inventory, found = self._inventory(), []
        for resource, given in inventory.of(pod.metadata.uid, container).items():
            known = inventory.devices.get(resource, {})
            well = {each: each not in known or known[each].is_healthy for each in sorted(given.all)}
            healths = [
                ResourceHealth(resource_id=each, health="Healthy" if ok else "Unhealthy") for each, ok in well.items()
            ]
            found.append(ResourceStatus(name=resource, resources=tuple(healths)))
        return found

    def _claims(self, pod: Pod, container: str) -> tuple[ResourceStatus, ...]:
        named = next(each for each in pod.spec.containers if each.name == container)
        return self._claimed.statuses(pod, named, self._table(), _now(), extended=self._extended)


def _now() -> float:
    return asyncio.get_running_loop().time()

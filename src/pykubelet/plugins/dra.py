"""Drivers of allocated devices on this node: which of their programs to ask, and who is told when none is left.

While a driver is updated, the old and the new program run side by side; the newest that can be reached is asked. What
the node tells of a driver's devices is taken back when the driver stays away: pods must not come here for them.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from pykubelet.api.validation import names
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.claims.moments import ClaimDriverCalled
from pykubelet.pod.moments import Journal
from pykubelet.pod.ports.claims import ClaimApi

if TYPE_CHECKING:
    from pykubelet.plugins.device_health import HealthOfDevices
    from pykubelet.plugins.dra_driver import DraInstance

log = logging.getLogger(__name__)

SERVICES: Final = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""The newest first."""
WIPING_DELAY: Final = 30.0
"""Seconds for which a driver that has gone is expected back."""
_RETRY: Final = (1.0, 300.0)
_HEALTH_PAUSE: Final = 5.0
_LONGEST_NAME: Final = 63


class DraDrivers:
    """The one who takes in plug-ins of this type. `health` hears what they tell of their devices; None: nobody
    does. `is_ours`: whether this machine is the node that it would be."""

    def __init__(
        self,
        api: ClaimApi | None,
        journal: Journal,
        *,
        health: "HealthOfDevices | None" = None,
        is_ours: Callable[[], bool] = lambda: True,
    ) -> None:
        self._api = api
        self._journal = journal
        self._health = health
        self._is_ours = is_ours
        self._instances: dict[str, list[DraInstance]] = {}
        """By driver, in the order in which they came."""
        self._tasks: dict[tuple[str, str], list[asyncio.Task[None]]] = {}
        self._wipes: dict[str, asyncio.Task[None]] = {}
        self._is_running = False

    async def run(self) -> None:
        """No driver has come yet, and perhaps none does: until then nothing is told of devices here."""
        self._is_running = True
        try:
            await self._wipe("")
            await asyncio.Event().wait()
        finally:
            self._is_running = False
            for task in self._wipes.values():
                task.cancel()

    async def register(self, name: str, endpoint: str, versions: tuple[str, ...]) -> None:
        from pykubelet.plugins.dra_driver import DraInstance  # what it speaks takes long to load

        service = _chosen(name, endpoint, versions)
        known = self._instances.setdefault(name, [])
        if any(each.endpoint == endpoint for each in known):
            raise Invalid(f"endpoint {endpoint} already registered for DRA driver plugin {name}")

        def called(method: str, code: str, seconds: float) -> None:
            self._journal.note(ClaimDriverCalled(name, method, code, seconds))

        instance = DraInstance(name, endpoint, service, called)
        known.append(instance)
        works = [self._follow(instance)] + ([self._listen(instance)] if self._health is not None else [])
        self._tasks[name, endpoint] = [asyncio.create_task(each, name=f"DRA driver {name}") for each in works]
        self._changed(name)

    async def deregister(self, name: str, endpoint: str) -> None:
        for task in (tasks := self._tasks.pop((name, endpoint), [])):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        found = next((each for each in self._instances.get(name, ()) if each.endpoint == endpoint), None)
        if found is None:
            return
        self._instances[name].remove(found)
        if not self._instances[name]:
            del self._instances[name]
        await found.close()
        self._changed(name)

    def instance(self, driver: str) -> "DraInstance":
        """The newest that can be reached, or else the newest. Raises ClaimFailed."""
        known = self._instances.get(driver)
        if not known:
            raise ClaimFailed(f"DRA driver {driver} is not registered", driver=driver)
        return next((each for each in reversed(known) if each.is_connected), known[-1])

    # --- what becomes of a driver

    async def _follow(self, instance: "DraInstance") -> None:
        async for is_connected in instance.connections():
            instance.is_connected = is_connected
            log.info("DRA driver %s at %s can %s", instance.driver, instance.endpoint, _REACHED[is_connected])
            self._changed(instance.driver)

    def _changed(self, driver: str) -> None:
        pending = self._wipes.get(driver)
        if any(each.is_connected for each in self._instances.get(driver, ())):
            if pending is not None:
                self._wipes.pop(driver).cancel()
        elif pending is not None:
            if pending.done() and driver not in self._instances:
                del self._wipes[driver]
        elif self._is_running and self._api is not None:
            self._wipes[driver] = asyncio.create_task(self._wipe_later(driver), name=f"slices of {driver}")

    async def _wipe_later(self, driver: str) -> None:
        await asyncio.sleep(WIPING_DELAY)
        log.warning("DRA driver %s has been away for %.0f s: its ResourceSlices are removed", driver, WIPING_DELAY)
        await self._wipe(driver)
        if driver not in self._instances:
            del self._wipes[driver]

    async def _wipe(self, driver: str) -> None:
        """However often it takes. Empty: of all drivers."""
        if self._api is None:
            return
        backoff = Backoff(*_RETRY, now=asyncio.get_running_loop().time, jitter=0.2)
        while True:
            try:
                if self._is_ours():
                    await self._api.remove_slices(driver)
                    return
            except PykubeletError as error:
                log.info("the ResourceSlices of %s cannot be removed yet: %s", driver or "this node", error)
            await asyncio.sleep(backoff.next())

    async def _listen(self, instance: "DraInstance") -> None:
        from pykubelet.web.grpc_channel import Unimplemented

        driver, health = instance.driver, self._health
        assert health is not None
        said = ""
        while True:
            try:
                async for told in instance.health():
                    health.learn(driver, told)
            except Unimplemented:
                return
            except PykubeletError as error:
                if str(error) != said:
                    log.info("DRA driver %s does not tell how its devices are: %s", driver, error)
                said = str(error)
            finally:
                if len(self._instances.get(driver, ())) <= 1:
                    health.forget(driver)
            await asyncio.sleep(_HEALTH_PAUSE)


_REACHED: Final = {True: "be reached", False: "not be reached"}


def _chosen(name: str, endpoint: str, versions: Collection[str]) -> str:
    """The service to speak. Raises Invalid."""
    if len(name) > _LONGEST_NAME or names.dns_subdomain(name):
        raise Invalid(f"{name[:100]!r} is no name of a DRA driver: up to {_LONGEST_NAME} letters, digits, dots, dashes")
    if not versions:
        wrong = "empty list of supported gRPC services (aka supported versions)"
    elif (found := next((each for each in SERVICES if each in versions), None)) is not None:
        return found
    else:
        told = " ".join(f'"{each[:100]}"' for each in versions)
        known = " ".join(f'"{each}"' for each in SERVICES)
        wrong = f"none of services supported by the plugin ([{told}]) are supported by the kubelet ([{known}])"
    raise Invalid(f"invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: {wrong}")

"""What drivers and plug-ins tell of their devices reaches the pods that have them."""

import asyncio
from contextlib import aclosing
from pathlib import Path

from kit.dra_driver import DRIVER, Driver, claim
from kit.waiting import eventually
from pykubelet.plugins.device_health import HealthOfDevices
from pykubelet.plugins.dra import DraDrivers
from pykubelet.pod.claims.table import ClaimKey, ClaimTable, PreparedDevice
from pykubelet.pod.devices.allocations import DeviceInventory, Holder
from pykubelet.pod.devices.choice import Device
from pykubelet.pod.moments import Journal
from unit.plugins.test_claims import Api, pod


def told(health: HealthOfDevices) -> dict[str, str]:
    found = health.of(pod("a", "one")).get("c", ())
    return {f"{each.name} {one.resource_id}": one.health for each in found for one in each.resources}


async def test_a_driver_tells_how_its_devices_are(tmp_path: Path) -> None:
    table = ClaimTable()
    table.hold(claim("one", "a"), "a")
    table.prepared(ClaimKey("default", "one"), {DRIVER: (PreparedDevice("pool", "gpu-0", ("gpu",), ("v/c=0",)),)})
    health = HealthOfDevices(table=lambda: table)
    driver, silent = Driver(tells_health=True), Driver("silent.example.com")
    drivers = DraDrivers(Api(), Journal(), health=health)
    async with driver.at(tmp_path / "a"), silent.at(tmp_path / "b"), aclosing(health.changes()) as changes:
        await drivers.register(DRIVER, str(tmp_path / "a"), driver.versions)
        await drivers.register(silent.name, str(tmp_path / "b"), silent.versions)
        driver.tell(gpu_0=True, gpu_1=False)
        assert await anext(changes) == {"a"}
        assert told(health) == {"claim:one v/c=0": "Healthy"}
        driver.tell(gpu_0=False)
        assert await anext(changes) == {"a"}
        assert told(health) == {"claim:one v/c=0": "Unhealthy"}
        await eventually(lambda: drivers._tasks[silent.name, str(tmp_path / "b")][1].done())  # it is not asked again
        await drivers.deregister(DRIVER, str(tmp_path / "a"))
        assert await anext(changes) == {"a"}
        assert told(health) == {"claim:one v/c=0": "Unknown"}
        await drivers.deregister(silent.name, str(tmp_path / "b"))


async def test_device_plug_ins_tell_it_as_well() -> None:
    inventory = DeviceInventory()
    inventory.devices["example.com/thing"] = {"x": Device("x", True), "y": Device("y", False)}
    inventory.give(Holder("a", "c", "example.com/thing"), frozenset("xy"), b"")
    health = HealthOfDevices(lambda: inventory)
    health.plugged_changed()
    async with asyncio.timeout(5), aclosing(health.changes()) as changes:
        assert await anext(changes) == {"a"}
    assert told(health) == {"example.com/thing x": "Healthy", "example.com/thing y": "Unhealthy"}

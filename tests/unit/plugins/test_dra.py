"""Drivers of claimed devices register, are updated, go and come back; what is told of their devices goes with them."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kit.dra_driver import DRIVER, Driver, claim
from kit.waiting import eventually
from pykubelet.api.resource_claims import DeviceClaim
from pykubelet.base.errors import Invalid, Retry
from pykubelet.plugins import dra
from pykubelet.plugins.dra import DraDrivers
from pykubelet.plugins.registry import DRA, PluginRegistry
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.claims.moments import ClaimDriverCalled
from pykubelet.pod.moments import Journal


class Api:
    """An API server with claims, and a list of what was to be removed from it."""

    def __init__(self) -> None:
        self.claims: dict[str, DeviceClaim] = {}
        self.wiped: list[str] = []
        self.failures = 0

    async def claim(self, namespace: str, name: str) -> DeviceClaim:
        return self.claims[name]

    async def remove_slices(self, driver: str = "") -> None:
        if self.failures:
            self.failures -= 1
            raise Retry("connection refused")
        self.wiped.append(driver)


@asynccontextmanager
async def running(root: Path, api: Api, journal: Journal | None = None) -> AsyncIterator[DraDrivers]:
    made = DraDrivers(api, journal or Journal())
    registry = PluginRegistry(str(root / "plugins_registry"), {DRA: made})
    tasks = [asyncio.create_task(made.run()), asyncio.create_task(registry.run())]
    try:
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def taken_in(drivers: DraDrivers, driver: Driver, endpoint: Path) -> AsyncIterator[None]:
    """As the registry does it."""
    async with driver.at(endpoint):
        await drivers.register(driver.name, str(endpoint), driver.versions)
        try:
            await eventually(lambda: is_reached(drivers, endpoint.name))
            yield
        finally:
            await drivers.deregister(driver.name, str(endpoint))


def is_reached(drivers: DraDrivers, endpoint: str) -> bool:
    try:
        found = drivers.instance(DRIVER)
    except ClaimFailed:
        return False
    return found.is_connected and found.endpoint.endswith(endpoint)


@pytest.mark.parametrize(
    ("versions", "asked"),
    [
        (("v1beta1.DRAPlugin", "v1.DRAPlugin"), "prepare one"),
        (("v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"), "prepare one by v1beta1"),
    ],
)
async def test_the_newest_service_is_spoken(versions: tuple[str, ...], asked: str) -> None:
    driver, journal, noted = Driver(versions=versions), Journal(), list[ClaimDriverCalled]()
    journal.read_by(lambda each: noted.append(each.moment) if isinstance(each.moment, ClaimDriverCalled) else None)
    with tempfile.TemporaryDirectory(prefix="pykubelet-") as folder:  # the path of a socket has its limits
        async with running(Path(folder), Api(), journal) as drivers, driver.registered(Path(folder)) as introduction:
            await eventually(lambda: introduction.told == [""])
            await _spoken(drivers, driver, asked)
    version = "v1" if asked == "prepare one" else "v1beta1"
    method = f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/NodePrepareResources"
    assert [(each.driver, each.method, each.code) for each in noted] == [
        (DRIVER, method, "OK"),
        (DRIVER, method, "Unknown"),
    ]


async def _spoken(drivers: DraDrivers, driver: Driver, asked: str) -> None:
    found = await drivers.instance(DRIVER).prepare([claim("one")])
    assert [each.cdi_ids for each in found["uid-one"]] == [("example.com/gpu=one",)]
    assert driver.asked == [asked]
    driver.failure = "on fire"
    with pytest.raises(ClaimFailed, match="code = Unknown desc = on fire"):
        await drivers.instance(DRIVER).prepare([claim("one")])


@pytest.mark.parametrize(
    ("name", "versions", "told"),
    [
        (DRIVER, (), "empty list of supported gRPC services"),
        (DRIVER, ("v9.DRAPlugin", "1.0.0"), 'none of services supported by the plugin (["v9.DRAPlugin" "1.0.0"])'),
        ("a,spec.driver=b", ("v1.DRAPlugin",), "is no name of a DRA driver"),
        ("../x", ("v1.DRAPlugin",), "is no name of a DRA driver"),
        ("x" * 64, ("v1.DRAPlugin",), "is no name of a DRA driver"),
    ],
)
async def test_what_is_not_taken_in(name: str, versions: tuple[str, ...], told: str) -> None:
    with pytest.raises(Invalid) as refused:
        await DraDrivers(Api(), Journal()).register(name, "/x.sock", versions)
    assert told in str(refused.value)


async def test_of_several_the_newest_that_can_be_reached_is_asked(tmp_path: Path) -> None:
    old, new, api = Driver(), Driver(), Api()
    async with running(tmp_path, api) as drivers:
        async with taken_in(drivers, old, tmp_path / "old.sock"):
            async with taken_in(drivers, new, tmp_path / "new.sock"):
                with pytest.raises(Invalid, match="already registered for DRA driver"):
                    await drivers.register(DRIVER, str(tmp_path / "new.sock"), ("v1.DRAPlugin",))
            assert is_reached(drivers, "old.sock")
            await drivers.register(DRIVER, str(tmp_path / "new.sock"), ("v1.DRAPlugin",))
            assert is_reached(drivers, "old.sock")  # the newest is not there yet
            await drivers.deregister(DRIVER, str(tmp_path / "new.sock"))
        with pytest.raises(ClaimFailed, match=f"DRA driver {DRIVER} is not registered") as failed:
            drivers.instance(DRIVER)
        assert failed.value.driver == DRIVER
        assert api.wiped == [""]


async def test_slices_go_with_a_driver_that_stays_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api, driver = Api(), Driver()
    api.failures = 2
    monkeypatch.setattr(dra, "_RETRY", (0.01, 0.1))
    async with running(tmp_path, api) as drivers:
        await eventually(lambda: api.wiped == [""])  # what an earlier agent has left
        async with taken_in(drivers, driver, tmp_path / "1.sock"):
            pass
        assert drivers._wipes.keys() == {DRIVER}
        async with taken_in(drivers, driver, tmp_path / "2.sock"):  # back in time
            assert not drivers._wipes
            assert api.wiped == [""]
            monkeypatch.setattr(dra, "WIPING_DELAY", 0.05)
        await eventually(lambda: api.wiped == ["", DRIVER])
        await eventually(lambda: not drivers._wipes)


async def test_a_driver_that_is_registered_and_dead_has_no_devices_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dra, "WIPING_DELAY", 0.05)
    api, driver = Api(), Driver()
    async with running(tmp_path, api) as drivers:
        endpoint = tmp_path / "dra.sock"
        await drivers.register(DRIVER, str(endpoint), driver.versions)
        await eventually(lambda: api.wiped == ["", DRIVER])
        async with driver.at(endpoint):
            await eventually(lambda: is_reached(drivers, "dra.sock"))
        await eventually(lambda: api.wiped == ["", DRIVER, DRIVER])
        await drivers.deregister(DRIVER, str(endpoint))
        await drivers.deregister(DRIVER, str(endpoint))


async def test_the_slices_of_another_machine_are_left_alone() -> None:
    api = Api()
    made = DraDrivers(api, Journal(), is_ours=lambda: False)
    task = asyncio.create_task(made.run())
    await asyncio.sleep(0.05)
    task.cancel()
    assert api.wiped == []

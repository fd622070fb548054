"""The part of the wiring that is about plug-ins: what takes them in, and what they bring."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from pykubelet.app.foundations import Foundations
from pykubelet.base.tasks import Work
from pykubelet.plugins.csi import CsiDrivers
from pykubelet.plugins.devices import PluginDevices
from pykubelet.plugins.registry import CSI, DEVICES, PluginRegistry


class PluginParts(Struct, frozen=True, kw_only=True):
    devices: PluginDevices
    drivers: CsiDrivers
    works: dict[str, Work]


def plugin_parts(base: Foundations, on_change: Callable[[], None]) -> PluginParts:
    """`on_change` is called when the node has other devices. Reads what an earlier agent has left."""
    root = base.config.root_dir
    devices = PluginDevices(
        str(root / "device-plugins"),
        on_change=on_change,
        runtime_knows_cdi=base.runtime.capabilities.knows_cdi,
    )
    devices.load()
    drivers = CsiDrivers(str(root), base.config.node.name, base.api.csi if base.api else None)
    registry = PluginRegistry(str(root / "plugins_registry"), {CSI: drivers, DEVICES: devices})
    return PluginParts(
        devices=devices, drivers=drivers, works={"device plug-ins": devices.run, "plug-ins": partial(registry.run)}
    )

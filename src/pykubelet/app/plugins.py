"""The part of the wiring that is about plug-ins: what takes them in, and what they bring."""

from collections.abc import Callable

from msgspec import Struct

from pykubelet.app.foundations import Foundations
from pykubelet.base.tasks import Work
from pykubelet.host.mount import is_mount_point
from pykubelet.node.agent import Agent
from pykubelet.plugins.csi import CsiDrivers
from pykubelet.plugins.devices import PluginDevices
from pykubelet.plugins.pod_resources import Pinned, PodResources
from pykubelet.plugins.registry import CSI, DEVICES, PluginRegistry
from pykubelet.pod.node.volumes_in_use import VolumesInUse
from pykubelet.pod.pinning.memory_state import allocatable_blocks


class PluginParts(Struct, frozen=True, kw_only=True):
    devices: PluginDevices
    drivers: CsiDrivers
    volumes_in_use: VolumesInUse | None
    """Of those that a controller attaches."""
    works: dict[str, Work]


def plugin_parts(base: Foundations, on_change: Callable[[], None]) -> PluginParts:
    """`on_change` is called when the node has other devices, or uses other volumes. Reads what an earlier agent has
    left."""
    root = base.config.root_dir
    in_use = _volumes_in_use(base, on_change)
    devices = PluginDevices(
        str(root / "device-plugins"),
        on_change=on_change,
        runtime_knows_cdi=base.runtime.capabilities.knows_cdi,
    )
    devices.load()
    drivers = CsiDrivers(
        str(root),
        base.config.node.name,
        base.api.csi if base.api else None,
        is_mounted=is_mount_point,
        in_use=in_use,
        recorder=base.recorder,
        journal=base.journal,
        with_health=base.config.feature_gates["CSIVolumeHealth"],
    )
    drivers.load()
    registry = PluginRegistry(str(root / "plugins_registry"), {CSI: drivers, DEVICES: devices})
    works: dict[str, Work] = {"device plug-ins": devices.run, "plug-ins": registry.run}
    return PluginParts(devices=devices, drivers=drivers, volumes_in_use=in_use, works=works)


def _volumes_in_use(base: Foundations, on_change: Callable[[], None]) -> VolumesInUse | None:
    api = base.api
    if api is None or not base.config.node.attach_by_controller:
        return None
    return VolumesInUse(lambda: api.view.node.status if api.view.node is not None else None, on_change)


def pod_resources(base: Foundations, parts: PluginParts, agent: Agent) -> PodResources:
    """For those who watch the machine."""
    pinning = agent.pinning
    cpus, memory = (pinning.cpus, pinning.memory) if pinning is not None else (None, None)
    pinned = Pinned(
        cpus=lambda uid, name: (cpus.state.of(uid, name) or ()) if cpus is not None else (),
        memory=lambda uid, name: (memory.state.of(uid, name) or ()) if memory is not None else (),
        all_cpus=lambda: cpus.allocatable if cpus is not None else (),
        all_memory=lambda: allocatable_blocks(memory.state) if memory is not None else (),
    )
    folder = str(base.config.root_dir / "pod-resources")
    return PodResources(folder, lambda: tuple(agent.handlers.usage.pods()), lambda: parts.devices.inventory, pinned)

"""The part of the wiring that is about plug-ins: what takes them in, and what they bring."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from pykubelet.app.foundations import Foundations
from pykubelet.base.tasks import Work
from pykubelet.host.mount import is_mount_point
from pykubelet.node.agent import Agent
from pykubelet.plugins.claims import NodeClaims
from pykubelet.plugins.csi import CsiDrivers
from pykubelet.plugins.device_health import HealthOfDevices
from pykubelet.plugins.devices import PluginDevices
from pykubelet.plugins.dra import DraDrivers
from pykubelet.plugins.pod_resources import Pinned, PodResources
from pykubelet.plugins.registry import CSI, DEVICES, DRA, PluginRegistry, Plugins
from pykubelet.pod.claims.table import ClaimTable
from pykubelet.pod.node.volumes_in_use import VolumesInUse
from pykubelet.pod.pinning.memory_state import allocatable_blocks


class PluginParts(Struct, frozen=True, kw_only=True):
    devices: PluginDevices
    drivers: CsiDrivers
    volumes_in_use: VolumesInUse | None
    """Of those that a controller attaches."""
    claims: NodeClaims | None
    """None: there is no API server that could allocate anything, or nobody wants it (DynamicResourceAllocation)."""
    health: HealthOfDevices | None
    """None: nobody wants to be told (ResourceHealthStatus)."""
    works: dict[str, Work]


def plugin_parts(base: Foundations, on_change: Callable[[], None], is_ours: Callable[[], bool]) -> PluginParts:
    """`on_change` is called when the node has other devices, or uses other volumes; `is_ours` tells whether the node
    object is ours. Reads what an earlier agent has left."""
    root, gates = base.config.root_dir, base.config.feature_gates
    extended, in_use = gates["DRAExtendedResource"], _volumes_in_use(base, on_change)
    health = None
    if gates["ResourceHealthStatus"]:
        health = HealthOfDevices(
            lambda: devices.inventory, lambda: claims.table if claims else ClaimTable(), extended=extended
        )

    def changed() -> None:
        on_change()
        if health is not None:
            health.plugged_changed()

    devices = PluginDevices(
        str(root / "device-plugins"),
        on_change=changed,
        runtime_knows_cdi=base.runtime.capabilities.knows_cdi,
        journal=base.journal,
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
    types: dict[str, Plugins] = {CSI: drivers, DEVICES: devices}
    works: dict[str, Work] = {"device plug-ins": devices.run}
    claims = None
    if base.api is not None and gates["DynamicResourceAllocation"]:
        api, seen = base.api.resource_claims, base.api.view
        dra = DraDrivers(api, base.journal, health=health, is_ours=lambda: is_ours() and seen.node is not None)
        knows_cdi = base.runtime.capabilities.knows_cdi
        claims = NodeClaims(root, dra, api, base.journal, runtime_knows_cdi=knows_cdi, extended=extended)
        claims.load()
        types[DRA] = dra
        works |= {"drivers of claimed devices": dra.run, "resource claims": claims.run}
    works["plug-ins"] = PluginRegistry(str(root / "plugins_registry"), types).run
    return PluginParts(
        devices=devices, drivers=drivers, volumes_in_use=in_use, claims=claims, health=health, works=works
    )


def claims_in_use(parts: PluginParts) -> Mapping[tuple[str, ...], float]:
    """For monitoring."""
    return {(name,): count for name, count in parts.claims.table.in_use().items()} if parts.claims else {}


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
    claims = parts.claims if base.config.feature_gates["KubeletPodResourcesDynamicResources"] else None
    return PodResources(
        folder,
        lambda: tuple(agent.handlers.usage.pods()),
        lambda: parts.devices.inventory,
        pinned,
        claims=claims.shown if claims is not None else lambda pod, container: [],
        journal=base.journal,
    )

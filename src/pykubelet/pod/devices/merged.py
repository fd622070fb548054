"""What several plug-ins want for one container, as one."""

from collections.abc import Iterable

from pykubelet.pod.ports.devices import ContainerDevices
from pykubelet.pod.ports.runtime import Device, Mount


def merged(parts: Iterable[ContainerDevices]) -> ContainerDevices:
    """Whoever says something first is believed."""
    env: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    devices: dict[str, Device] = {}
    names: dict[str, None] = {}
    for part in parts:
        env = {**part.env, **env}
        annotations = {**part.annotations, **annotations}
        mounts = {**{each.container_path: each for each in part.mounts}, **mounts}
        devices = {**{each.container_path: each for each in part.devices}, **devices}
        names |= dict.fromkeys(part.cdi_devices)
    return ContainerDevices(
        env=env,
        annotations=annotations,
        mounts=tuple(mounts.values()),
        devices=tuple(devices.values()),
        cdi_devices=tuple(names),
    )

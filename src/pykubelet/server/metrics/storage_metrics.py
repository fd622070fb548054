"""What claimed volumes and the logs of containers take, as gauges of `/metrics`."""

from collections.abc import Mapping
from typing import Final

from pykubelet.pod.stats.stats import Reading

_OF_DISK: Final = {
    "kubelet_volume_stats_capacity_bytes": "capacity",
    "kubelet_volume_stats_available_bytes": "available",
    "kubelet_volume_stats_used_bytes": "used",
    "kubelet_volume_stats_inodes": "inodes",
    "kubelet_volume_stats_inodes_free": "inodes_free",
    "kubelet_volume_stats_inodes_used": "inodes_used",
}
_HEALTH: Final = "kubelet_volume_stats_health_status_abnormal"
_LOGS: Final = "kubelet_container_log_filesystem_used_bytes"


def storage_values(reading: Reading) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    """By the name of the gauge and the values of its labels. A claim that several pods use is told once."""
    found: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in (*_OF_DISK, _HEALTH, _LOGS)}
    for pod in reading.pods:
        for volume in pod.volumes:
            for name, field in _OF_DISK.items():
                if volume.claim and (amount := getattr(volume.disk, field)) is not None:
                    found[name][pod.namespace, volume.claim] = float(amount)
            if volume.claim and volume.health is not None:
                found[_HEALTH][pod.namespace, volume.claim] = float(volume.health.is_abnormal)
        for container in pod.containers:
            if container.logs is not None and container.logs.used is not None:
                found[_LOGS][pod.uid, pod.namespace, pod.name, container.name] = float(container.logs.used)
    return found

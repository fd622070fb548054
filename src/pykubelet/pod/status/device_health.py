"""How well the devices of a pod's containers are, as part of its status."""

from collections.abc import Mapping

from pykubelet.api.pod import PodStatus, ResourceStatus
from pykubelet.api.struct import changed


def with_devices(status: PodStatus, devices: Mapping[str, tuple[ResourceStatus, ...]]) -> PodStatus:
    """`devices` is by container; of whose devices nothing is known, nothing is told."""
    if not any(each.name in devices for each in status.container_statuses):
        return status
    told = (changed(each, allocated_resources_status=devices.get(each.name, ())) for each in status.container_statuses)
    return changed(status, container_statuses=tuple(told))

"""Claims on devices (resource.k8s.io/v1), as far as a node needs them: what was allocated, and to whom."""

from pykubelet.api.meta import Object
from pykubelet.api.struct import Struct, written


class DeviceRequestAllocationResult(Struct, frozen=True):
    request: str = written(str)
    """Of the claim; one of several that would do is `request/subrequest`."""
    driver: str = written(str)
    pool: str = written(str)
    device: str = written(str)
    admin_access: bool | None = None


class DeviceAllocationResult(Struct, frozen=True):
    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(Struct, frozen=True):
    devices: DeviceAllocationResult = DeviceAllocationResult()


class ResourceClaimConsumerReference(Struct, frozen=True):
    api_group: str = ""
    resource: str = written(str)
    name: str = written(str)
    uid: str = written(str)


class ResourceClaimStatus(Struct, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()


class DeviceClaim(Object, frozen=True):
    """A ResourceClaim. What a container calls by this name (`api/container.py`) only points to one."""

    status: ResourceClaimStatus = ResourceClaimStatus()

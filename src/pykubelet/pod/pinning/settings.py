"""What people say of processors and memory that belong to one container."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from pykubelet.api.quantity import ResourceList
from pykubelet.pod.pinning.cpu_set import NO_CPUS, CpuSet
from pykubelet.pod.pinning.policy_options import CpuOptions, TopologyOptions
from pykubelet.pod.pinning.topology_policies import TopologyPolicy, TopologyScope

CpuPolicy = Literal["none", "static"]
MemoryPolicy = Literal["None", "Static"]


class PinningSettings(Struct, frozen=True, kw_only=True):
    cpu_policy: CpuPolicy = "none"
    cpu_options: CpuOptions = CpuOptions()
    reserved_cpus: CpuSet = NO_CPUS
    """Those that are kept for the system. None: as many as are reserved, chosen by the policy."""
    reconcile_period: float = 10.0
    unlimited_quota: bool = True
    """Whether containers with processors of their own may use all of their time: no quota ever stops them."""
    memory_policy: MemoryPolicy = "None"
    reserved_memory: Mapping[int, ResourceList] = {}
    """By NUMA node."""
    topology_policy: TopologyPolicy = "none"
    topology_scope: TopologyScope = "container"
    topology_options: TopologyOptions = TopologyOptions()

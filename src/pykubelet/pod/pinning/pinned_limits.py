"""What the kernel is told of a container, with its processors and its memory."""

from pykubelet.api.struct import changed
from pykubelet.pod.container.cgroup import UNLIMITED
from pykubelet.pod.pinning.cpu_set import CpuSet, format_cpu_set
from pykubelet.pod.ports.runtime import Limits


def pinned_limits(limits: Limits, cpus: CpuSet, memory_nodes: list[int], *, unlimited_quota: bool) -> Limits:
    """`unlimited_quota`: the processors are its own, and nobody else is the better for its waiting."""
    return changed(
        limits,
        cpuset_cpus=format_cpu_set(cpus),
        cpuset_mems=",".join(map(str, memory_nodes)),
        cpu_quota=UNLIMITED if unlimited_quota and limits.cpu_quota is not None else limits.cpu_quota,
    )

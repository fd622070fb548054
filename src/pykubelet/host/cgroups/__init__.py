"""The control groups of pods on this machine: found, made, filled in, taken away."""

from pykubelet.host.cgroups.groups import CgroupSettings, KernelPodCgroups, NoPodCgroups, pod_cgroups

__all__ = ["CgroupSettings", "KernelPodCgroups", "NoPodCgroups", "pod_cgroups"]

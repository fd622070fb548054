"""What a pod asks for and no part of the node enforces yet: limits on files, which nobody measures."""

from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import EPHEMERAL_STORAGE


def unenforced_storage(pod: Pod) -> tuple[str, ...]:
    """One phrase for each thing. A volume in memory is a file system of its own, and as large as it says."""
    spec = pod.spec
    limited = [
        each.name for each in (*spec.init_containers, *spec.containers) if each.resources.limits.get(EPHEMERAL_STORAGE)
    ]
    volumes = [
        each.name
        for each in spec.volumes
        if each.empty_dir is not None and each.empty_dir.size_limit and each.empty_dir.medium != "Memory"
    ]
    found = [f"ephemeral-storage limits of {', '.join(limited)}"] if limited else []
    return (*found, *([f"sizeLimit of emptyDir {', '.join(volumes)}"] if volumes else []))

"""What a pod asks for and no part of the node enforces: limits on files where nobody measures them, or of pods that are
never ended for what they write."""

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import is_critical, is_static
from pykubelet.api.rules.resources import EPHEMERAL_STORAGE


def unenforced_storage(pod: Pod, *, is_measured: bool) -> tuple[str, ...]:
    """One phrase for each thing. One in memory or huge pages is a file system by itself, as large as it says."""
    if is_measured and not is_critical(pod):
        return ()
    spec = pod.spec
    limited = [
        each.name for each in (*spec.init_containers, *spec.containers) if each.resources.limits.get(EPHEMERAL_STORAGE)
    ]
    volumes = [
        each.name
        for each in spec.volumes
        if each.empty_dir is not None and each.empty_dir.size_limit and not each.empty_dir.medium
    ]
    found = [f"ephemeral-storage limits of {', '.join(limited)}"] if limited else []
    found += [f"sizeLimit of emptyDir {', '.join(volumes)}"] if volumes else []
    if not is_measured:
        return tuple(found)
    return tuple(f"{each} ({'static' if is_static(pod) else 'critical'} pods are never evicted)" for each in found)

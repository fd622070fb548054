"""What a container sees of its pod's volumes, and where."""

import posixpath
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container, VolumeMount
from pykubelet.api.pod import Pod
from pykubelet.api.volumes import Volume
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.env import Environment, expand, references
from pykubelet.pod.container.projected_volumes import is_written_by_us
from pykubelet.pod.ports.runtime import Device, Mount

HOSTS_FILE: Final = "/etc/hosts"

_PROPAGATIONS: Final = ("None", "HostToContainer", "Bidirectional")


class VolumePart(Struct, frozen=True):
    """What a mount with a subPath shows: a place where that was made safe, or a volume and the way in it, to be opened
    by who mounts it."""

    host_path: str
    sub_path: str = ""


def used_volumes(pod: Pod) -> frozenset[str]:
    """The volumes that any container asks for. The others need not exist."""
    spec = pod.spec
    everyone = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    mounted = {mount.name for container in everyone for mount in container.volume_mounts}
    return frozenset(mounted | {device.name for container in everyone for device in container.volume_devices})


def sub_paths(container: Container, env: Environment) -> Mapping[int, str]:
    """The part of a volume that a mount is limited to, by the mount's index. Mounts of whole volumes are left out."""
    found = {index: _sub_path(mount, env) for index, mount in enumerate(container.volume_mounts)}
    return {index: path for index, path in found.items() if path}


def container_mounts(
    pod: Pod,
    container: Container,
    volume_paths: Mapping[str, str],
    *,
    sub_paths: Mapping[int, VolumePart],
    etc_hosts: str | None,
    termination_log: str | None,
    recursive_read_only: bool = False,
) -> tuple[Mount, ...]:
    """Every mount of a container, the volumes first.

    `sub_paths` are the parts of volumes that were prepared for the mounts with a subPath, by the mount's index.
    `etc_hosts` and `termination_log` are files on this machine; None mounts nothing there. `recursive_read_only`
    says whether the runtime can make what is mounted below a mount read-only too.
    """
    ours = {volume.name for volume in pod.spec.volumes if is_written_by_us(volume) or _is_read_only(volume)}
    images = {volume.name: volume.image.reference for volume in pod.spec.volumes if volume.image is not None}
    parts = [
        _part(container, index, mount, volume_paths, sub_paths) for index, mount in enumerate(container.volume_mounts)
    ]
    mounts = [
        Mount(
            host_path=part.host_path,
            image=images.get(mount.name, ""),
            sub_path=part.sub_path,
            container_path=_absolute(mount.mount_path),
            read_only=bool(mount.read_only) or mount.name in ours,
            recursive_read_only=_recursive_read_only(mount, recursive_read_only),
            propagation=_propagation(mount),
        )
        for part, mount in zip(parts, container.volume_mounts, strict=True)
    ]
    if etc_hosts is not None and all(mount.mount_path != HOSTS_FILE for mount in container.volume_mounts):
        mounts.append(Mount(host_path=etc_hosts, container_path=HOSTS_FILE))
    if termination_log is not None and container.termination_message_path:
        inside = _absolute(container.termination_message_path)
        mounts.append(Mount(host_path=termination_log, container_path=inside))
    return tuple(mounts)


def _is_read_only(volume: Volume) -> bool:
    claim = volume.persistent_volume_claim
    return volume.image is not None or (claim is not None and bool(claim.read_only))


def block_devices(pod: Pod, container: Container, volume_paths: Mapping[str, str]) -> tuple[Device, ...]:
    """The volumes that a container wants as they are, without a file system. Raises Invalid."""
    found = []
    fixed = {volume.name for volume in pod.spec.volumes if _is_read_only(volume)}
    for wanted in container.volume_devices:
        if wanted.name not in volume_paths:
            raise Invalid(f'cannot find volume "{wanted.name}" to pass into container "{container.name}"')
        rights = "r" if wanted.name in fixed else "mrw"
        path = _absolute(wanted.device_path)
        found.append(Device(host_path=volume_paths[wanted.name], container_path=path, permissions=rights))
    return tuple(found)


def _part(
    container: Container,
    index: int,
    mount: VolumeMount,
    volume_paths: Mapping[str, str],
    prepared: Mapping[int, VolumePart],
) -> VolumePart:
    if mount.name not in volume_paths:
        raise Invalid(f'cannot find volume "{mount.name}" to mount into container "{container.name}"')
    if index in prepared:
        return prepared[index]
    if mount.sub_path or mount.sub_path_expr:
        # To fall back to the whole volume would show the container what it must not see.
        raise Invalid(f'the subPath of volume "{mount.name}" for container "{container.name}" was not prepared')
    return VolumePart(volume_paths[mount.name])


def _sub_path(mount: VolumeMount, env: Environment) -> str:
    path = mount.sub_path
    if mount.sub_path_expr:
        variables = dict(env)
        empty = sorted({name for name in references(mount.sub_path_expr) if not variables.get(name)})
        if empty:
            raise Invalid(f"missing value for {', '.join(empty)}")
        path = expand(mount.sub_path_expr, variables)
    if path.startswith("/"):
        raise Invalid(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise Invalid(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def _absolute(path: str) -> str:
    return path if path.startswith("/") else posixpath.normpath(f"/{path}")


def _propagation(mount: VolumeMount) -> str:
    mode = mount.mount_propagation or "None"
    if mode not in _PROPAGATIONS:
        raise Invalid(f'invalid MountPropagation mode: "{mode}"')
    return mode


def _recursive_read_only(mount: VolumeMount, possible: bool) -> bool:
    wanted = mount.recursive_read_only or "Disabled"
    if wanted == "Disabled":
        return False
    unresolved = "failed to resolve recursive read-only mode"
    where = f'{unresolved}: volume "{mount.name}" requested recursive read-only mode'
    if not mount.read_only:
        raise Invalid(f"{where}, but it is not read-only")
    if _propagation(mount) != "None":
        raise Invalid(f'{where}, but it is not compatible with propagation "{mount.mount_propagation}"')
    match wanted:
        case "IfPossible":
            return possible
        case "Enabled" if possible:
            return True
        case "Enabled":
            raise Invalid(f"{where}, but it is not supported by the runtime")
    raise Invalid(f'{unresolved}: unknown recursive read-only mode "{wanted}"')

"""Where a container's volumes appear in it, as directories (mounts) or as block devices."""

from collections.abc import Sequence
from typing import Final

from pykubelet.api.container import Container, VolumeDevice, VolumeMount
from pykubelet.api.field_errors import forbidden, invalid, not_found
from pykubelet.api.validation.options import Errors, Scope
from pykubelet.api.validation.rules import filled, one_of, relative_path

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")


def validate_volume_mounts(container: Container, path: str, scope: Scope) -> Errors:
    devices = {device.name: device.device_path for device in container.volume_devices}
    taken: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        place = f"{path}[{index}]"
        yield from filled(f"{place}.name", mount.name)
        if mount.name not in scope.volumes:
            yield not_found(f"{place}.name", mount.name, "must name a valid volume of this pod")
        yield from filled(f"{place}.mountPath", mount.mount_path)
        if mount.mount_path in taken:
            yield invalid(f"{place}.mountPath", mount.mount_path, "must be unique: something is already mounted there")
        taken.add(mount.mount_path)
        if mount.name in devices:
            yield invalid(f"{place}.name", mount.name, "must not be in volumeDevices too")
        if mount.mount_path in devices.values():
            yield invalid(f"{place}.mountPath", mount.mount_path, "must not be the path of a volume device")
        yield from _sub_path(mount, path, place)
        yield from _propagation(mount, container, f"{path}.mountPropagation")
        yield from _recursive_read_only(mount, f"{path}.recursiveReadOnly")


def validate_volume_devices(container: Container, path: str, scope: Scope) -> Errors:
    mounts = {mount.name: mount.mount_path for mount in container.volume_mounts}
    taken_names: set[str] = set()
    taken_paths: set[str] = set()
    for index, device in enumerate(container.volume_devices):
        place = f"{path}[{index}]"
        yield from _device_name(device, f"{place}.name", taken_names, scope)
        yield from _device_path(device, f"{place}.devicePath", taken_paths)
        if device.name in mounts:
            yield invalid(f"{place}.name", device.name, "must not be in volumeMounts too")
        if device.device_path in mounts.values():
            yield invalid(f"{place}.devicePath", device.device_path, "must not be the path of a volume mount")


def validate_no_sub_paths(mounts: Sequence[VolumeMount], path: str) -> Errors:
    """An ephemeral container leaves nothing behind, as the mount of a part of a volume would."""
    for index, mount in enumerate(mounts):
        if mount.sub_path:
            yield forbidden(f"{path}[{index}].subPath", "must not be set for an ephemeral container")
        if mount.sub_path_expr:
            yield forbidden(f"{path}[{index}].subPathExpr", "must not be set for an ephemeral container")


def _sub_path(mount: VolumeMount, path: str, place: str) -> Errors:
    if mount.sub_path:
        yield from relative_path(f"{path}.subPath", mount.sub_path)
    if mount.sub_path_expr:
        if mount.sub_path:
            yield invalid(f"{place}.subPathExpr", mount.sub_path_expr, "must not be set beside subPath: choose one")
        yield from relative_path(f"{path}.subPathExpr", mount.sub_path_expr)


def _propagation(mount: VolumeMount, container: Container, field: str) -> Errors:
    if mount.mount_propagation is None:
        return
    yield from one_of(field, mount.mount_propagation, _PROPAGATIONS)
    privileged = container.security_context is not None and container.security_context.privileged
    if mount.mount_propagation == "Bidirectional" and not privileged:
        yield forbidden(field, "must not be Bidirectional unless the container is privileged")


def _recursive_read_only(mount: VolumeMount, field: str) -> Errors:
    if mount.recursive_read_only in (None, "Disabled"):
        return
    if mount.recursive_read_only in ("Enabled", "IfPossible"):
        if not mount.read_only:
            yield forbidden(field, "needs readOnly: true")
        if mount.mount_propagation not in (None, "None"):
            yield forbidden(field, "must not be set with a mountPropagation other than None")
    else:
        yield from one_of(field, mount.recursive_read_only or "", ("Disabled", "Enabled", "IfPossible"))


def _device_name(device: VolumeDevice, field: str, taken: set[str], scope: Scope) -> Errors:
    yield from filled(field, device.name)
    if device.name in taken:
        yield invalid(field, device.name, "must be unique: the volume is already a device of this container")
    volume = scope.volumes.get(device.name)
    if volume is None:
        yield not_found(field, device.name, "must name a valid volume of this pod")
    elif volume.persistent_volume_claim is None and volume.ephemeral is None:
        yield invalid(field, device.name, "must name a volume of the kind persistentVolumeClaim or ephemeral")
    if device.name:
        taken.add(device.name)


def _device_path(device: VolumeDevice, field: str, taken: set[str]) -> Errors:
    yield from filled(field, device.device_path)
    if device.device_path in taken:
        yield invalid(field, device.device_path, "must be unique: another device has this path")
    if ".." in device.device_path.split("/"):
        yield invalid(field, device.device_path, "must not contain '..'")
    else:
        taken.add(device.device_path)

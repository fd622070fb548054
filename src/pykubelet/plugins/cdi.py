"""Devices by name: files on this machine say what a container needs to use them, and that is what it gets.

For runtimes that do not read these files themselves. What a container's configuration cannot hold is refused: a device
that works by halves is worse than none.
"""

import os
import re
import stat
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.ports.devices import ContainerDevices
from pykubelet.pod.ports.runtime import Device, Mount

FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")
"""What the later ones say counts more."""
NODES: Final = "/dev/pykubelet"
"""For devices that are told by their numbers, and that the machine itself has under no name."""
_TYPES: Final = {"b": stat.S_IFBLK, "c": stat.S_IFCHR, "u": stat.S_IFCHR}
_NAME: Final = re.compile(
    r"[A-Za-z](?:[A-Za-z0-9._-]*[A-Za-z0-9])?/[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?"
    r"=[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?"
)
_LARGEST: Final = 4 << 20
_MOST_FILES: Final = 1000
_REFUSED: Final = {"hooks": "hooks", "intel_rdt": "Intel RDT", "additional_gids": "additional groups"}


class DeviceNode(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""


class MountEdit(msgspec.Struct, frozen=True, rename="camel"):
    host_path: str
    container_path: str
    options: tuple[str, ...] = ()


class Edits(msgspec.Struct, frozen=True, rename="camel"):
    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[MountEdit, ...] = ()
    hooks: tuple[Any, ...] = ()
    intel_rdt: Any = None
    additional_gids: tuple[int, ...] = msgspec.field(default=(), name="additionalGids")


class NamedDevice(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    container_edits: Edits = Edits()


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    cdi_version: str
    kind: str
    devices: tuple[NamedDevice, ...] = ()
    container_edits: Edits = Edits()


def expanded(wanted: ContainerDevices, folders: Sequence[str] = FOLDERS, nodes: str = NODES) -> ContainerDevices:
    """With what the names stand for in their place. Raises Invalid. Reads files, and makes nodes that are missing."""
    specs, faults = _specs(folders)
    found = changed(wanted, cdi_devices=())
    used: set[int] = set()
    for name in wanted.cdi_devices:
        check_device_name(name)
        kind, _, device = name.partition("=")
        owners = ((number, each) for number, spec in enumerate(specs) if spec.kind == kind for each in spec.devices)
        number, owner = max((each for each in owners if each[1].name == device), default=(-1, None), key=_number)
        if owner is None:
            told = f" ({'; '.join(faults)})" if faults else ""
            raise Invalid(f"no file in {' or '.join(folders)} says what {name} is{told}")
        if number not in used:
            used.add(number)
            found = _edited(found, specs[number].container_edits, name, nodes)
        found = _edited(found, owner.container_edits, name, nodes)
    return found


def check_device_name(name: str) -> None:
    """Raises Invalid."""
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name[:200]!r} is no name of a device: it takes vendor.com/class=name")


def _number(found: tuple[int, object]) -> int:
    return found[0]


def _edited(given: ContainerDevices, edits: Edits, name: str, nodes: str) -> ContainerDevices:
    for field, words in _REFUSED.items():
        if getattr(edits, field):
            raise Invalid(
                f"device {name} needs {words}, which only a runtime that knows CDI can do: use containerd 2.0 or later"
            )
    env = {**given.env, **dict(_variable(each, name) for each in edits.env)}
    mounts = (*given.mounts, *(_mount(each, name) for each in edits.mounts))
    devices = (*given.devices, *(_device(each, name, nodes) for each in edits.device_nodes))
    return changed(given, env=env, mounts=mounts, devices=devices)


def _variable(text: str, name: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise Invalid(f"device {name}: {text[:100]!r} is no variable: it takes NAME=value")
    return key, value


def _mount(edit: MountEdit, name: str) -> Mount:
    if not (edit.host_path.startswith("/") and edit.container_path.startswith("/")):
        raise Invalid(
            f"device {name}: a mount takes two absolute paths, not {edit.host_path!r}, {edit.container_path!r}"
        )
    propagation = "HostToContainer" if {"rslave", "slave"}.intersection(edit.options) else "None"
    return Mount(
        host_path=edit.host_path,
        container_path=edit.container_path,
        read_only="ro" in edit.options,
        propagation=propagation,
    )


def _device(node: DeviceNode, name: str, nodes: str) -> Device:
    path = node.host_path or node.path
    try:
        if (
            node.major
            and (kind := _TYPES.get(node.type))
            and not _is_node(path, kind, os.makedev(node.major, node.minor))
        ):
            path = _made_node(nodes, node, kind)
        mode = os.stat(path).st_mode
    except (OSError, OverflowError) as error:
        raise Invalid(f"device {name}: {path}: {getattr(error, 'strerror', error)}") from None
    if not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
        raise Invalid(f"device {name}: {path} is no device")
    permissions = node.permissions or "rwm"
    if not node.path.startswith("/") or not set(permissions) <= set("rwm"):
        raise Invalid(f"device {name}: {node.path!r} with the rights {permissions!r} makes no sense")
    return Device(host_path=path, container_path=node.path, permissions=permissions)


def _is_node(path: str, kind: int, numbers: int) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_IFMT(found.st_mode) == kind and found.st_rdev == numbers


def _made_node(folder: str, node: DeviceNode, kind: int) -> str:
    """Raises OSError."""
    rights = 0o666 if node.file_mode is None else node.file_mode & 0o777
    path, numbers = f"{folder}/{node.type}{node.major}-{node.minor}-{rights:o}", os.makedev(node.major, node.minor)
    if not _is_node(path, kind, numbers):
        os.makedirs(folder, 0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.mknod(path, kind | rights, numbers)
    os.chmod(path, rights)
    return path


def _specs(folders: Iterable[str]) -> tuple[list[Spec], list[str]]:
    """What could be read, and what is wrong with the rest."""
    specs, faults = [], []
    for path in (each for folder in folders for each in _files(folder)):
        try:
            specs.append(_read(path))
        except Invalid as error:
            faults.append(str(error))
    return specs, faults


def _files(folder: str) -> Collection[str]:
    try:
        names = sorted(each for each in os.listdir(folder) if each.endswith((".json", ".yaml")))
    except OSError:
        return ()
    return [f"{folder}/{name}" for name in names[:_MOST_FILES]]


def _read(path: str) -> Spec:
    """Raises Invalid."""
    try:
        with open(path, "rb") as file:
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise Invalid(f"{path} is too large")
        if path.endswith(".json"):
            return msgspec.json.decode(text, type=Spec)
        return msgspec.yaml.decode(text, type=Spec)
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise Invalid(f"{path} cannot be used: {error}") from None

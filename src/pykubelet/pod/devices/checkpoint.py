"""What is remembered of devices from one agent to the next, in the file that the Go kubelet keeps, too."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pykubelet.base.errors import Invalid
from pykubelet.base.fnv import fnv1a
from pykubelet.pod.devices.allocations import Allocation, Holder


class _Entry(msgspec.Struct, rename="pascal"):
    pod_uid: str = msgspec.field(name="PodUID")
    container_name: str
    resource_name: str
    device_ids: dict[int, list[str]] | None = msgspec.field(name="DeviceIDs")
    alloc_resp: str | None = ""


class _Data(msgspec.Struct, rename="pascal"):
    pod_device_entries: list[_Entry] | None = None
    registered_devices: dict[str, list[str] | None] | None = None


class _File(msgspec.Struct, rename="pascal"):
    data: _Data
    checksum: int


class Remembered(msgspec.Struct, frozen=True):
    held: Mapping[Holder, Allocation] = {}
    registered: Mapping[str, tuple[str, ...]] = {}
    """By resource: the devices that were well."""


def written(what: Remembered) -> bytes:
    entries = [
        _Entry(each.uid, each.container, each.resource, _lists(given.ids), b64encode(given.answer).decode())
        for each, given in sorted(what.held.items())
    ]
    data = _Data(entries, {name: sorted(ids) for name, ids in sorted(what.registered.items())})
    return msgspec.json.encode(_File(data, checksum(data)))


def read(text: bytes) -> Remembered:
    """Raises Invalid."""
    try:
        file = msgspec.json.decode(text, type=_File)
        if file.checksum != checksum(file.data):
            raise Invalid("its checksum does not fit: it was changed, or written only in part")
        held = {
            Holder(each.pod_uid, each.container_name, each.resource_name): Allocation(
                {node: tuple(ids) for node, ids in (each.device_ids or {}).items()},
                b64decode(each.alloc_resp or "", validate=True),
            )
            for each in file.data.pod_device_entries or ()
        }
    except (msgspec.MsgspecError, ValueError) as error:
        raise Invalid(str(error)) from None
    registered = {name: tuple(ids or ()) for name, ids in (file.data.registered_devices or {}).items()}
    return Remembered(held, registered)


def checksum(data: _Data) -> int:
    """Over how Go prints the value."""
    return fnv1a(_printed(data).encode())


def _printed(data: _Data) -> str:
    entries = f"[{' '.join(map(_printed_entry, data.pod_device_entries or ()))}]"
    registered = _map(data.registered_devices or {})
    return (
        "(checkpoint.checkpointData){"
        f"PodDeviceEntries:([]checkpoint.PodDevicesEntry){_or_nil(data.pod_device_entries, entries)}"
        f" RegisteredDevices:(map[string][]string){_or_nil(data.registered_devices, registered)}"
        "}"
    )


def _printed_entry(entry: _Entry) -> str:
    answer = " ".join(map(str, b64decode(entry.alloc_resp or "")))
    return (
        f"{{PodUID:(string){entry.pod_uid} ContainerName:(string){entry.container_name}"
        f" ResourceName:(string){entry.resource_name}"
        f" DeviceIDs:(checkpoint.DevicesPerNUMA){_or_nil(entry.device_ids, _map(entry.device_ids or {}))}"
        f" AllocResp:([]uint8){_or_nil(entry.alloc_resp, f'[{answer}]')}}}"
    )


def _or_nil(value: object, printed: str) -> str:
    return "<nil>" if value is None else printed


def _map(values: Mapping[Any, Iterable[str] | None]) -> str:
    members = (f"{key}:{'<nil>' if ids is None else '[' + ' '.join(ids) + ']'}" for key, ids in sorted(values.items()))
    return f"map[{' '.join(members)}]"


def _lists(ids: Mapping[int, tuple[str, ...]]) -> dict[int, list[str]]:
    return {node: list(each) for node, each in ids.items()}

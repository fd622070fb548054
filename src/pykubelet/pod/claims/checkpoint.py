"""What is remembered of claims from one agent to the next, in the file that the Go kubelet keeps, too."""

from collections.abc import Iterable
from typing import Final
from zlib import crc32

import msgspec

from pykubelet.base.errors import Invalid
from pykubelet.pod.claims.table import HeldClaim, PreparedDevice

_KIND: Final = "DRACheckpoint"
_VERSION: Final = "checkpoint.dra.kubelet.k8s.io/v1"


class _Device(msgspec.Struct, rename="pascal"):
    pool_name: str = ""
    device_name: str = ""
    request_names: list[str] | None = None
    cdi_device_ids: list[str] | None = msgspec.field(default=None, name="CDIDeviceIDs")


class _Driver(msgspec.Struct, rename="pascal"):
    devices: list[_Device] | None = None


class _Claim(msgspec.Struct, rename="pascal"):
    claim_uid: str = msgspec.field(name="ClaimUID")
    claim_name: str
    namespace: str
    pod_uids: dict[str, dict[str, object]] | None = msgspec.field(default=None, name="PodUIDs")
    driver_state: dict[str, _Driver] | None = None


class _Data(msgspec.Struct):
    kind: str
    api_version: str = msgspec.field(name="apiVersion")
    claims: list[_Claim] | None = msgspec.field(default=None, name="ClaimInfoStateList")


class _File(msgspec.Struct, rename="pascal"):
    data: str
    checksum: int


def written(claims: Iterable[HeldClaim]) -> bytes:
    entries = [
        _Claim(
            each.uid,
            each.name,
            each.namespace,
            {uid: {} for uid in sorted(each.pods)},
            {name: _Driver([_device(one) for one in found] or None) for name, found in sorted(each.drivers.items())},
        )
        for each in sorted(claims, key=lambda each: each.key)
    ]
    data = msgspec.json.encode(_Data(_KIND, _VERSION, entries))
    return msgspec.json.encode(_File(data.decode(), crc32(data)))


def _device(device: PreparedDevice) -> _Device:
    return _Device(device.pool, device.device, list(device.requests) or None, list(device.cdi_ids) or None)


def read(text: bytes) -> list[HeldClaim]:
    """Raises Invalid."""
    try:
        file = msgspec.json.decode(text, type=_File)
        if file.checksum != crc32(file.data.encode()):
            raise Invalid("its checksum does not fit: it was changed, or written only in part")
        data = msgspec.json.decode(file.data, type=_Data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Invalid(str(error)) from None
    if (data.kind, data.api_version) != (_KIND, _VERSION):
        raise Invalid(f"it is a {data.kind} of {data.api_version}: only {_VERSION} can be read")
    return [
        HeldClaim(
            namespace=each.namespace,
            name=each.claim_name,
            uid=each.claim_uid,
            pods=frozenset(each.pod_uids or ()),
            drivers={
                name: tuple(map(_read_device, one.devices or ())) for name, one in (each.driver_state or {}).items()
            },
        )
        for each in data.claims or ()
    ]


def _read_device(device: _Device) -> PreparedDevice:
    requests, ids = tuple(device.request_names or ()), tuple(device.cdi_device_ids or ())
    return PreparedDevice(device.pool_name, device.device_name, requests, ids)

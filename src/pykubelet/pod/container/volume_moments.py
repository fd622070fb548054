"""What happens to volumes, as moments of the journal (`pod/moments.py`)."""

from typing import Literal

from msgspec import Struct

VolumeOperation = Literal["volume_mount", "volume_unmount", "volume_fs_resize"]


class VolumeChanged(Struct, frozen=True, tag=True):
    """A volume was made, given back or made larger, or could not be."""

    plugin: str
    operation: VolumeOperation
    seconds: float
    error: str = ""


class DriverCalled(Struct, frozen=True, tag=True):
    """A storage driver has answered, or has not."""

    driver: str
    method: str
    code: str
    """gRPC's word for how it went, such as `OK`."""
    seconds: float

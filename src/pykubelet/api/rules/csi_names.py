"""What volumes of storage drivers are called, by nodes and by those who attach them. The names are upstream's."""

from hashlib import sha256
from typing import Final

_PREFIX: Final = "kubernetes.io/csi/"


def unique_name(driver: str, handle: str) -> str:
    """As a node's status calls a volume."""
    return f"{_PREFIX}{driver}^{handle}"


def of_unique_name(name: str) -> tuple[str, str] | None:
    """Driver and handle; None: it is no volume of a driver."""
    driver, found, handle = name.removeprefix(_PREFIX).partition("^")
    return (driver, handle) if found and name.startswith(_PREFIX) else None


def attachment_name(driver: str, handle: str, node: str) -> str:
    """Of the VolumeAttachment that a volume has for a node."""
    return _hashed(f"{handle}{driver}{node}")


def own_handle(uid: str, name: str) -> str:
    """Of a volume that comes and goes with its pod."""
    return _hashed(f"{uid}{name}")


def _hashed(text: str) -> str:
    return f"csi-{sha256(text.encode()).hexdigest()}"

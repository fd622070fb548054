"""What can be told of a runtime by what it shows: its version, and of containerd its own configuration."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import DecodeError, Struct, field, json

_MOUNTS_IMAGES: Final = {"containerd": (2, 1), "cri-o": (1, 31)}
"""Since which version."""


class _Options(Struct, frozen=True):
    systemd_cgroup: bool = field(default=False, name="SystemdCgroup")


class _Runtime(Struct, frozen=True):
    options: _Options | None = None


class _Containerd(Struct, frozen=True):
    default: str = field(default="runc", name="defaultRuntimeName")
    runtimes: Mapping[str, _Runtime] = {}


class _Config(Struct, frozen=True):
    containerd: _Containerd | None = None


def shown_cgroup_driver(info: Mapping[str, str]) -> str:
    """`systemd` or `cgroupfs`, by what its default handler was told; empty when that is not shown."""
    try:
        config = json.decode(info.get("config", "{}"), type=_Config)
    except DecodeError:
        return ""
    if config.containerd is None or config.containerd.default not in config.containerd.runtimes:
        return ""
    options = config.containerd.runtimes[config.containerd.default].options
    return "systemd" if options is not None and options.systemd_cgroup else "cgroupfs"


def image_refusal(name: str, version: str) -> str:
    """Why this runtime cannot mount images; empty when it can, or when nothing is known of it."""
    since = _MOUNTS_IMAGES.get(name)
    has = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if since is None or has >= since:
        return ""
    return f"{name} {version} cannot mount images as volumes, which {name} does from {'.'.join(map(str, since))} on"

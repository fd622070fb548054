"""What containerd shows of its own configuration, when it is asked for everything."""

from collections.abc import Mapping

from msgspec import DecodeError, Struct, field, json


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

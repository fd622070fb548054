"""The door to this runtime: makes it from settings, and finds out what this machine can limit."""

from pathlib import Path
from typing import Final

from pykubelet.api.struct import changed
from pykubelet.base.huge_pages import page_sizes
from pykubelet.pod.container.cgroup import spelled_page_size
from pykubelet.pod.ports.runtime import Runtime
from pykubelet.runtime.cri.convert import Kernel, Machine
from pykubelet.runtime.cri.runtime import CriRuntime
from pykubelet.runtime.cri.security import SecurityDefaults
from pykubelet.runtime.settings import RuntimeSettings

_CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")
_MEMORY: Final = Path("/proc/meminfo")
_PROCESSORS: Final = Path("/sys/devices/system/cpu")


def make(settings: RuntimeSettings) -> Runtime:
    """For an endpoint that is a unix socket, `unix:///run/...` or a plain path. Raises Invalid for any other."""
    security = SecurityDefaults(
        seccomp_root=str(settings.root.parent / "seccomp"),
        seccomp_default=settings.seccomp_default,
        thermal_paths=tuple(sorted(map(str, _PROCESSORS.glob("cpu[0-9]*/thermal_throttle")))),
    )
    found = kernel()
    limited = changed(
        found,
        cpu_period=round(settings.cpu_cfs_quota_period * 1_000_000) if settings.cpu_cfs_quota else 0,
        single_process_oom_kill=settings.single_process_oom_kill,
    )
    return CriRuntime(
        settings.endpoint,
        image_endpoint=settings.image_endpoint,
        machine=Machine(kernel=limited, security=security),
        deadline=settings.request_timeout,
        journal=settings.journal,
    )


def kernel() -> Kernel:
    unified = (_CONTROL_GROUPS / "cgroup.controllers").exists()
    if unified:
        swap = any(_CONTROL_GROUPS.glob("*/memory.swap.max"))
    else:
        swap = (_CONTROL_GROUPS / "memory" / "memory.memsw.limit_in_bytes").exists()
    return Kernel(unified=unified, swap=swap, huge_pages=tuple(map(spelled_page_size, page_sizes())))

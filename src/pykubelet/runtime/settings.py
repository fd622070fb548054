"""What every runtime is told, those of others included."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from pykubelet.pod.moments import Journal

ImageSource = Literal["auto", "registry", "machine"]
"""Where the embedded runtime has images from that are not here: a registry, and this machine's programs where none can
be reached; a registry alone; this machine's programs alone."""


class RuntimeSettings(Struct, frozen=True, kw_only=True):
    """What every runtime is told."""

    endpoint: str
    image_endpoint: str = ""
    """Where images are asked for; empty: of the runtime itself."""
    root: Path
    """For the runtime's own state."""
    log_root: Path
    hidden: tuple[Path, ...] = ()
    """What containers must never see, such as the agent's state with the volumes of all pods."""
    node_ips: tuple[str, ...] = ()
    seccomp_default: bool = False
    """Containers that say nothing of seccomp get the runtime's own profile."""
    cpu_cfs_quota: bool = True
    """Whether limits of processor time are enforced."""
    cpu_cfs_quota_period: float = 0.1
    """Seconds in which a container may use up its processor time."""
    images: ImageSource = "auto"
    request_timeout: float = 120.0
    """Seconds that a runtime outside of the agent may take for an answer."""
    log_max_size: int = 10 << 20
    log_max_files: int = 5
    single_process_oom_kill: bool = False
    """When a container's memory runs out, only one of its processes is killed."""
    journal: Journal | None = None
    """Where each call is noted: on the wire, or by `runtime.measured`."""

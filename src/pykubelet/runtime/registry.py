"""Which runtime an endpoint stands for. People plug in their own through the entry-point group `pykubelet.runtimes`."""

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.pod.moments import Journal
from pykubelet.pod.ports.runtime import Runtime

GROUP: Final = "pykubelet.runtimes"
EMBEDDED: Final = "process"


class RuntimeSettings(Struct, frozen=True, kw_only=True):
    """What every runtime is told."""

    endpoint: str
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
    request_timeout: float = 120.0
    """Seconds that a runtime outside of the agent may take for an answer."""
    log_max_size: int = 10 << 20
    log_max_files: int = 5
    single_process_oom_kill: bool = False
    """When a container's memory runs out, only one of its processes is killed."""
    journal: Journal | None = None
    """Where each call is noted: on the wire, or by `runtime.measured`."""


Factory = Callable[[RuntimeSettings], Runtime]


def make_runtime(settings: RuntimeSettings) -> Runtime:
    """Empty or `process`: the embedded runtime. `unix://...` or a path: a CRI runtime. `name` or `name://...`: a
    plug-in of that name. Raises Invalid."""
    name = settings.endpoint.partition("://")[0] or EMBEDDED
    if name == EMBEDDED:
        from pykubelet.runtime.process.runtime import ProcessRuntime

        return ProcessRuntime(
            settings.root,
            log_root=settings.log_root,
            log_size=settings.log_max_size,
            log_files=settings.log_max_files,
            machine_ips=settings.node_ips,
            hidden=settings.hidden,
            journal=settings.journal,
        )
    if name == "unix" or name.startswith("/"):
        from pykubelet.runtime.cri.factory import make

        return make(settings)
    plugins = {plugin.name: plugin for plugin in entry_points(group=GROUP)}
    if name not in plugins:
        there = ", ".join((EMBEDDED, "unix://SOCKET", *sorted(plugins)))
        raise Invalid(f"there is no runtime for the endpoint {settings.endpoint!r}; there are: {there}")
    factory: Factory = plugins[name].load()
    return factory(settings)

"""The table of runtimes: which one an endpoint stands for. People plug in their own through the entry-point group
`pykubelet.runtimes`."""

import logging
from collections.abc import Callable
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.pod.ports.runtime import Runtime
from pykubelet.runtime.settings import RuntimeSettings

log = logging.getLogger(__name__)

GROUP: Final = "pykubelet.runtimes"
EMBEDDED: Final = "process"


Factory = Callable[[RuntimeSettings], Runtime]


def make_runtime(settings: RuntimeSettings) -> Runtime:
    """Empty or `process`: the embedded runtime; with `process://plain` it isolates nothing. `unix://...` or a path: a
    CRI runtime. `name` or `name://...`: a plug-in of that name. Raises Invalid."""
    name, _, rest = settings.endpoint.partition("://")
    if name in ("", EMBEDDED):
        from pykubelet.runtime.process.abilities import PLAIN
        from pykubelet.runtime.process.cgroups import Cgroups
        from pykubelet.runtime.process.filters import Filters
        from pykubelet.runtime.process.runtime import ProcessRuntime

        if settings.image_endpoint:
            log.warning("imageServiceEndpoint has no effect: the embedded runtime sees to that itself")
        if rest and settings.endpoint != PLAIN:
            raise Invalid(f"the embedded runtime is {EMBEDDED} or {PLAIN}, not {settings.endpoint!r}")
        return ProcessRuntime(
            settings.root,
            log_root=settings.log_root,
            log_size=settings.log_max_size,
            log_files=settings.log_max_files,
            machine_ips=settings.node_ips,
            images=settings.images,
            hidden=settings.hidden,
            isolated=settings.endpoint != PLAIN,
            filters=Filters(folder=settings.root.parent / "seccomp", by_default=settings.seccomp_default),
            journal=settings.journal,
            cgroups=partial(Cgroups, single_process_oom_kill=settings.single_process_oom_kill),
        )
    if name == "unix" or name.startswith("/"):
        from pykubelet.runtime.cri.factory import make

        return make(settings)
    factory: Factory = plugin(settings.endpoint).load()
    return factory(settings)


def plugin(endpoint: str) -> EntryPoint:
    """Of an endpoint that is neither ours nor a socket. Raises Invalid."""
    plugins = {each.name: each for each in entry_points(group=GROUP)}
    name = endpoint.partition("://")[0]
    if name not in plugins:
        there = ", ".join((EMBEDDED, "unix://SOCKET", *sorted(plugins)))
        raise Invalid(f"there is no runtime for the endpoint {endpoint!r}; there are: {there}")
    return plugins[name]

"""Where the containers of the embedded runtime are: the processes below their monitors, and what groups they have."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.stats.stats import ImageStore, Place
from pykubelet.runtime.process.table import Table

_CONTROLLERS: Final = {"cpu", "devices", "memory"}
"""What is not counted by these is by the processes themselves."""


class ProcessPlaces:
    """Every container has a monitor that all of its processes are below. Groups count only some of what it uses, or
    nothing at all for an ordinary user; sandboxes share the machine's network, so there is nothing to see in them.

    `has_layers` says whether what containers write is apart from what their images brought."""

    def __init__(self, table: Table, has_layers: Callable[[], bool]) -> None:
        self._table = table
        self._has_layers = has_layers

    async def places(self, pods: Sequence[ObservedPod], *, details: bool) -> Mapping[str, Place]:
        found = {}
        layers = self._table.store.containers if self._has_layers() else None
        for container in self._table.containers.values():
            if container.run is not None and container.end is None:
                folders = container.record.placement.folders
                found[container.id] = Place(
                    pid=container.run.main.pid,
                    tree=container.run.monitor.pid,
                    cgroups=by_controller(folders),
                    layer=str(layers / container.id) if layers else "",
                )
        return found

    async def images(self) -> ImageStore | None:
        return ImageStore(path=str(self._table.store.containers))


def by_controller(folders: Sequence[str]) -> dict[str, str]:
    """A placement has one folder of version 2, or one in each tree of version 1, below mount points that carry the
    names of their controllers."""
    found: dict[str, str] = {}
    for folder in folders:
        parts = folder.split("/")
        names = [part for part in parts if _CONTROLLERS & set(part.split(","))]
        for name in names[0].split(",") if names else [""] if len(folders) == 1 else []:
            found[name] = folder
    return found

"""How long pods take to start, in the way that the pod-startup SLI counts: from the pod's creation until its containers
are reported to run, with and without what the cluster is not to blame for, image pulls and init containers."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.pod.moments import Exited, Watched

_STATELESS: Final = ("secret", "config_map", "downward_api", "empty_dir", "projected")


class Start(NamedTuple):
    total: float
    sli: float | None
    """Without pulls and init containers; None for a stateful pod, which the SLI does not count."""
    has_own_network: bool


class _Tracked:
    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.pulls: list[tuple[datetime, datetime]] = []
        self.pulling: list[datetime] = []
        self.inits: dict[str, timedelta] = {}
        """By init container: how long its last attempt took."""


class PodStarts:
    """The pods that are starting. One that was not seen from the beginning is not counted, nor is any counted twice."""

    def __init__(self) -> None:
        self._tracked: dict[str, _Tracked] = {}

    def __len__(self) -> int:
        return len(self._tracked)

    def watch(self, uid: str, watched: Watched) -> None:
        self._tracked.setdefault(uid, _Tracked(watched))

    def forget(self, uid: str) -> None:
        self._tracked.pop(uid, None)

    def pull_began(self, uid: str, at: datetime) -> None:
        if (tracked := self._tracked.get(uid)) is not None:
            tracked.pulling.append(at)

    def pull_ended(self, uid: str, at: datetime) -> None:
        tracked = self._tracked.get(uid)
        if tracked is not None and tracked.pulling:
            tracked.pulls.append((tracked.pulling.pop(0), at))

    def exited(self, uid: str, exited: Exited) -> None:
        tracked = self._tracked.get(uid)
        if tracked is None or exited.container not in tracked.watched.init_containers:
            return
        if exited.started_at is not None and exited.finished_at is not None:
            tracked.inits[exited.container] = exited.finished_at - exited.started_at

    def started(self, uid: str, at: datetime) -> Start | None:
        """The API server knows that all containers run. -> how long the start took, if this was it."""
        tracked = self._tracked.pop(uid, None)
        if tracked is None or tracked.watched.created_at is None:
            return None
        total = at - tracked.watched.created_at
        excused = _covered(tracked.pulls) + sum(tracked.inits.values(), timedelta())
        sli = None if tracked.watched.is_stateful else max((total - excused).total_seconds(), 0.0)
        return Start(total.total_seconds(), sli, tracked.watched.has_own_network)


def watched(pod: Pod) -> Watched:
    """What the start of a pod is judged by."""
    spec = pod.spec
    return Watched(
        created_at=pod.metadata.creation_timestamp,
        is_stateful=is_stateful(pod),
        has_own_network=not spec.host_network,
        init_containers=tuple(container.name for container in spec.init_containers if not is_sidecar(container)),
    )


def is_stateful(pod: Pod) -> bool:
    """Whether it mounts anything that others may have to bring first."""
    return any(all(getattr(volume, source, None) is None for source in _STATELESS) for volume in pod.spec.volumes)


def has_started(status: PodStatus) -> bool:
    """Whether all containers run."""
    running = [container.state.running for container in status.container_statuses]
    return bool(running) and all(each is not None and each.started_at is not None for each in running)


def running_since(status: PodStatus) -> datetime | None:
    """When the first of its running containers has started."""
    running = (each.state.running.started_at for each in status.container_statuses if each.state.running is not None)
    return min((moment for moment in running if moment is not None), default=None)


def _covered(spans: Iterable[tuple[datetime, datetime]]) -> timedelta:
    """The time that was spent on any of them; what overlaps counts once."""
    whole, until = timedelta(), None
    for begin, end in sorted(spans):
        if until is not None and begin < until:
            begin = until
        if end > begin:
            whole, until = whole + (end - begin), end
    return whole

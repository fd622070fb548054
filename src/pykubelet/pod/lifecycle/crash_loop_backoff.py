"""Whether an ended container is started again, and how long a container that keeps failing has to wait for it.

The wait protects the node from a container that fails as soon as it starts; the first restart costs nothing, because
most failures happen once.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.api.rules.pod_kinds import shown_pod
from pykubelet.api.rules.restarts import restarts_after
from pykubelet.api.struct import changed
from pykubelet.pod.container.hash import container_hash
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State


class RestartWaits(Struct, frozen=True, kw_only=True):
    """Seconds that a container waits which keeps failing."""

    first: float = 10.0
    longest: float = 300.0

    @property
    def forgotten_after(self) -> timedelta:
        """A container that has stayed up for so long begins anew."""
        return timedelta(seconds=2 * self.longest)


def restarts_on_failure(pod: Pod) -> bool:
    """Whether a failure inside of the pod is something to recover from, or its end."""
    return pod.spec.restart_policy != "Never"


def should_restart(pod: Pod, container: Container, newest: ObservedContainer | None) -> bool:
    """Whether a container shall be started (again), given its latest attempt.

    Only an end that was seen is judged by the restart policy: what never got beyond `created`, or was lost sight of,
    has not had its chance.
    """
    if pod.metadata.deletion_timestamp is not None:
        return False
    if newest is None:
        return True
    match newest.state:
        case State.RUNNING:
            return False
        case State.UNKNOWN | State.CREATED:
            return True
        case State.EXITED:
            return restarts_after(pod.spec, container, newest.exit_code)


def last_exit(observed: ObservedPod, name: str) -> ObservedContainer | None:
    """The attempt whose end the wait is counted from. None: it has never ended, so nothing holds the next start."""
    return next((attempt for attempt in observed.attempts(name) if attempt.state is State.EXITED), None)


class _Loop(Struct, frozen=True):
    wait: float
    restarted_at: datetime


class CrashLoops(Struct, frozen=True):
    """How often the containers of one pod have been restarted lately: a value, which the pod's worker keeps."""

    waits: RestartWaits = RestartWaits()
    loops: Mapping[str, _Loop] = {}
    failed_starts: Mapping[str, datetime] = {}
    """Of containers that have not been started since: a runtime need not show an end of what never ran."""

    def last_end(self, key: str, finished_at: datetime | None) -> datetime | None:
        """The later of the last end that was seen and the last start that failed."""
        return max(filter(None, (finished_at, self.failed_starts.get(key))), default=None)

    def failed(self, key: str, now: datetime) -> "CrashLoops":
        """A container could not be started, which counts as an end: its own removal would wake its pod at once."""
        return changed(self, failed_starts={**self.failed_starts, key: now})

    def wait(self, key: str, finished_at: datetime | None, now: datetime) -> float:
        """Seconds until a container that ended at `finished_at` may start again. 0: it may start now."""
        loop = self.loops.get(key)
        if loop is None or finished_at is None:
            return 0.0
        allowed_at = min(finished_at + timedelta(seconds=loop.wait), loop.restarted_at + self.waits.forgotten_after)
        # A clock that was set back must not make anybody wait longer than the longest.
        return min(max((allowed_at - now).total_seconds(), 0.0), loop.wait)

    def length(self, key: str) -> float:
        """The whole of the present wait, as people are told it."""
        loop = self.loops.get(key)
        return loop.wait if loop else 0.0

    def started(self, key: str, finished_at: datetime | None, now: datetime) -> "CrashLoops":
        """A container that had ended at `finished_at` is being started again: should it end once more, it waits longer.

        A container that has stayed up for long enough begins anew, and is no longer remembered.
        """
        limit = self.waits.forgotten_after
        remembered = {each: loop for each, loop in self.loops.items() if now - loop.restarted_at < limit}
        if finished_at is not None:
            before = remembered.get(key)
            wait = min(before.wait * 2, self.waits.longest) if before else self.waits.first
            remembered[key] = _Loop(wait, now)
        return CrashLoops(self.waits, remembered, {each: at for each, at in self.failed_starts.items() if each != key})


def crash_loop_key(container: Container) -> str:
    """Who is waiting. A container that its author has changed is another one, and deserves a fresh chance."""
    resources = container.resources
    return f"{container.name}/{container_hash(container)}/{_text(resources.requests)}/{_text(resources.limits)}"


def _text(resources: ResourceList) -> str:
    return ",".join(sorted(f"{name}={amount.nanos}" for name, amount in resources.items()))


def crash_loop_message(pod: Pod, name: str, length: float) -> str:
    """What the status says of a waiting container, word for word as every Kubernetes node says it."""
    return f"back-off {_duration(length)} restarting failed container={name} pod={shown_pod(pod)}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"

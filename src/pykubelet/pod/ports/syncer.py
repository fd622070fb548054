"""Where pods come from, and how one is made to run, as contracts."""

from collections.abc import AsyncGenerator
from typing import Protocol

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed
from pykubelet.pod.observed import ObservedPod


class PodSource(Protocol):
    """Where pods come from."""

    def watch(self) -> AsyncGenerator[Listed | Applied | Gone, None]:
        """What there is, then every change.

        The first event is a Listed. The stream is endless and recovers by itself from whatever may happen outside: bad
        input and lost connections are reported in the log and take no pod away. It may be called again after it broke
        or was closed, one call at a time. The pods are values; nobody owns them.
        """
        ...


class Synced(Struct, frozen=True, kw_only=True):
    """What came of one sync."""

    ended: bool = False
    """The pod has run to its end, for good."""
    again_in: float | None = None
    """Seconds after which something is due, such as the next try of a crashing container."""


class PodReports(Protocol):
    """How a Syncer tells what has become of its pods: their status follows from what was seen. No method waits."""

    def saw(self, pod: Pod, observed: ObservedPod) -> None:
        """The pod has been looked at. To be said at each sync, and whenever something has changed."""
        ...

    def report_end(self, pod: Pod, observed: ObservedPod) -> None:
        """The last word on a pod that has been stopped: to be said by `release`."""
        ...

    def has_ended(self, uid: str) -> bool:
        """Whether the last word on the pod is that it has Succeeded or Failed: then a sync has `ended`."""
        ...


class Syncer(Protocol):
    """How one pod is made to run: the plug for people who run pods somewhere else. Calls for one pod never overlap.

    Every method may be called again after it failed, was cancelled, or succeeded: it looks at what is there and does
    what is missing. Failures are raised (base.errors) and tried again with back-off.
    """

    async def sync(self, pod: Pod) -> Synced:
        """Bring the pod as close as can be to what its spec asks for."""
        ...

    async def stop(self, pod: Pod, grace: float) -> None:
        """End all of its containers within `grace` seconds. Returns when none runs any more."""
        ...

    async def release(self, pod: Pod) -> None:
        """Give back what the stopped pod held while it ran: volumes, cgroups, names. Logs and dead containers stay."""
        ...

    async def remove(self, uid: str) -> None:
        """Nobody knows the pod any more: forget what is left of it, dead containers, logs and folders."""
        ...

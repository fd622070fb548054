"""Image back-off: how long a pod has to wait before it tries again to pull an image that could not be pulled.

Images wait like containers that crash, pod by pod, so that one pod's bad image costs the others nothing.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from pykubelet.pod.lifecycle.crash_loop_backoff import CrashLoops


class PullFailure(Struct, frozen=True):
    at: datetime
    why: str


class ImageBackoff(Struct, frozen=True):
    """Of one pod: a value."""

    loops: CrashLoops = CrashLoops()
    failures: Mapping[str, PullFailure] = {}
    """By image: the last pull, when it failed."""

    def wait(self, image: str, now: datetime) -> float:
        """Seconds until it may be tried again. 0: now."""
        failure = self.failures.get(image)
        return self.loops.wait(image, failure.at if failure else None, now)

    def length(self, image: str) -> float:
        """The whole of the present wait."""
        return self.loops.length(image)

    def failed(self, image: str, why: str, now: datetime) -> "ImageBackoff":
        failures = {**self.failures, image: PullFailure(now, why)}
        return ImageBackoff(self.loops.started(image, now, now), failures)

    def pulled(self, image: str) -> "ImageBackoff":
        """Should it fail again soon, the wait goes on growing from where it was."""
        return ImageBackoff(self.loops, {name: why for name, why in self.failures.items() if name != image})

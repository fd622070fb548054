"""How long a job waits before it makes another pod for one that failed: 10 s, twice as long each time, 10 min at most.

Pure. What is remembered is lost with the server, and then a pod may come a little sooner.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from pykubelet.apiserver.controllers.batch.job_pods import JobPod

_FIRST: Final = 10.0
_MOST: Final = 600.0


class Failures(Struct, frozen=True):
    """Those since the last success."""

    count: int = 0
    last: datetime | None = None


def failures(before: Failures, succeeded: Sequence[JobPod], failed: Sequence[JobPod]) -> Failures:
    """With the pods that have ended since."""
    times = sorted(pod.finished for pod in failed)
    if not succeeded:
        return Failures(before.count + len(times), times[-1]) if times else before
    success = max(pod.finished for pod in succeeded)
    later = [time for time in times if time > success]
    return Failures(len(later), later[-1]) if later else Failures()


def remaining(since: Failures, now: datetime) -> float:
    """Seconds until another pod may be made."""
    if not since.count or since.last is None:
        return 0.0
    wait: float = min(_MOST, _FIRST * 2 ** min(since.count - 1, 16))
    return max(0.0, wait - (now - since.last).total_seconds())


def remaining_of_index(last: JobPod | None, now: datetime) -> float:
    """The same of one index, whose last pod to fail carries how many failed before it."""
    if last is None:
        return 0.0
    return remaining(Failures(last.failures + last.ignored + 1, last.finished), now)

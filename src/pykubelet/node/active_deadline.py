"""Active deadlines: a pod that has been active on the node for longer than its spec allows is ended."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.node.pod_reporter import PodReporter
from pykubelet.node.status_manager import StatusManager
from pykubelet.pod.moments import DeadlinePassed, Journal, about
from pykubelet.pod.ports.api import Recorder
from pykubelet.pod.status.pod_status import Failure

_EXCEEDED: Final = Failure("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


class ActiveDeadlines:
    """No method waits."""

    def __init__(
        self,
        statuses: StatusManager,
        reporter: PodReporter,
        recorder: Recorder,
        journal: Journal,
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._statuses = statuses
        self._reporter = reporter
        self._recorder = recorder
        self._journal = journal
        self._now = now

    def has_passed(self, pod: Pod) -> bool:
        left = self._seconds_left(pod)
        return left is not None and left <= 0

    def enforce(self, pod: Pod) -> float | None:
        """A pod whose deadline has passed has failed from now on. -> the seconds that another one still has; None: any
        number."""
        if not self.has_passed(pod):
            return self._seconds_left(pod)
        self._journal.note(DeadlinePassed(), about(pod))
        self._reporter.note_failure(pod.metadata.uid, _EXCEEDED)
        self._recorder.event(pod, "Normal", _EXCEEDED.reason, _EXCEEDED.message)
        self._reporter.report(pod)
        return None

    def _seconds_left(self, pod: Pod) -> float | None:
        """None when it has no deadline, or has not begun."""
        limit, status = pod.spec.active_deadline_seconds, self._statuses.get(pod.metadata.uid)
        started = status.start_time if status else pod.status.start_time
        return None if limit is None or started is None else limit - (self._now() - started).total_seconds()

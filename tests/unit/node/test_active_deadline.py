"""How long a pod may be active."""

from datetime import UTC, datetime, timedelta

import pytest

from kit.node import Events
from kit.pods import make_pod
from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.struct import changed
from pykubelet.node.active_deadline import ActiveDeadlines
from pykubelet.node.pod_reporter import PodReporter
from pykubelet.node.status_manager import StatusManager
from pykubelet.pod.moments import DeadlinePassed, Journal
from pykubelet.pod.status.pod_status import Failure

START = datetime(2026, 1, 1, tzinfo=UTC)


class Reporter(PodReporter):
    def __init__(self) -> None:
        self.told: list[object] = []

    def note_failure(self, uid: str, failure: Failure) -> None:
        self.told.append((uid, failure.reason))

    def report(self, pod: Pod) -> None:
        self.told.append(pod.metadata.uid)


class Node:
    def __init__(self) -> None:
        self.now = START
        self.events, self.journal = Events(), Journal(now=lambda: self.now)
        self.statuses = StatusManager(None)
        self.reporter = Reporter()
        self.deadlines = ActiveDeadlines(self.statuses, self.reporter, self.events, self.journal, now=lambda: self.now)


@pytest.fixture
def node() -> Node:
    return Node()


def pod(seconds: int | None, started: datetime | None = None) -> Pod:
    made = make_pod("web")
    return changed(made, spec=changed(made.spec, active_deadline_seconds=seconds), status=PodStatus(start_time=started))


def test_a_pod_without_a_deadline_or_that_has_not_begun_has_all_the_time(node: Node) -> None:
    for each in (pod(None, START), pod(30)):
        assert node.deadlines.enforce(each) is None
        assert not node.deadlines.has_passed(each)
    assert node.reporter.told == []


def test_the_time_counts_from_what_this_node_has_said_of_the_start(node: Node) -> None:
    web = pod(30, START - timedelta(hours=1))
    node.statuses.set(web, PodStatus(start_time=START - timedelta(seconds=10)))
    assert node.deadlines.enforce(web) == 20


def test_a_pod_whose_deadline_has_passed_has_failed(node: Node) -> None:
    web = pod(30, START)
    node.now = START + timedelta(seconds=30)
    assert node.deadlines.has_passed(web)
    assert node.deadlines.enforce(web) is None
    assert node.reporter.told == [("uid-web", "DeadlineExceeded"), "uid-web"]
    assert node.events.reasons("web") == ["DeadlineExceeded"]
    assert [noted.moment for noted in node.journal.of("uid-web")] == [DeadlinePassed()]

"""What the node has to do without, from what its calls have answered."""

from datetime import timedelta

from kit.moments import AT
from pykubelet.base.journal import About, Noted
from pykubelet.node.node_trouble import NodeTroubles
from pykubelet.pod import moments as m
from pykubelet.pod.story.diagnosis import NodeTrouble


def read(*moments: m.Moment) -> NodeTrouble:
    troubles = NodeTroubles()
    for second, moment in enumerate(moments):
        troubles.read(Noted(AT + timedelta(seconds=second), About(), moment))
    return troubles.now()


def test_a_runtime_is_down_since_its_first_call_without_an_answer() -> None:
    failed = m.RuntimeCalled("ListPodSandbox", 0.1, "the runtime does not answer: connection refused")
    found = read(m.RuntimeCalled("Status", 0.1), failed, failed)
    assert (found.runtime, found.runtime_since) == (
        "the runtime does not answer: connection refused",
        AT + timedelta(seconds=1),
    )
    assert read(failed, m.RuntimeCalled("Status", 0.1)) == NodeTrouble()


def test_a_call_that_is_refused_is_an_answer() -> None:
    assert read(m.RuntimeCalled("PullImage", 0.1, "dial tcp 10.0.0.1:443: connection refused")) == NodeTrouble()


def test_an_api_server_is_away_until_it_answers_anything() -> None:
    away = m.ApiAnswered("GET", "10.0.0.1:6443", "<error>")
    found = read(away, away)
    assert (found.api, found.api_since) == ("10.0.0.1:6443 does not answer", AT)
    assert read(away) == NodeTrouble(), "one request may have been given up"
    assert read(away, away, m.ApiAnswered("GET", "10.0.0.1:6443", "500")) == NodeTrouble()

"""What is kept of a pod's life, however long it is."""

from datetime import UTC, datetime, timedelta

import pytest

from kit.moments import AT, one_of_each
from pykubelet.base.journal import About
from pykubelet.pod import moments as m
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.lifecycle.pod_update import Op
from pykubelet.pod.lifecycle.probe_results import Result

WEB = About("u1", "default", "web")


def journal_of(*moments: m.Moment) -> m.Journal:
    journal = m.Journal(rule, now=lambda: datetime.now(UTC))
    for moment in moments:
        journal.note(moment, WEB)
    return journal


def kept(*moments: m.Moment) -> list[tuple[m.Moment, int]]:
    return [(noted.moment, noted.times) for noted in journal_of(*moments).of("u1")]


def test_there_is_a_rule_for_each_moment() -> None:
    for error in ("", "why"):
        for moment in one_of_each(error=error):
            assert rule(moment).about is not None or not rule(moment).opens


def test_a_step_that_goes_well_leaves_no_trace() -> None:
    assert kept(m.StepBegun("look"), m.StepEnded("look", 0.001)) == []
    assert kept(m.StepBegun("look")) == [(m.StepBegun("look"), 1)]


def test_a_step_that_took_long_or_failed_does() -> None:
    slow, failed = m.StepEnded("volumes", 30.0), m.StepEnded("volumes", 0.01, "no such volume")
    assert kept(m.StepBegun("volumes"), slow, m.StepBegun("volumes"), slow) == [(slow, 2)]
    again: list[m.Moment] = [m.StepBegun("volumes"), failed]
    assert kept(*again * 5) == [(failed, 5)]


def test_a_resync_that_changed_nothing_is_folded_away() -> None:
    create, sync = m.WorkEnded("create", 0.01), m.WorkEnded("sync", 0.01)
    again: list[m.Moment] = [m.WorkBegun("sync"), sync]
    assert kept(m.WorkBegun("create"), create, *again * 3) == [(create, 1)]
    assert kept(m.WorkEnded("sync", 0.01, "no"), sync, m.WorkEnded("sync", 0.01, "no")) == [
        *((m.WorkEnded("sync", 0.01, "no"), 1), (m.WorkEnded("sync", 0.01, "no"), 1))
    ]


def test_probes_are_kept_when_their_result_changes() -> None:
    good, bad = (m.Probed("readiness", "c", result, 0.1) for result in (Result.SUCCESS, Result.FAILURE))
    assert kept(good, good, bad, bad, bad, good) == [(good, 2), (bad, 3), (good, 1)]


def test_calls_of_the_runtime_are_kept_when_they_fail() -> None:
    good, bad = m.RuntimeCalled("RunPodSandbox", 0.1), m.RuntimeCalled("RunPodSandbox", 0.1, "no")
    assert kept(good, bad, bad, good) == [(bad, 2)]


def test_a_pull_is_there_while_it_goes_on_and_then_how_it_ended() -> None:
    begun, going_on, ended = m.PullBegun("a"), m.PullProgressed("a", 10.0), m.PullEnded("a", 12.0, bytes=5)
    assert kept(begun) == [(begun, 1)]
    assert kept(begun, going_on) == [(going_on, 1)]
    assert kept(begun, going_on, ended) == [(ended, 1)]


def test_what_is_waited_for_is_kept_once() -> None:
    waits, other = m.Awaiting("configmap", "settings", "not found"), m.Awaiting("configmap", "other", "not found")
    assert kept(waits, waits, waits, other) == [(waits, 3), (other, 1)]
    until = m.BackedOff("c", AT)
    assert kept(until, until, m.BackedOff("c", AT + timedelta(seconds=10))) == [
        *((until, 2), (m.BackedOff("c", AT + timedelta(seconds=10)), 1))
    ]


@pytest.mark.parametrize("days", [1, 7])
def test_a_pod_that_has_run_for_long_still_has_its_start_and_its_last_troubles(days: int) -> None:
    start: list[m.Moment] = [
        *(m.Merged(Op.ADD, "api"), m.Admitted(False), m.PhaseEntered(m.Phase.RUNNING), m.WorkEnded("create", 2.0)),
        *(m.PullEnded("a", 1.5), m.SandboxMade(0, "", False, 0.2), m.ContainerStarted("c", "container", 0)),
    ]
    trouble: list[m.Moment] = [m.Exited("c", 0, 137, "OOMKilled", AT, AT), m.ContainerStarted("c", "container", 1)]
    an_hour: list[m.Moment] = []
    for _ in range(60):
        an_hour += [m.WorkBegun("sync"), m.StepBegun("look"), m.RuntimeCalled("PodSandboxStatus", 0.001)]
        an_hour += [m.StepEnded("look", 0.001), m.WorkEnded("sync", 0.002), m.StatusAcknowledged(0.01)]
        an_hour += [m.Probed("liveness", "c", Result.SUCCESS, 0.001)] * 6
    journal = journal_of(*start)
    for _ in range(days * 24):
        for moment in an_hour:
            journal.note(moment, WEB)
    for moment in trouble:
        journal.note(moment, WEB)
    found = [noted.moment for noted in journal.of("u1")]
    assert found[: len(start)] == start
    assert found[-len(trouble) :] == trouble
    assert len(found) <= len(start) + len(trouble) + 2


def test_probes_that_fail_in_ever_new_words_do_not_push_everything_else_out() -> None:
    life = [m.ContainerStarted(f"c{number}", "container", 0) for number in range(90)]
    sick: list[m.Moment] = []
    for number in range(500):
        for kind in ("Readiness", "Liveness"):
            sick.append(m.EventRecorded("Warning", "Unhealthy", f"{kind} probe failed: it is now {number} o'clock"))
        for name in ("a", "b"):
            sick.append(m.EventRecorded("Warning", "BackOff", f"Back-off restarting failed container {name}"))
    found = kept(*life, *sick)
    assert [moment for moment, _ in found[:90]] == life
    assert [(moment, times) for moment, times in found[90:]] == [(each, 500) for each in sick[-4:]]


def test_a_month_of_pods_that_come_and_go_leaves_few_of_them() -> None:
    journal = m.Journal(rule)
    for number in range(1000):
        whose = About(f"u{number}", "default", f"p{number}")
        for phase in (m.Phase.RUNNING, m.Phase.REMOVING, m.Phase.GONE):
            journal.note(m.PhaseEntered(phase), whose)
    left = [number for number in range(1000) if journal.of(f"u{number}")]
    assert left == list(range(900, 1000))

import logging

import pytest

from kit.pods import make_pod
from pykubelet.node.log_recorder import LogRecorder
from pykubelet.pod.moments import LONGEST_MESSAGE, EventRecorded, Journal
from pykubelet.pod.ports.api import Recorder


def test_an_event_goes_to_the_log_and_the_journal(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    journal = Journal()
    recorder: Recorder = LogRecorder("n1", journal=journal)
    recorder.event(make_pod(), "Normal", "Pulled", "image is here")
    recorder.event(make_pod(), "Warning", "BackOff", "crashes")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "default/web: Pulled: image is here"),
        ("WARNING", "default/web: BackOff: crashes"),
    ]
    assert [(str(each.about), each.moment) for each in journal.of("uid-web")] == [
        ("default/web", EventRecorded("Normal", "Pulled", "image is here")),
        ("default/web", EventRecorded("Warning", "BackOff", "crashes")),
    ]


def test_the_node_and_the_parts_of_a_pod_are_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    recorder = LogRecorder("n1")
    recorder.node_event("Normal", "Starting", "Starting kubelet.")
    recorder.event(make_pod(), "Normal", "Started", "started", field_path="spec.containers{c}")
    assert [record.getMessage() for record in caplog.records] == [
        "node n1: Starting: Starting kubelet.",
        "default/web spec.containers{c}: Started: started",
    ]


def test_of_what_a_probe_says_at_length_the_journal_keeps_the_beginning() -> None:
    journal = Journal()
    LogRecorder("n1", journal=journal).event(make_pod(), "Warning", "Unhealthy", "x" * 10_000)
    assert journal.of("uid-web")[0].moment == EventRecorded("Warning", "Unhealthy", "x" * LONGEST_MESSAGE)

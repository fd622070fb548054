"""Rows: what a list of pods, of containers, of events and of probes shows, from statuses and moments."""

from datetime import timedelta

from kit.node import make_node
from pykubelet.api.pod import Pod
from pykubelet.pod import moments as m
from pykubelet.pod.lifecycle.probe_results import Result
from pykubelet.pod.story.diagnosis import NodeTrouble
from pykubelet.pod.story.story import story
from pykubelet.server.page.node_state import PodRow, event_rows, node_row, pod_row, probe_rows
from unit.pod.story.broken_pods import NOW, RUNNING, crashing, noted, one_status, pod


def row(of: Pod) -> PodRow:
    return pod_row(of, story(of, (), now=NOW))


def test_a_pod_in_a_crash_loop_says_so_in_one_word_and_in_a_sentence() -> None:
    found = row(pod(status=crashing(7)))
    assert (found.reason, found.ready, found.total, found.restarts) == ("CrashLoopBackOff", 0, 1, 3)
    assert (found.state, found.is_well) == ("Failing", False)
    assert "with code 7" in found.sentence
    (container,) = found.containers
    assert (container.state, container.reason, container.exit_code) == ("waiting", "CrashLoopBackOff", 7)


def test_init_containers_and_sidecars_are_told_apart() -> None:
    init = [{"name": "prepare", "image": "i"}, {"name": "proxy", "image": "p", "restartPolicy": "Always"}]
    found = row(pod(status={"phase": "Running", "containerStatuses": one_status(RUNNING)}, initContainers=init))
    assert [(each.name, each.kind) for each in found.containers] == [
        ("prepare", "init"),
        ("proxy", "sidecar"),
        ("app", "container"),
    ]
    assert [each.state for each in found.containers] == ["waiting", "waiting", "running"]


def test_limits_are_those_of_all_that_run_side_by_side_and_none_when_one_has_none() -> None:
    limits = {"resources": {"limits": {"cpu": "250m", "memory": "64Mi"}}}
    alone = row(pod(container=limits, initContainers=[{"name": "prepare", "image": "i"}]))
    assert (alone.cpu_limit, alone.memory_limit) == (0.25, 64 << 20)
    sidecar = {"name": "proxy", "image": "p", "restartPolicy": "Always"}
    assert row(pod(container=limits, initContainers=[sidecar])).memory_limit is None
    both = row(pod(container=limits, initContainers=[{**sidecar, **limits}]))
    assert (both.cpu_limit, both.memory_limit) == (0.5, 128 << 20)


def test_events_come_newest_first_and_are_counted() -> None:
    pulled, failed = m.EventRecorded("Normal", "Pulled", "p"), m.EventRecorded("Warning", "BackOff", "b")
    again = noted(failed, 60)._replace(times=4, until=NOW)
    found = event_rows([noted(pulled, 30), again, noted(m.Admitted(False), 5)])
    assert [(each.reason, each.times, each.kind) for each in found] == [
        ("BackOff", 4, "Warning"),
        ("Pulled", 1, "Normal"),
    ]
    assert (found[0].at, found[0].first_at) == (NOW, NOW - timedelta(seconds=60))


def test_a_probe_says_what_it_asks_and_what_came_of_it() -> None:
    probes = {
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
        "livenessProbe": {"exec": {"command": ["cat", "/tmp/ok"]}, "failureThreshold": 2},
        "startupProbe": {"tcpSocket": {"port": "web"}},
    }
    failed = noted(m.Probed("readiness", "app", Result.FAILURE, 0.25), 40)._replace(times=3, until=NOW)
    startup, readiness, liveness = probe_rows(pod(container=probes), [failed])
    assert (startup.asks, startup.result, startup.at) == ("TCP to port web", "", None)
    assert (readiness.asks, readiness.period) == ("HTTP GET /ready on port 8080", 5)
    assert (readiness.result, readiness.times, readiness.seconds, readiness.at) == ("Failure", 3, 0.25, NOW)
    assert (liveness.asks, liveness.failure_threshold) == ("cat /tmp/ok", 2)


def test_a_node_that_nobody_knows_yet_has_a_name() -> None:
    assert node_row(None, "n1", NodeTrouble(), "1.0").name == "n1"
    trouble = NodeTrouble(api="it does not answer")
    assert node_row(None, "n1", trouble, "1.0").trouble == trouble


def test_a_node_has_its_capacity_in_words_and_in_numbers() -> None:
    found = node_row(make_node(), "n1", NodeTrouble(), "1.0")
    assert found.cpus > 0
    assert found.memory > 0
    assert found.capacity.keys() >= {"cpu", "memory"}
    assert found.trouble is None

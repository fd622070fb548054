"""Pods as lines: which of them, in what order, and figures in a few characters."""

from datetime import UTC, datetime, timedelta

import pytest

from kit.told_agent import node_state, pod_row
from pykubelet.cli.screen.pod_lines import Order, age, chosen, cores, node_line, pod_lines, size

NOW = datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC)
STATE = node_state(
    pod_row("web", startedAt="2026-01-02T15:04:00Z"),
    pod_row("db", namespace="prod", restarts=4, startedAt="2026-01-01T15:00:00Z"),
    pod_row("bad", isWell=False, reason="CrashLoopBackOff", startedAt=None, createdAt="2026-01-02T14:00:00Z"),
    usage={"uid-web": {"cpu": 0.2, "memory": 1 << 20}, "uid-db": {"cpu": 1.5, "memory": 2 << 30}},
)


def names(order: Order = "name", words: str = "", namespace: str = "", backwards: bool = False) -> list[str]:
    found = chosen(pod_lines(STATE), order=order, words=words, namespace=namespace, backwards=backwards)
    return [each.name for each in found]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("name", ["bad", "web", "db"]),
        ("status", ["bad", "web", "db"]),
        ("restarts", ["db", "bad", "web"]),
        ("cpu", ["db", "web", "bad"]),
        ("memory", ["db", "web", "bad"]),
        ("age", ["web", "bad", "db"]),
    ],
)
def test_the_order_is_what_was_asked_for(order: Order, expected: list[str]) -> None:
    assert names(order) == expected
    assert names(order, backwards=True)[-1] == expected[0]


def test_all_words_have_to_be_there() -> None:
    assert names(words="crash") == ["bad"]
    assert names(words="PROD d") == ["db"]
    assert names(words="prod web") == []
    assert names(namespace="prod") == ["db"]


def test_what_runs_comes_first_among_containers() -> None:
    containers = [
        {"name": "prepare", "kind": "init", "state": "terminated"},
        {"name": "mesh", "kind": "sidecar", "state": "running"},
        {"name": "app", "kind": "container", "state": "running"},
        {"name": "late", "kind": "container", "state": "waiting"},
    ]
    (line,) = pod_lines(node_state(pod_row("web", containers=containers)))
    assert line.containers == ("app", "mesh", "late", "prepare")


def test_a_node_tells_what_it_has_to_do_without() -> None:
    line = node_line(node_state(trouble={"runtime": "connection refused"}))
    assert line.troubles == ("its container runtime does not answer: connection refused",)
    assert (line.name, line.cpu, line.cpus) == ("n1", 0.5, 2.0)


def test_an_answer_with_nothing_in_it_is_no_trouble() -> None:
    assert pod_lines({}) == ()
    assert node_line({}).name == ""


def test_figures_in_a_few_characters() -> None:
    assert [cores(each) for each in (None, 0.0, 0.0004, 0.25, 1.5, 12.34)] == ["-", "0m", "0m", "250m", "1500m", "12.3"]
    sizes = (None, 0, 1023, 5 << 10, 64 << 20, int(1.5 * (1 << 30)), 24 << 30, 1 << 62)
    assert [size(each) for each in sizes] == ["-", "0", "1.0Ki", "5.0Ki", "64Mi", "1.5Gi", "24Gi", "4096Pi"]
    assert age(NOW - timedelta(seconds=90), NOW) == "90s"
    assert age(NOW + timedelta(seconds=90), NOW) == "0s"
    assert age(None, NOW) == "-"

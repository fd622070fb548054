from datetime import UTC, datetime, timedelta

import pytest

from pykubelet.api.node import NodeCondition, NodeStatus, NodeSystemInfo
from pykubelet.pod.node.node_claim import is_silent, last_sign, other_machine

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def info(machine: str, system: str) -> NodeSystemInfo:
    return NodeSystemInfo(machine_id=machine, system_uuid=system, boot_id="any")


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        (("m1", "s1"), ""),
        (("", ""), ""),
        (("m1", ""), ""),
        (("", "s1"), ""),
        (("M-1", "S-1\n"), ""),
        (("m1", "s2"), "system uuid s2"),
        (("m2", "s1"), "machine id m2"),
        (("m2", ""), "machine id m2"),
        (("m2", "s2"), "system uuid s2"),
    ],
)
def test_machines_are_told_apart_by_what_is_known_of_both(shown: tuple[str, str], told: str) -> None:
    assert other_machine(info(*shown), info("m1", "s1")) == told
    assert other_machine(info(*shown), info("", "")) == ""


def test_the_newer_of_report_and_lease_is_the_last_sign() -> None:
    later = NOW + timedelta(seconds=1)
    status = NodeStatus(
        conditions=(
            NodeCondition(type="Ready", last_heartbeat_time=NOW),
            NodeCondition(type="NetworkUnavailable", last_heartbeat_time=later),
        )
    )
    assert last_sign(status, None) == NOW
    assert last_sign(status, later) == later
    assert last_sign(NodeStatus(), later) == later
    assert last_sign(NodeStatus(), None) is None


@pytest.mark.parametrize(
    ("age", "unchanged_for", "silent"),
    [(0, 0, False), (39, 0, False), (40, 0, True), (-500, 39, False), (-500, 40, True)],
)
def test_a_machine_is_silent_after_forty_seconds_whatever_its_clock_says(
    age: int, unchanged_for: float, silent: bool
) -> None:
    assert is_silent(NOW - timedelta(seconds=age), NOW, unchanged_for) is silent
    assert is_silent(None, NOW, 0)

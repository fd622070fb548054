"""Conditions that others set hold a pod's readiness back, and only that."""

import pytest

from unit.pod.status_pods import look, pod_of, seen, value


@pytest.mark.parametrize(
    ("shown", "expected", "message"),
    [
        pytest.param(
            [],
            "False ReadinessGatesNotReady",
            'corresponding condition of pod readiness gate "g" does not exist.',
            id="nobody has opened it",
        ),
        pytest.param(
            [{"type": "g", "status": "False"}],
            "False ReadinessGatesNotReady",
            'the status of pod readiness gate "g" is not "True", but False',
            id="closed",
        ),
        pytest.param([{"type": "g", "status": "True"}], "True", "", id="open"),
    ],
)
def test_a_readiness_gate_holds_ready_back(shown: list[dict[str, str]], expected: str, message: str) -> None:
    pod = pod_of(readinessGates=[{"conditionType": "g"}], status={"conditions": shown})
    status = look(pod, seen("c"))
    assert value(status, "Ready") == expected
    assert next(c.message for c in status.conditions if c.type == "Ready") == message
    assert value(status, "ContainersReady") == "True"

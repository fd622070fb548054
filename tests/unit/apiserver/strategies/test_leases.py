"""Leases."""

import pytest

from kit.strategies import faults, made, strategy_of

LEASES = strategy_of("coordination.k8s.io", "leases")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"leaseDurationSeconds": 40, "leaseTransitions": 0}, []),
        ({"leaseDurationSeconds": 0}, ["spec.leaseDurationSeconds"]),
        ({"leaseTransitions": -1}, ["spec.leaseTransitions"]),
    ],
)
def test_seconds_and_transitions_can_be(spec: dict[str, int], expected: list[str]) -> None:
    lease = made(LEASES, spec=spec)
    assert faults(LEASES, lease) == expected
    assert faults(LEASES, lease, made(LEASES)) == expected

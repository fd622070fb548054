"""Nodes."""

from typing import Any

import pytest

from kit.api_process import Api
from kit.strategies import faults, made, strategy_of


async def test_a_node_keeps_its_status_and_waits_to_be_ready(api: Api) -> None:
    given = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4000m"}}}
    _, made = await api.ask("POST", "/api/v1/nodes", given)
    assert made["status"]["allocatable"] == {"cpu": "4"}
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


NODES = strategy_of("", "nodes")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]}, []),
        ({"taints": [{"key": "a", "effect": "Sometimes"}]}, ["metadata.taints[0].effect"]),
        ({"taints": [{"key": "a"}]}, ["metadata.taints[0].effect"]),
        ({"taints": [{"key": "b d", "effect": "NoSchedule"}]}, ["metadata.taints[0].key"]),
        ({"taints": [{"key": "a", "value": "b d", "effect": "NoSchedule"}]}, ["metadata.taints[0].value"]),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}, ["metadata.taints[1]"]),
        ({"podCIDRs": ["x"]}, ["spec.podCIDRs[0]"]),
        ({"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}, []),
        ({"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}, ["spec.podCIDRs"]),
    ],
)
def test_taints_and_ranges_can_be_ones(spec: dict[str, Any], expected: list[str]) -> None:
    node = made(NODES, spec=spec)
    assert faults(NODES, node) == expected
    assert faults(NODES, node, made(NODES)) == expected

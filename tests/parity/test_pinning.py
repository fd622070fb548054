"""Processors, memory and NUMA nodes, replayed against what upstream's managers gave the same pods."""

import json

from kit.pinning import replayed
from kit.vectors import Case, replay, unequal


def test_containers_get_what_upstream_gives_them() -> None:
    replay("pinning", _difference)


def _difference(case: Case) -> str:
    asked = case["asked"]
    ours = json.loads(json.dumps(replayed(asked)))
    for number, (one, other) in enumerate(zip(ours.get("steps", ()), case["answered"].get("steps", ()), strict=False)):
        if one != other:
            return unequal(f"step {number} of {json.dumps(asked)[:300]}", one, other)
    return unequal(json.dumps(asked)[:300], ours, case["answered"])

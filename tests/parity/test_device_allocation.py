"""Devices for claims, replayed against what upstream's allocator gave the same ones."""

import json
from typing import Any

from kit.vectors import Case, replay, unequal
from pykubelet.apiserver.cel.program import Budget
from pykubelet.apiserver.controllers.scheduling.device_allocation import allocate
from pykubelet.apiserver.controllers.scheduling.device_pools import Supply, Unallocatable


def test_claims_get_the_devices_that_upstream_gives_them() -> None:
    replay("device-allocation", _difference)


def _difference(case: Case) -> str:
    classes = {each["metadata"]["name"]: each for each in case["classes"]}
    supply = Supply(case["slices"], classes, frozenset(map(tuple, case["taken"])))
    for node, expected in zip(case["nodes"], case["expected"], strict=True):
        found: dict[str, Any]
        try:
            found = {"results": allocate(supply, node["name"], node["labels"], case["claims"], Budget())}
        except Unallocatable as error:
            found = {"error": str(error)}
        if found != expected:
            return unequal(f"{node['name']} for {json.dumps(case['claims'])[:300]}", found, expected)
    return ""

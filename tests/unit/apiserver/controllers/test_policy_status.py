"""What is said in the status of admission policies."""

import asyncio
from typing import Any

from kit.cluster import TestCluster, cluster, running
from pykubelet.apiserver.controllers.policy_status import POLICIES, PolicyStatus


def policy(expression: str) -> dict[str, Any]:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE"]}
    return {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}


async def status(c: TestCluster, generation: int) -> Any:
    async with asyncio.timeout(30):
        while True:
            found = (await c.find(POLICIES, "", "p") or {}).get("status") or {}
            if found.get("observedGeneration") == generation:
                return found
            await asyncio.sleep(0.01)


async def test_a_policy_is_looked_at_once_for_each_change() -> None:
    async with cluster() as c, running(PolicyStatus(c)):
        made = await c.make(POLICIES, {"metadata": {"name": "p"}, "spec": policy("object.spec.replicsa > 1")})
        (warning,) = (await status(c, 1))["typeChecking"]["expressionWarnings"]
        assert warning["fieldRef"] == "spec.validations[0].expression"
        assert "undefined field 'replicsa'" in warning["warning"]
        await c.change(POLICIES, made, lambda live: {**live, "spec": policy("object.spec.replicas > 1")})
        assert (await status(c, 2)).get("typeChecking", {}) == {}

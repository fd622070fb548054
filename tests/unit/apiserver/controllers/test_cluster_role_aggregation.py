"""Roles that gather the rules of others."""

from typing import Any

from kit.cluster import TestCluster, cluster, owners
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.cluster_role_aggregation import (
    CLUSTER_ROLES,
    MANAGER,
    ClusterRoleAggregation,
    aggregated_rules,
)
from pykubelet.apiserver.security.rbac.bootstrap import reconcile_policy


def rule(*resources: str) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": list(resources), "verbs": ["get"]}


def gathers(name: str, *selectors: dict[str, Any], rules: Any = None) -> dict[str, Any]:
    return {"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": list(selectors)}, "rules": rules}


def part(name: str, *rules: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "rules": list(rules)}


async def rules(c: TestCluster, name: str) -> list[Any]:
    role: Any = await c.find(CLUSTER_ROLES, "", name)
    found: list[Any] = role.get("rules") or []
    return found


def test_the_rules_come_in_the_order_of_selectors_and_names_each_once() -> None:
    parts = [
        part("a", rule("x"), rule("y"), to="1"),
        part("b", rule("y"), rule("z"), to="1"),
        part("c", rule("q"), to="2"),
    ]
    role = gathers("all", {"matchLabels": {"to": "2"}}, {"matchLabels": {"to": "1"}})
    assert aggregated_rules(role, [*parts, role]) == [rule("q"), rule("x"), rule("y"), rule("z")]


def test_a_role_does_not_gather_itself_and_a_bad_selector_changes_nothing() -> None:
    assert (
        aggregated_rules({**gathers("a", {}), "rules": [rule("x")]}, [{**gathers("a", {}), "rules": [rule("x")]}]) == []
    )
    assert aggregated_rules(gathers("a", {"matchExpressions": [{"key": "k", "operator": "Near"}]}), []) is None


@virtual_time
async def test_what_is_added_and_taken_away_is_followed() -> None:
    async with cluster() as c:
        await c.add(*CLUSTER_ROLES, gathers("all", {"matchLabels": {"to": "all"}}, rules=[rule("left-over")]))
        one = await c.add(*CLUSTER_ROLES, part("one", rule("x"), to="all"))
        controller = ClusterRoleAggregation(c.backend)
        await controller.sync()
        assert await rules(c, "all") == [rule("x")]
        await c.remove(CLUSTER_ROLES, one)
        await controller.sync()
        assert await rules(c, "all") == []


@virtual_time
async def test_view_edit_and_admin_are_made_of_their_parts() -> None:
    async with cluster() as c:
        await reconcile_policy(c.backend)
        controller = ClusterRoleAggregation(c.backend)
        for _ in range(3):  # edit is a part of admin
            await controller.sync()
        reads = await rules(c, "view")
        assert any("pods" in each["resources"] and "get" in each["verbs"] for each in reads)
        assert not any("secrets" in each["resources"] for each in reads)
        writes = await rules(c, "edit")
        assert all(each in writes for each in reads)
        assert (MANAGER, None) in owners(await c.get("clusterroles", "view", "", CLUSTER_ROLES[0]))
        assert any("rolebindings" in each["resources"] for each in await rules(c, "admin"))
        before = await c.store.revision()
        await controller.sync()
        assert await c.store.revision() == before

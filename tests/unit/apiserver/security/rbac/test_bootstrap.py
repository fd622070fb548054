"""What a cluster begins with, and what becomes of it at the next start."""

from typing import Any

from kit.cluster import TestCluster, cluster
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.client import Kind
from pykubelet.apiserver.security.rbac.bootstrap import AUTO_UPDATE, bootstrap_policy, reconcile_policy

ROLES: Kind = ("rbac.authorization.k8s.io", "clusterroles")
BINDINGS: Kind = ("rbac.authorization.k8s.io", "clusterrolebindings")
MINE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


async def found(c: TestCluster, kind: Kind, name: str) -> Any:
    return await c.find(kind, "", name)


async def revision(c: TestCluster) -> int:
    return await c.store.revision()


def test_all_of_them_are_marked_as_kept_by_the_server() -> None:
    policy = bootstrap_policy()
    kinds = [each["kind"] for each in policy]
    assert [kinds.count(kind) for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")] == [
        68,
        53,
        7,
        7,
    ]
    assert all(each["metadata"]["annotations"][AUTO_UPDATE] == "true" for each in policy)
    assert all(each["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults" for each in policy)


@virtual_time
async def test_a_second_start_writes_nothing() -> None:
    async with cluster() as c:
        await reconcile_policy(c.backend)
        assert len(await c.all(ROLES)) == 68
        before = await revision(c)
        await reconcile_policy(c.backend)
        assert await revision(c) == before


@virtual_time
async def test_what_is_missing_is_added_and_what_somebody_added_stays() -> None:
    async with cluster() as c:
        await reconcile_policy(c.backend)
        role, binding = await found(c, ROLES, "system:discovery"), await found(c, BINDINGS, "system:discovery")
        metadata = {"labels": {"mine": "1"}, "annotations": {}}
        await c.change(
            ROLES, role, lambda live: {**live, "rules": [MINE], "metadata": {**live["metadata"], **metadata}}
        )
        eve = {"apiGroup": ROLES[0], "kind": "User", "name": "eve"}
        await c.change(BINDINGS, binding, lambda live: {**live, "subjects": [eve]})
        await c.remove(ROLES, await found(c, ROLES, "view"))
        await reconcile_policy(c.backend)
        after = await found(c, ROLES, "system:discovery")
        assert after["rules"][0] == MINE
        assert {"nonResourceURLs": ["/api"], "verbs": ["get"]} in after["rules"]
        assert after["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults", "mine": "1"}
        assert after["metadata"]["annotations"] == {AUTO_UPDATE: "true"}
        subjects = (await found(c, BINDINGS, "system:discovery"))["subjects"]
        assert [each["name"] for each in subjects] == ["eve", "system:authenticated"]
        assert await found(c, ROLES, "view")


@virtual_time
async def test_what_its_owner_wants_for_himself_is_left_alone() -> None:
    async with cluster() as c:
        await reconcile_policy(c.backend)

        def own(live: Any) -> Any:
            return {**live, "rules": [], "metadata": {**live["metadata"], "annotations": {AUTO_UPDATE: "false"}}}

        await c.change(ROLES, await found(c, ROLES, "system:basic-user"), own)
        await reconcile_policy(c.backend)
        assert not (await found(c, ROLES, "system:basic-user")).get("rules")


@virtual_time
async def test_a_binding_to_another_role_is_made_anew() -> None:
    async with cluster() as c:
        other = {"apiGroup": ROLES[0], "kind": "ClusterRole", "name": "cluster-admin"}
        eve = {"apiGroup": ROLES[0], "kind": "User", "name": "eve"}
        await c.add(*BINDINGS, {"metadata": {"name": "system:discovery"}, "roleRef": other, "subjects": [eve]})
        await reconcile_policy(c.backend)
        after = await found(c, BINDINGS, "system:discovery")
        assert after["roleRef"]["name"] == "system:discovery"
        assert [each["name"] for each in after["subjects"]] == ["system:authenticated"]


@virtual_time
async def test_a_namespace_that_is_about_to_go_does_not_keep_the_server_from_starting() -> None:
    async with cluster() as c:
        await c.change(
            ("", "namespaces"),
            await c.get("namespaces", "kube-public", ""),
            lambda live: {**live, "metadata": {**live["metadata"], "finalizers": ["example.com/x"]}},
        )
        await c.remove(("", "namespaces"), await c.get("namespaces", "kube-public", ""))
        await reconcile_policy(c.backend)
        assert await found(c, ROLES, "cluster-admin")

"""Gives each aggregated cluster role the rules of those that its selectors choose."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pykubelet.api.selectors import from_json, matches
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.controllers.client import ControllerClient, Kind, as_it_is
from pykubelet.apiserver.objects import Object, at, encode
from pykubelet.apiserver.writer.author import KUBE_CONTROLLER_MANAGER

CLUSTER_ROLES: Final[Kind] = ("rbac.authorization.k8s.io", "clusterroles")
MANAGER: Final = "clusterrole-aggregation-controller"


def name_of(role: Object) -> str:
    return str(role["metadata"]["name"])


class ClusterRoleAggregation:
    def __init__(self, backend: Backend) -> None:
        self._client = ControllerClient(backend, msgspec.structs.replace(KUBE_CONTROLLER_MANAGER, manager=MANAGER))

    async def run(self) -> None:
        await self._client.follow(self.sync, CLUSTER_ROLES)

    async def sync(self) -> None:
        roles = sorted(await self._client.views(CLUSTER_ROLES, as_it_is), key=name_of)
        for role in roles:
            if at(role, "aggregationRule.clusterRoleSelectors"):
                with self._client.apart(f"cluster role {name_of(role)}"):
                    await self._give(role, aggregated_rules(role, roles))

    async def _give(self, role: Object, rules: list[Any] | None) -> None:
        if rules is None or rules == (role.get("rules") or []):
            return

        def with_rules(live: Object) -> Object:
            return {**live, "rules": rules}

        await self._client.change(CLUSTER_ROLES, role, with_rules)


def aggregated_rules(role: Object, roles: Sequence[Object]) -> list[Any] | None:
    """What it is to allow, of roles in the order of their names; None when a selector makes no sense."""
    found: dict[bytes, Any] = {}
    for each in at(role, "aggregationRule.clusterRoleSelectors", ()):
        try:
            selector = from_json(each)
        except ValueError:
            return None
        for other in roles:
            is_itself = name_of(other) == name_of(role)
            if is_itself or not matches(selector, at(other, "metadata.labels", {})):
                continue
            found |= {encode(rule): rule for rule in other.get("rules") or ()}
    return list(found.values())

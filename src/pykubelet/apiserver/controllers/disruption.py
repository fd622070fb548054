"""Says of each disruption budget how many of its pods are well, how many have to be, and how many may go now."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import PODS, ControllerClient, Kind, as_it_is
from pykubelet.apiserver.controllers.conditions import condition, conditioned
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.keyed_work import Key, KeyedWork
from pykubelet.apiserver.controllers.workloads.heads import heads, own_key
from pykubelet.apiserver.controllers.workloads.pod_views import PodView, controller_of, pods_of
from pykubelet.apiserver.objects import Object, at, has_ended, moment
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.store.port import Event
from pykubelet.apiserver.strategies import disruption_rules as rules
from pykubelet.apiserver.verbs.scale import scale_of
from pykubelet.base.tasks import every

BUDGETS: Final[Kind] = ("policy", "poddisruptionbudgets")
DEPLOYMENTS: Final[Kind] = ("apps", "deployments")
REPLICA_SETS: Final[Kind] = ("apps", "replicasets")
_PERIOD: Final = 60.0


class Unknown(Exception):
    """It cannot be said how many pods there are to be."""


def spared(pod: Object) -> tuple[Object, datetime] | None:
    """One that is said to be disrupted and is not deleted, and since when; None: any other."""
    told = condition(pod, "DisruptionTarget")
    if told.get("status") != "True" or at(pod, "metadata.deletionTimestamp"):
        return None
    if has_ended(pod):
        return None
    since = moment(told.get("lastTransitionTime"))
    head = {name: pod["metadata"].get(name, "") for name in ("namespace", "name", "uid")}
    return None if since is None else ({"metadata": head}, since)


def _kept(live: Object, now: str) -> Object | None:
    if spared(live) is None:
        return None
    told = {"type": "DisruptionTarget", "status": "False", "reason": "", "message": ""}
    return conditioned(live, told, now)


class DisruptionController:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._prefix = client.resource(BUDGETS).prefix
        self._pods = client.resource(PODS).prefix
        self._events = EventRecorder(client, "controllermanager")
        self._work = KeyedWork("disruption-controller", self.sync)

    async def run(self) -> None:
        owners = (DEPLOYMENTS, REPLICA_SETS, ("apps", "statefulsets"), ("", "replicationcontrollers"))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work.run(self._client, (BUDGETS, PODS, *owners), self._keys_of, BUDGETS))
            group.create_task(self._forget())

    async def _forget(self) -> None:
        async for _ in every(_PERIOD):
            await self.forget()

    async def forget(self) -> None:
        """A pod that was to be disrupted and stayed is told that it may stay."""
        now = self._client.now()
        for pod in await self._client.views(PODS, spared):
            if pod is not None and (now - pod[1]).total_seconds() >= rules.TIMEOUT:
                with self._client.apart(f"pod {pod[0]['metadata']['namespace']}/{pod[0]['metadata']['name']}"):
                    await self._client.change(PODS, pod[0], lambda live: _kept(live, rfc3339(now)), part="status")

    async def _keys_of(self, event: Event) -> Iterable[Key]:
        if event.key.startswith(self._prefix):
            return (own_key(event),)
        namespace, _ = own_key(event)
        listing = await self._client.backend.cache.list(self._client.resource(BUDGETS).folder(namespace))
        budgets = self._client.seen(BUDGETS, listing.entries, as_it_is)  # as new as the change itself
        if not event.key.startswith(self._pods):  # what has pods may have been scaled
            return [(namespace, each["metadata"]["name"]) for each in budgets]
        labels = [dict(head.metadata.labels) for head in heads(event) if head.metadata.name]
        return [
            (namespace, each["metadata"]["name"])
            for each in budgets
            if any(rules.is_for(each, of_pod) for of_pod in labels)
        ]

    async def sync(self, key: Key) -> float | None:
        everyone = await pods_of(self._client, key[0])
        budget = await self._client.known(BUDGETS, *key)
        if budget is None:
            return None
        pods = [pod for pod in everyone if rules.is_for(budget, dict(pod.labels))]
        if not pods:
            await self._events.record(budget, "Normal", "NoPods", "No matching pods found")
        now = self._client.now()
        try:
            expected = await self._expected(budget, pods) if rules.needs_scale(budget) else len(pods)
        except Unknown as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            await self._events.record(budget, "Warning", "CalculateExpectedPodCountFailed", text)
            await self._write(budget, _unknown(budget, str(error), now))
            return None
        going, again = rules.disrupted(budget, (pod.name for pod in pods if not pod.is_leaving), now)
        healthy = sum(pod.is_ready and not pod.is_leaving and pod.name not in going for pod in pods)
        wanted = rules.desired(budget, expected)
        status = {
            "currentHealthy": healthy,
            "desiredHealthy": wanted,
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - wanted) if expected > 0 else 0,
            "observedGeneration": at(budget, "metadata.generation", 0),
            "conditions": at(budget, "status.conditions", []),
            **({"disruptedPods": going} if going else {}),
        }
        await self._write(budget, rules.with_condition(status, now))
        return again

    async def _write(self, budget: Object, status: dict[str, Any]) -> None:
        """Only over what was looked at: an eviction in between counts."""
        if budget.get("status") == status:
            return
        version = budget["metadata"]["resourceVersion"]

        def written(live: Object) -> Object | None:
            return {**live, "status": status} if live["metadata"]["resourceVersion"] == version else None

        await self._client.change(BUDGETS, budget, written, part="status")

    async def _expected(self, budget: Object, pods: list[PodView]) -> int:
        """How many pods those that made them want. Raises Unknown."""
        scales: dict[str, int] = {}
        strays = []
        for pod in pods:
            if not pod.owner:
                strays.append(pod.name)
            elif pod.owner not in scales:
                uid, count = await self._scale(pod)
                scales |= {pod.owner: 0, uid: count}  # of a replica set it is its deployment that says how many
        if strays:
            text = (
                f"Pods selected by this PodDisruptionBudget (selector: {at(budget, 'spec.selector')}) were found to be "
                "unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in "
                'undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an '
                "integer value."
            )
            await self._events.record(budget, "Warning", "UnmanagedPods", text)
        return sum(scales.values())

    async def _scale(self, pod: PodView) -> tuple[str, int]:
        """Who decides on how many pods of its sort there are to be, and how many."""
        live = await self._client.find(PODS, pod.namespace, pod.name)
        owner = controller_of(live) if live is not None else {}
        resource, obj = await self._owner(pod.namespace, owner)
        if obj is not None and (resource.group, resource.plural) == REPLICA_SETS:
            above = controller_of(obj)
            if above.get("kind") == "Deployment":
                resource, obj = await self._owner(pod.namespace, above)
        if obj is None or resource.scale is None:
            raise Unknown(f'found no controllers for pod "{pod.name}"')
        return obj["metadata"]["uid"], int(at(scale_of(resource, obj), "spec.replicas", 0))

    async def _owner(self, namespace: str, reference: dict[str, Any]) -> tuple[Resource, Object | None]:
        for resource in self._client.resources:
            if (resource.api_version, resource.kind) == (reference.get("apiVersion"), reference.get("kind")):
                found = await self._client.find((resource.group, resource.plural), namespace, reference["name"])
                is_it = found is not None and found["metadata"].get("uid") == reference.get("uid")
                return resource, found if is_it else None
        return self._client.resource(PODS), None


def _unknown(budget: Object, why: str, now: Any) -> dict[str, Any]:
    """Nothing may go as long as nobody knows."""
    status = {**(budget.get("status") or {}), "disruptionsAllowed": 0}
    return rules.set_condition(status, "False", "SyncFailed", why, now)

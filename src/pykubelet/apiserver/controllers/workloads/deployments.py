"""Rolls out a deployment: a replica set for each version of its template, which grow and shrink against each other."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from pykubelet.apiserver.controllers.client import PODS, ControllerClient, Kind
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.keyed_work import Key, KeyedWork
from pykubelet.apiserver.controllers.workloads import deployment_rules as rules
from pykubelet.apiserver.controllers.workloads.deployment_rules import ReplicaSetView, replica_set_view
from pykubelet.apiserver.controllers.workloads.heads import heads, own_key, owner_keys
from pykubelet.apiserver.controllers.workloads.ownership import claim, selector_of, take
from pykubelet.apiserver.controllers.workloads.pod_control import is_terminating
from pykubelet.apiserver.controllers.workloads.pod_views import PodView, controller_of, pods_of
from pykubelet.apiserver.controllers.workloads.replica_sets import REPLICA_SETS
from pykubelet.apiserver.controllers.workloads.rollout_rules import Plan, plan
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Event

DEPLOYMENTS: Final[Kind] = ("apps", "deployments")


class DeploymentController:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._events = EventRecorder(client, "deployment-controller")
        self._work = KeyedWork("deployment-controller", self.sync)
        self._own, self._sets = client.resource(DEPLOYMENTS).prefix, client.resource(REPLICA_SETS).prefix

    async def run(self) -> None:
        await self._work.run(self._client, (DEPLOYMENTS, REPLICA_SETS, PODS), self._keys_of, DEPLOYMENTS)

    async def _keys_of(self, event: Event) -> Iterable[Key]:
        if event.key.startswith(self._own):
            return (own_key(event),)
        if event.key.startswith(self._sets):
            return await owner_keys(self._client, event, DEPLOYMENTS, "Deployment")
        if event.kind != "delete":
            return ()
        # The last old pod that goes lets a deployment go on that recreates its pods.
        pod, _ = heads(event)
        owner = pod.controller
        if owner is None or owner.kind != "ReplicaSet":
            return ()
        replica_set = await self._client.known(REPLICA_SETS, pod.metadata.namespace, owner.name)
        reference = controller_of(replica_set) if replica_set is not None else {}
        return ((pod.metadata.namespace, reference["name"]),) if reference.get("kind") == "Deployment" else ()

    async def sync(self, key: Key) -> float | None:
        """Raises ApiError when it has to be tried again."""
        sets = await self._client.views(REPLICA_SETS, replica_set_view, key[0])
        deployment = await self._client.known(DEPLOYMENTS, *key)
        selector = None if deployment is None else selector_of(deployment)
        if deployment is None or selector is None:
            return None
        own = await take(self._client, REPLICA_SETS, deployment, DEPLOYMENTS, claim(deployment, selector, sets))
        pods: list[PodView] = []
        if not rules.is_rolling(deployment):
            uids = {each.uid for each in own}
            pods = [pod for pod in await pods_of(self._client, key[0]) if pod.owner in uids]
        return await self._carry_out(deployment, plan(deployment, own, pods, self._client.now()))

    async def _carry_out(self, deployment: Object, wanted: Plan) -> float | None:
        if wanted.create is not None:
            await self._create(deployment, wanted.create)
        for one in wanted.updates.values():
            await self._client.change(REPLICA_SETS, one.head(), partial(updated, one=one))
        for one in wanted.removes:
            await self._client.remove(REPLICA_SETS, one.head())
        back = wanted.rolled_back
        if back is not None:
            await self._client.change(DEPLOYMENTS, deployment, lambda live: _rolled_back(live, back))
        else:
            await self._say(deployment, wanted.status, wanted.revision)
        for event in wanted.events:
            await self._events.record(deployment, *event)
        return wanted.again

    async def _create(self, deployment: Object, replica_set: Object) -> None:
        metadata = replica_set["metadata"]
        try:
            await self._client.make(REPLICA_SETS, replica_set)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                await self._meet(deployment, metadata["namespace"], metadata["name"])
            elif not is_terminating(error):
                await self._tell_failure(deployment, metadata["name"], error)
            raise

    async def _meet(self, deployment: Object, namespace: str, name: str) -> None:
        """Another has the name that the hash makes: unless it is the one that was meant, try another hash."""
        there = await self._client.find(REPLICA_SETS, namespace, name)
        if there is None or at(there, "metadata.deletionTimestamp"):
            return
        is_own = controller_of(there).get("uid") == deployment["metadata"]["uid"]
        if is_own and rules.is_template_of(replica_set_view(there), deployment["spec"]["template"]):
            return
        status = deployment.get("status") or {}
        await self._say(deployment, {**status, "collisionCount": status.get("collisionCount", 0) + 1}, None)

    async def _tell_failure(self, deployment: Object, name: str, error: ApiError) -> None:
        reason, text = "ReplicaSetCreateError", f'Failed to create new replica set "{name}": {error.message}'
        if rules.deadline_of(deployment) is not None:
            status = deployment.get("status") or {}
            told = rules.news(rules.PROGRESSING, "False", reason, text, self._client.now())
            conditions = rules.with_news(status.get("conditions") or [], told)
            await self._say(deployment, {**status, "conditions": conditions}, None)
        await self._events.record(deployment, "Warning", reason, text)

    async def _say(self, deployment: Object, status: dict[str, Any], revision: str | None) -> None:
        """The status, and in the annotation the revision that is rolled out; None: that stays."""
        annotations = at(deployment, "metadata.annotations", {})
        if revision and annotations.get(rules.REVISION) != revision:
            annotations = {**annotations, rules.REVISION: revision}
        elif deployment.get("status", {}) == status:
            return
        noted = annotations.get(rules.REVISION) if revision else None
        await self._client.change(DEPLOYMENTS, deployment, lambda live: _told(live, status, noted), part="status")


def updated(live: Object, one: ReplicaSetView) -> Object:
    spec = {**live["spec"], "replicas": one.replicas, "minReadySeconds": one.min_ready_seconds}
    if not one.min_ready_seconds:
        del spec["minReadySeconds"]
    return {**live, "metadata": {**live["metadata"], "annotations": dict(one.annotations)}, "spec": spec}


def _told(live: Object, status: dict[str, Any], revision: str | None) -> Object:
    metadata = live["metadata"]
    if revision:
        metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), rules.REVISION: revision}}
    return {**live, "metadata": metadata, "status": status}


def _rolled_back(live: Object, wanted: Object) -> Object:
    metadata = {**live["metadata"], "annotations": wanted["metadata"]["annotations"]}
    return {**live, "metadata": metadata, "spec": {**live["spec"], "template": wanted["spec"]["template"]}}

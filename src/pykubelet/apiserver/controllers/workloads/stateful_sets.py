"""Keeps the pods of a stateful set, each with its name and its volumes, and renews them in order."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from pykubelet.apiserver.controllers.client import CLAIMS, PODS, ControllerClient, Kind
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.keyed_work import Key, KeyedWork
from pykubelet.apiserver.controllers.workloads import stateful_set_rules as rules
from pykubelet.apiserver.controllers.workloads.claim_rules import claim_view, claims_of
from pykubelet.apiserver.controllers.workloads.heads import own_key, owner_keys
from pykubelet.apiserver.controllers.workloads.ownership import claim, selector_of, take
from pykubelet.apiserver.controllers.workloads.pod_control import MOST_AT_ONCE, REST, is_terminating
from pykubelet.apiserver.controllers.workloads.pod_views import PodView, next_availability, pods_of
from pykubelet.apiserver.controllers.workloads.revisions import (
    CONTROLLER_REVISIONS,
    excess,
    history_of,
    newest_revision,
    revision_data,
)
from pykubelet.apiserver.controllers.workloads.template_hash import data_hash
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Event
from pykubelet.base.errors import Retry

STATEFUL_SETS: Final[Kind] = ("apps", "statefulsets")
_HASH_LABEL: Final = "controller.kubernetes.io/hash"


class StatefulSetController:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._events = EventRecorder(client, "statefulset-controller")
        self._work = KeyedWork("statefulset-controller", self.sync)
        self._own = client.resource(STATEFUL_SETS).prefix

    async def run(self) -> None:
        await self._work.run(self._client, (STATEFUL_SETS, PODS), self._keys_of, STATEFUL_SETS)

    async def _keys_of(self, event: Event) -> Iterable[Key]:
        if event.key.startswith(self._own):
            return (own_key(event),)
        return await owner_keys(self._client, event, STATEFUL_SETS, "StatefulSet")

    async def sync(self, key: Key) -> float | None:
        """Raises ApiError and Retry when it has to be tried again."""
        everyone = await pods_of(self._client, key[0])
        obj = await self._client.known(STATEFUL_SETS, *key)
        selector = None if obj is None else selector_of(obj)
        if obj is None or selector is None:
            return None
        history = await history_of(self._client, obj, STATEFUL_SETS, selector)
        claimed = claim(obj, selector, everyone, partial(rules.is_member, obj))
        pods = await take(self._client, PODS, obj, STATEFUL_SETS, claimed)
        data = revision_data(obj["spec"]["template"])
        update, collisions = await newest_revision(self._client, obj, history, partial(data_hash, data), _HASH_LABEL)
        current = next((each for each in history if each.name == at(obj, "status.currentRevision")), update)
        claims = {each.name: each for each in await self._client.views(CLAIMS, claim_view, key[0])}
        noted = {**obj, "status": {**(obj.get("status") or {}), "collisionCount": collisions}}
        wanted = rules.plan(noted, pods, claims, current, update, self._client.now())
        done = rules.SetPlan()
        try:
            await self._carry_out(obj, wanted, done)
        finally:
            await self._say(obj, rules.status_of(noted, pods, done, current, update, self._client.now()))
        if len(done.creates) == MOST_AT_ONCE:
            self._work.hold(key, REST)
        live = {current.name, update.name, *(pod.labels.get(rules.REVISION_LABEL, "") for pod in pods)}
        for each in excess(history, live, at(obj, "spec.revisionHistoryLimit")):
            await self._client.remove(CONTROLLER_REVISIONS, each.head())
        return next_availability(pods, at(obj, "spec.minReadySeconds", 0), self._client.now())

    async def _carry_out(self, obj: Object, wanted: rules.SetPlan, done: rules.SetPlan) -> None:
        """What is done is written down in `done`, also when something goes wrong."""
        for number in wanted.claims:
            await self._make_claims(obj, number)
        for pod in wanted.creates:
            await self._create(obj, pod)
            done.creates.append(pod)
        for view in wanted.repairs:
            changed = await self._client.change(PODS, view.head(), _identified)
            if changed is not None:
                await self._tell(obj, "update", view.name)
        for each, owners in wanted.owners:
            await self._client.change(CLAIMS, each.head(), partial(_owned, owners=owners))
        for view in wanted.deletes:
            await self._delete(obj, view)
            done.deletes.append(view)

    async def _make_claims(self, obj: Object, number: int) -> None:
        set_name = obj["metadata"]["name"]
        for made in claims_of(obj, number):
            name, where = made["metadata"]["name"], f"{set_name}-{number} in StatefulSet {set_name}"
            there = await self._client.find(CLAIMS, obj["metadata"]["namespace"], name)
            if there is not None:
                if at(there, "metadata.deletionTimestamp"):
                    why = f"pvc {name} is being deleted"
                    await self._tell(obj, "create", f"{set_name}-{number}", why)
                    raise Retry(why)
                continue
            try:
                await self._client.make(CLAIMS, made)
            except ApiError as error:
                text = f"create Claim {name} for Pod {where} failed error: {error.message}"
                await self._events.record(obj, "Warning", "FailedCreate", text)
                raise
            text = f"create Claim {name} Pod {where} success"
            await self._events.record(obj, "Normal", "SuccessfulCreate", text)

    async def _create(self, obj: Object, pod: Object) -> None:
        name = pod["metadata"]["name"]
        try:
            await self._client.make(PODS, pod)
        except ApiError as error:
            if error.reason != "AlreadyExists" and not is_terminating(error):
                await self._tell(obj, "create", name, error.message)
            raise
        await self._tell(obj, "create", name)

    async def _delete(self, obj: Object, pod: PodView) -> None:
        try:
            await self._client.delete(PODS, pod.head())
        except ApiError as error:
            if error.code == 404:
                return
            await self._tell(obj, "delete", pod.name, error.message)
            raise
        await self._tell(obj, "delete", pod.name)

    async def _tell(self, obj: Object, verb: str, pod: str, error: str = "") -> None:
        text = f"{verb} Pod {pod} in StatefulSet {obj['metadata']['name']}"
        if error:
            await self._events.record(obj, "Warning", f"Failed{verb.title()}", f"{text} failed error: {error}")
        else:
            await self._events.record(obj, "Normal", f"Successful{verb.title()}", f"{text} successful")

    async def _say(self, obj: Object, status: dict[str, Any]) -> None:
        if obj.get("status", {}) != status:
            await self._client.change(STATEFUL_SETS, obj, lambda live: {**live, "status": status}, part="status")


def _identified(live: Object) -> Object:
    name = live["metadata"]["name"]
    number = rules.parent_and_ordinal(name)[1]
    labels = {**(live["metadata"].get("labels") or {}), rules.POD_NAME_LABEL: name, rules.INDEX_LABEL: str(number)}
    return {**live, "metadata": {**live["metadata"], "labels": labels}}


def _owned(live: Object, owners: list[dict[str, Any]]) -> Object:
    metadata = {key: value for key, value in live["metadata"].items() if key != "ownerReferences"}
    return {**live, "metadata": {**metadata, "ownerReferences": owners} if owners else metadata}

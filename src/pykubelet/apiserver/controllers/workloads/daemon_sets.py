"""Keeps a pod of each daemon set on every node that it may be on, by way of the scheduler."""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import msgspec

from pykubelet.apiserver.controllers.client import NODES, PODS, ControllerClient, Kind
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.keyed_work import Key, KeyedWork
from pykubelet.apiserver.controllers.workloads import daemon_set_rules as rules
from pykubelet.apiserver.controllers.workloads.heads import own_key, owner_keys
from pykubelet.apiserver.controllers.workloads.ownership import claim, selector_of, take
from pykubelet.apiserver.controllers.workloads.pod_control import MOST_AT_ONCE, PodControl
from pykubelet.apiserver.controllers.workloads.pod_views import PodView, next_availability, pods_of
from pykubelet.apiserver.controllers.workloads.revisions import (
    CONTROLLER_REVISIONS,
    excess,
    history_of,
    newest_revision,
)
from pykubelet.apiserver.controllers.workloads.template_hash import template_hash
from pykubelet.apiserver.objects import Object, at, loaded
from pykubelet.apiserver.store.port import Event

DAEMON_SETS: Final[Kind] = ("apps", "daemonsets")
_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 900.0


class _Failure(msgspec.Struct):
    delay: float
    since: float


class DaemonSetController:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._events = EventRecorder(client, "daemonset-controller")
        self._pods = PodControl(client, self._events)
        self._work = KeyedWork("daemonset-controller", self.sync)
        self._own, self._nodes = client.resource(DAEMON_SETS).prefix, client.resource(NODES).prefix
        self._failures: dict[tuple[str, str], _Failure] = {}
        """Of each daemon set, by uid, and node: when a failed pod was last taken away, and for how long not again."""

    async def run(self) -> None:
        await self._work.run(self._client, (DAEMON_SETS, PODS, NODES), self._keys_of, DAEMON_SETS)

    async def _keys_of(self, event: Event) -> Iterable[Key]:
        if event.key.startswith(self._own):
            return (own_key(event),)
        if not event.key.startswith(self._nodes):
            return await owner_keys(self._client, event, DAEMON_SETS, "DaemonSet")
        if _place(event.previous) == _place(event.value):
            return ()
        return await self._client.views(DAEMON_SETS, _key)

    async def sync(self, key: Key) -> float | None:
        """Raises ApiError when it has to be tried again."""
        everyone = await pods_of(self._client, key[0])
        nodes = await self._client.views(NODES, rules.node_view, whole=True)
        obj = await self._client.known(DAEMON_SETS, *key)
        selector = None if obj is None else selector_of(obj)
        if obj is None or selector is None or at(obj, "metadata.deletionTimestamp"):
            return None
        history = await history_of(self._client, obj, DAEMON_SETS, selector)
        pods = await take(self._client, PODS, obj, DAEMON_SETS, claim(obj, selector, everyone))
        hash_of = partial(template_hash, obj["spec"]["template"])
        current, collisions = await newest_revision(self._client, obj, history, hash_of, rules.HASH_LABEL)
        hash_ = current.labels.get(rules.HASH_LABEL) or current.name
        daemons = rules.Daemons(obj, hash_, nodes, pods, self._client.now())
        held = self._held(obj["metadata"]["uid"])
        error, made = await self._carry_out(obj, hash_, daemons.plan(held))
        status = daemons.status(made)
        if collisions:
            status["collisionCount"] = collisions
        await self._say(obj, status)
        if error is not None:
            raise error
        hashes = {pod.labels.get(rules.HASH_LABEL, "") for pod in pods}
        live = {each.name for each in history if each.labels.get(rules.HASH_LABEL) in hashes} | {current.name}
        for each in excess(history, live, at(obj, "spec.revisionHistoryLimit")):
            await self._client.remove(CONTROLLER_REVISIONS, each.head())
        waits = [next_availability(pods, at(obj, "spec.minReadySeconds", 0), self._client.now()), *held.values()]
        return min((each for each in waits if each is not None), default=None)

    async def _carry_out(self, obj: Object, hash_: str, wanted: rules.DaemonPlan) -> tuple[Exception | None, list[str]]:
        """-> what went wrong, and the nodes that have a pod now."""
        for pod in wanted.failed:
            self._note_failure(obj["metadata"]["uid"], pod.aimed_at)
            await self._tell(obj, "Warning", "Failed", "kill", pod)
        for pod in wanted.deletes:
            if pod.phase == "Succeeded":
                await self._tell(obj, "Normal", "Succeeded", "delete", pod)
        nodes = wanted.creates[:MOST_AT_ONCE]
        made, error = await self._pods.create_all(obj, [rules.daemon_pod(obj, node, hash_) for node in nodes])
        refused = await self._pods.delete_all(obj, wanted.deletes[:MOST_AT_ONCE])
        return error or refused, nodes[:made]

    async def _tell(self, obj: Object, kind: str, what: str, verb: str, pod: PodView) -> None:
        text = (
            f"Found {what.lower()} daemon pod {pod.namespace}/{pod.name} on node {pod.aimed_at}, will try to {verb} it"
        )
        await self._events.record(obj, kind, f"{what}DaemonPod", text)

    def _held(self, uid: str) -> dict[str, float]:
        """For how many seconds the failed pod of each node is left where it is."""
        now, left = asyncio.get_running_loop().time(), {}
        for (owner, node), failure in list(self._failures.items()):
            if now - failure.since > 2 * _LONGEST_DELAY:
                del self._failures[owner, node]
            elif owner == uid and failure.since + failure.delay > now:
                left[node] = failure.since + failure.delay - now
        return left

    def _note_failure(self, uid: str, node: str) -> None:
        now, was = asyncio.get_running_loop().time(), self._failures.get((uid, node))
        delay = _FIRST_DELAY if was is None else min(was.delay * 2, _LONGEST_DELAY)
        self._failures[uid, node] = _Failure(delay, now)

    async def _say(self, obj: Object, status: dict[str, Any]) -> None:
        if obj.get("status", {}) != status:
            await self._client.change(DAEMON_SETS, obj, lambda live: {**live, "status": status}, part="status")


def _key(obj: Object) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _place(value: bytes | None) -> tuple[Any, Any] | None:
    """What of a node decides who may be on it; None: there is no such node."""
    node = loaded(value, 0) if value else None
    return None if node is None else (at(node, "metadata.labels"), at(node, "spec.taints"))

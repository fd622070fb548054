"""Finds a node for every pod that has none: at once when there is room, else as soon as something changes."""

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from msgspec import Struct

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import ObjectReference
from pykubelet.api.pod import PodSpec
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import NAMESPACES, NODES, PODS, ControllerClient
from pykubelet.apiserver.controllers.conditions import condition, conditioned
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.fit import Place, Use, Wish, chosen, is_waiting, place, use, wish
from pykubelet.apiserver.controllers.pod_affinity import Neighbour, Neighbourhood, neighbour
from pykubelet.apiserver.controllers.topology_spread import Crowd, Labels, Spread
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.resources import ROOT
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Event
from pykubelet.apiserver.verbs.binding import Binding, bind_pod

log = logging.getLogger(__name__)

NAME: Final = "default-scheduler"
_LOOK_AGAIN: Final = 60.0
_PODS: Final = f"{ROOT}pods/"
_ENDED: Final = (b'"phase":"Succeeded"', b'"phase":"Failed"')


class Seen(Struct, frozen=True):
    """A pod as the scheduler remembers it."""

    namespace: str
    name: str
    node: str
    is_leaving: bool
    is_waiting: bool
    priority: int
    created: str
    wish: Wish | None
    neighbour: Neighbour


def seen(pod: Object) -> Seen:
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    is_over = at(pod, "status.phase") in ("Succeeded", "Failed")
    waits = is_waiting(pod, NAME)
    wanted: Wish | None = None
    if waits or (spec.get("nodeName") and not is_over):
        try:
            wanted = wish(convert(PodSpec, spec))
        except (DecodeError, ValueError) as error:
            log.warning("pod %s/%s cannot be scheduled: %s", metadata.get("namespace"), metadata["name"], error)
    return Seen(
        metadata.get("namespace", ""),
        metadata["name"],
        "" if is_over else spec.get("nodeName", ""),
        bool(metadata.get("deletionTimestamp")),
        waits and wanted is not None,
        spec.get("priority") or 0,
        metadata.get("creationTimestamp", ""),
        wanted,
        neighbour(metadata.get("namespace", ""), metadata.get("labels") or {}, wanted.spec if wanted else PodSpec()),
    )


def namespace_labels(namespace: Object) -> tuple[str, dict[str, str]]:
    return namespace["metadata"]["name"], at(namespace, "metadata.labels", {})


class Scheduler:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._events = EventRecorder(client, NAME)

    async def run(self) -> None:
        await self._client.follow(self.sync, PODS, NODES, wanted=_matters, most=_LOOK_AGAIN)

    async def sync(self) -> None:
        """Look once at all that wait: the most important first, then the oldest."""
        pods = await self._client.views(PODS, seen)
        waiting = sorted(
            (pod for pod in pods if pod.is_waiting), key=lambda pod: (-pod.priority, pod.created, pod.name)
        )
        if not waiting:
            return
        nodes = await self._nodes(pods)
        places = [node for node, _ in nodes.values()]
        around = await self._around(pods, nodes)
        crowd = Crowd(_staying(pods))
        for each in waiting:
            pod = await self._client.find(PODS, each.namespace, each.name)
            if pod is None or not is_waiting(pod, NAME):
                continue
            wanted = wish(convert(PodSpec, pod["spec"]))
            labels = at(pod, "metadata.labels", {})
            itself = neighbour(each.namespace, labels, wanted.spec)
            spread = Spread(wanted.spec, each.namespace, labels, places, crowd)
            name, why = chosen(wanted, nodes, partial(_reasons, spread, around, itself), spread.bonus)
            if not name:
                await self._leave(pod, why)
            elif await self._bind(pod, name):
                node, used = nodes[name]
                nodes[name] = (node, _added(used, wanted))
                around.add(itself, node.labels)
                crowd.add(each.namespace, labels, name)

    async def _nodes(self, pods: list[Seen]) -> dict[str, tuple[Place, Use]]:
        on: dict[str, list[Wish]] = {}
        for pod in pods:
            if pod.node and pod.wish is not None:
                on.setdefault(pod.node, []).append(pod.wish)
        places = await self._client.views(NODES, place)
        return {each.name: (each, use(on.get(each.name, ()))) for each in places}

    async def _around(self, pods: list[Seen], nodes: dict[str, tuple[Place, Use]]) -> Neighbourhood:
        """Nobody has to be looked at when nobody is choosy."""
        if not any(pod.neighbour.is_picky for pod in pods):
            return Neighbourhood((), {})
        there = [(pod.neighbour, nodes[pod.node][0].labels) for pod in pods if pod.node in nodes]
        return Neighbourhood(there, dict(await self._client.views(NAMESPACES, namespace_labels)))

    async def _bind(self, pod: Object, node: str) -> bool:
        """Whether it is on this node now: somebody else may have been faster, or it is gone."""
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        binding = Binding(ObjectMeta(name=name, uid=metadata.get("uid", "")), ObjectReference(kind="Node", name=node))
        try:
            changed = await bind_pod(self._client.writer, namespace, name, binding)
        except ApiError as error:
            log.info("pod %s/%s is not bound to %s: %s", namespace, name, node, error.message)
            return False
        text = f"Successfully assigned {namespace}/{name} to {node}"
        await self._events.record(changed, "Normal", "Scheduled", text, action="Binding")
        return True

    async def _leave(self, pod: Object, why: str) -> None:
        """It stays as it is, and says why. The same is not said twice."""
        was = condition(pod, "PodScheduled")
        if was.get("status") == "False" and was.get("message") == why:
            return
        now = rfc3339(self._client.now())
        changed = await self._client.change(PODS, pod, lambda live: unschedulable(live, why, now), part="status")
        if changed is not None and not at(changed, "spec.nodeName"):
            await self._events.record(changed, "Warning", "FailedScheduling", why, action="Scheduling")


def unschedulable(pod: Object, why: str, now: str) -> Object | None:
    if at(pod, "spec.nodeName"):
        return None
    refused = {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "reason": "Unschedulable",
        "message": why,
    }
    return conditioned(pod, refused, now)


def _staying(pods: Iterable[Seen]) -> Iterator[tuple[str, Labels, str]]:
    """Namespace, labels and node of each pod that has one and is not about to leave it."""
    for pod in pods:
        if pod.node and not pod.is_leaving:
            yield pod.namespace, pod.neighbour.labels, pod.node


def _reasons(spread: Spread, around: Neighbourhood, pod: Neighbour, node: Place) -> list[str]:
    return spread.reasons(node) or around.reasons(pod, node.labels)


def _matters(event: Event) -> bool:
    """Most news of pods is that they run on: that gives nobody a node."""
    if event.kind == "delete" or not event.key.startswith(_PODS):
        return True
    return b'"nodeName":' not in event.value or any(each in event.value for each in _ENDED)


def _added(used: Use, one: Wish) -> Use:
    requests = dict(used.requests)
    for name, amount in one.requests.items():
        requests[name] = requests[name] + amount if name in requests else amount
    return Use(requests, used.ports.union(one.ports), used.pods + 1)

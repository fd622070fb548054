"""Watches over the nodes: notices when one falls silent, marks it with taints, and drives its pods away in time: unless
no node is well, when it is more likely that this server was away, and there is nowhere to go."""

import asyncio
import logging
from functools import partial
from typing import Any, Final

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import LEASES, NODES, PODS, ControllerClient
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.node_health import (
    drives_away,
    driving_taints,
    leaves_at,
    lost,
    not_ready,
    stay,
    tainted,
)
from pykubelet.apiserver.objects import Object, at

log = logging.getLogger(__name__)

GRACE: Final = 40.0
_LEASE_NAMESPACE: Final = "kube-node-lease"
_PERIOD: Final = 5.0


class NodeLifecycle:
    def __init__(self, client: ControllerClient, *, grace: float = GRACE) -> None:
        self._client = client
        self._events = EventRecorder(client, "node-controller")
        self._evictions = EventRecorder(client, "taint-eviction-controller")
        self._grace = grace
        self._heard: dict[str, tuple[tuple[Any, ...], float]] = {}
        """What each node last said, and when that was by our own clock: theirs may be wrong."""

    async def run(self) -> None:
        await self._client.follow(self.sync, NODES, most=_PERIOD)

    async def sync(self) -> None:
        nodes = await self._client.all(NODES)
        names = {node["metadata"]["name"] for node in nodes}
        self._heard = {name: told for name, told in self._heard.items() if name in names}
        for node in nodes:
            with self._client.apart(f"node {node['metadata']['name']}"):
                await self._listen_to(node)
        nodes = await self._client.all(NODES)
        drives = drives_away(nodes)
        for node in nodes:
            with self._client.apart(f"node {node['metadata']['name']}"):
                now = rfc3339(self._client.now())
                await self._client.change(NODES, node, partial(tainted, now=now, drives=drives))
        await self._drive(await self._client.all(NODES))

    async def _listen_to(self, node: Object) -> None:
        name, now = node["metadata"]["name"], rfc3339(self._client.now())
        silent = await self._silence(node) >= self._grace
        was_ready = condition(node, "Ready").get("status") == "True"
        if silent and condition(node, "Ready").get("status") != "Unknown":
            log.warning("node %s was silent for %g s", name, self._grace)
            node = await self._client.change(NODES, node, lambda live: lost(live, now), part="status") or node
            if was_ready:
                await self._events.record(node, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")

    async def _silence(self, node: Object) -> float:
        """For how many seconds nothing new was heard."""
        name, loop = node["metadata"]["name"], asyncio.get_running_loop()
        lease = await self._client.backend.find(*LEASES, _LEASE_NAMESPACE, name)
        said = (
            at(lease, "spec.renewTime"),
            condition(node, "Ready").get("lastHeartbeatTime"),
            at(node, "metadata.uid"),
        )
        if condition(node, "Ready").get("status") == "Unknown":
            said = (said[0], self._heard.get(name, (said, 0.0))[0][1], said[2])
        if name not in self._heard or self._heard[name][0] != said:
            self._heard[name] = (said, loop.time())
        return loop.time() - self._heard[name][1]

    async def _drive(self, nodes: list[Object]) -> None:
        taints = {node["metadata"]["name"]: driving_taints(node) for node in nodes}
        unready = {n["metadata"]["name"] for n in nodes if condition(n, "Ready").get("status") == "Unknown"}
        if not any(taints.values()) and not unready:
            return
        now = self._client.now()
        for pod in await self._client.views(PODS, stay):
            if pod.is_leaving or not pod.node:
                continue
            end = leaves_at(pod, taints.get(pod.node, ()), now)
            if pod.is_ready and pod.node in unready:
                await self._mark(pod.namespace, pod.name)
            if end is not None and end <= now:
                await self._evict(pod.namespace, pod.name)

    async def _mark(self, namespace: str, name: str) -> None:
        pod, now = await self._client.find(PODS, namespace, name), rfc3339(self._client.now())
        if pod is None:
            return
        await self._client.change(PODS, pod, lambda live: not_ready(live, now), part="status")
        await self._events.record(pod, "Warning", "NodeNotReady", "Node is not ready")

    async def _evict(self, namespace: str, name: str) -> None:
        pod = await self._client.find(PODS, namespace, name)
        if pod is None or at(pod, "metadata.deletionTimestamp"):
            return
        text = f"Marking for deletion Pod {namespace}/{name}"
        await self._evictions.record(pod, "Normal", "TaintManagerEviction", text)
        await self._client.remove(PODS, pod)

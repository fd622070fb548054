"""Clears away pods that nobody will ever end: those of nodes that are gone, and those that were deleted without one."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

from msgspec import DecodeError, Struct, convert
from msgspec.json import Decoder

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import NODES, PODS, ControllerClient
from pykubelet.apiserver.controllers.conditions import conditioned
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.store.port import Entry

log = logging.getLogger(__name__)

_QUARANTINE: Final = 40.0
"""Seconds that a node has to be missing: it may be about to register anew."""
_PERIOD: Final = 20.0
_AT_ONCE: Final = 500
"""Pods that are looked into before others get their turn."""
_WHERE: Final = "pods.where"


class _Metadata(Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _Spec(Struct, rename="camel"):
    node_name: str | None = None


class _Pod(Struct):
    """All that is read of one: each of thousands is looked at after each of its changes."""

    metadata: _Metadata
    spec: _Spec


_decode: Final = Decoder(_Pod).decode


class Where(Struct, frozen=True, gc=False):
    namespace: str
    name: str
    node: str
    is_deleted: bool


class PodGarbageCollector:
    def __init__(self, client: ControllerClient, *, quarantine: float = _QUARANTINE) -> None:
        self._client = client
        self._quarantine = quarantine
        self._missing: dict[str, float] = {}

    async def run(self) -> None:
        await self._client.follow(self.sync, NODES, most=_PERIOD)

    async def sync(self) -> None:
        there = await self._client.names(NODES)
        pods = [where async for where in self._places()]
        now = asyncio.get_running_loop().time()
        missing = {pod.node for pod in pods if pod.node} - there
        self._missing = {node: self._missing.get(node, now) for node in missing}
        for pod in pods:
            is_orphan = pod.node in self._missing and now - self._missing[pod.node] >= self._quarantine
            if is_orphan or (pod.is_deleted and not pod.node):
                why = f"node {pod.node} is gone" if is_orphan else "it was never scheduled"
                with self._client.apart(f"pod {pod.namespace}/{pod.name}"):
                    await self._collect(pod.namespace, pod.name, why)

    async def _places(self) -> AsyncIterator[Where]:
        """Without those that cannot be read."""
        for number, entry in enumerate(await self._client.entries(PODS)):
            found = entry.cache.get(_WHERE)
            if found is None:
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
                with self._client.apart(entry.key):
                    found = entry.cache[_WHERE] = self._place(entry)
            if found is not None:
                yield found

    def _place(self, entry: Entry) -> Where:
        namespace, name = entry.key.rsplit("/", 2)[1:]
        try:
            pod = _decode(entry.value)
        except DecodeError:  # another server may have written it, in another form
            pod = convert(self._client.read(self._client.resource(PODS), entry), _Pod)
        return Where(namespace, name, pod.spec.node_name or "", pod.metadata.deletion_timestamp is not None)

    async def _collect(self, namespace: str, name: str, why: str) -> None:
        pod = await self._client.find(PODS, namespace, name)
        if pod is None:
            return
        if at(pod, "spec.nodeName") and await self._client.find(NODES, "", at(pod, "spec.nodeName")):
            return
        log.info("pod %s/%s is removed: %s", namespace, name, why)
        now = rfc3339(self._client.now())
        await self._client.change(PODS, pod, lambda live: failed(live, now), part="status")
        await self._client.remove(PODS, pod, grace=0)


def failed(pod: Object, now: str) -> Object | None:
    """A pod of which nothing more will be heard."""
    status: dict[str, Any] = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed") or not at(pod, "spec.nodeName"):
        return None
    disrupted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastProbeTime": None,
    }
    return conditioned({**pod, "status": {**status, "phase": "Failed"}}, disrupted, now)

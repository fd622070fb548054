"""Clears away pods that nobody will ever end: those of nodes that are gone, and those that were deleted without one."""

import asyncio
import logging
from typing import Any, Final

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import NODES, PODS, ControllerClient
from pykubelet.apiserver.controllers.conditions import conditioned
from pykubelet.apiserver.objects import Object, at

log = logging.getLogger(__name__)

_QUARANTINE: Final = 40.0
"""Seconds that a node has to be missing: it may be about to register anew."""
_PERIOD: Final = 20.0
Where = tuple[str, str, str, bool]
"""namespace, name, node, whether it is being deleted"""


def where(pod: Object) -> Where:
    metadata = pod["metadata"]
    return (
        metadata.get("namespace", ""),
        metadata["name"],
        at(pod, "spec.nodeName", ""),
        "deletionTimestamp" in metadata,
    )


class PodGarbageCollector:
    def __init__(self, client: ControllerClient, *, quarantine: float = _QUARANTINE) -> None:
        self._client = client
        self._quarantine = quarantine
        self._missing: dict[str, float] = {}

    async def run(self) -> None:
        await self._client.follow(self.sync, NODES, most=_PERIOD)

    async def sync(self) -> None:
        there = await self._client.names(NODES)
        pods = await self._client.views(PODS, where)
        now = asyncio.get_running_loop().time()
        missing = {node for _, _, node, _ in pods if node} - there
        self._missing = {node: self._missing.get(node, now) for node in missing}
        for namespace, name, node, is_deleted in pods:
            is_orphan = node in self._missing and now - self._missing[node] >= self._quarantine
            if is_orphan or (is_deleted and not node):
                why = f"node {node} is gone" if is_orphan else "it was never scheduled"
                with self._client.apart(f"pod {namespace}/{name}"):
                    await self._collect(namespace, name, why)

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

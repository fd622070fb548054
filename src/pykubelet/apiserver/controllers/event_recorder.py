"""Writes the events in which a controller tells people what it did, and why."""

from typing import Final

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import EVENTS, ControllerClient
from pykubelet.apiserver.controllers.event_correlation import Correlation, EventCorrelator, Told
from pykubelet.apiserver.objects import Object

_LONGEST_BASE: Final = 236
_LONGEST: Final = 1024


class EventRecorder:
    def __init__(self, client: ControllerClient, component: str) -> None:
        self._client = client
        self._component = component
        self._correlator = EventCorrelator()
        self._last_name = 0

    async def record(self, about: Object, kind: str, reason: str, message: str, *, action: str = "") -> None:
        """`kind`: Normal or Warning. An event that cannot be stored is lost: it stands in nothing's way."""
        now, metadata = self._client.now(), about["metadata"]
        source = (
            about["kind"],
            metadata.get("namespace", ""),
            metadata["name"],
            metadata.get("uid", ""),
            about["apiVersion"],
        )
        group = (*source, kind, reason, action)
        found = self._correlator.correlate(source, group, message, now.timestamp())
        if found is None:
            return
        namespace, time = metadata.get("namespace") or "default", rfc3339(now)
        if found.told is not None and await self._repeat(namespace, found, time):
            return
        base = metadata["name"][:_LONGEST_BASE].rstrip(".-")
        self._last_name = max(self._last_name + 1, int(now.timestamp() * 1e9))
        name = f"{base}.{self._last_name:x}"
        event = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "kind": about["kind"],
                "apiVersion": about["apiVersion"],
                "name": metadata["name"],
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
                **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
            },
            "reason": reason,
            "message": found.message[:_LONGEST],
            "type": kind,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            **({"action": action} if action else {}),
        }
        if await self._client.create(EVENTS, event):
            self._correlator.tell(found.key, Told(name, 1, time))

    async def _repeat(self, namespace: str, found: Correlation, time: str) -> bool:
        """Count one that is there already; whether it still is."""
        told = found.told
        event = await self._client.find(EVENTS, namespace, told.name) if told is not None else None
        if told is None or event is None:
            return False
        told.count += 1
        news = {"count": told.count, "lastTimestamp": time, "message": found.message[:_LONGEST]}
        return await self._client.change(EVENTS, event, lambda live: {**live, **news}) is not None

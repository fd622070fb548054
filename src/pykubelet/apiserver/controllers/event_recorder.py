"""Writes the events in which a controller tells people what it did, and why."""

from typing import Final

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import EVENTS, ControllerClient
from pykubelet.apiserver.objects import Object

_LONGEST_BASE: Final = 236
_LONGEST: Final = 1024


class EventRecorder:
    def __init__(self, client: ControllerClient, component: str) -> None:
        self._client = client
        self._component = component

    async def record(self, about: Object, kind: str, reason: str, message: str, *, action: str = "") -> None:
        """`kind`: Normal or Warning. An event that cannot be stored is lost: it stands in nothing's way."""
        now, metadata = self._client.now(), about["metadata"]
        base, time = metadata["name"][:_LONGEST_BASE].rstrip(".-"), rfc3339(now)
        event = {
            "metadata": {
                "name": f"{base}.{int(now.timestamp() * 1e9):x}",
                "namespace": metadata.get("namespace") or "default",
            },
            "involvedObject": {
                "kind": about["kind"],
                "apiVersion": about["apiVersion"],
                "name": metadata["name"],
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
                **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
            },
            "reason": reason,
            "message": message[:_LONGEST],
            "type": kind,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            **({"action": action} if action else {}),
        }
        await self._client.create(EVENTS, event)

"""An API server's pods in memory, behind the PodApi port: real uids, versions and patches, and failures on demand."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pykubelet.api import codec
from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.struct import changed
from pykubelet.base.errors import Conflict, NotFound

Call = tuple[str, str]
"""The verb and the pod's name."""

_MERGED = {"conditions": "type", "podIPs": "ip", "hostIPs": "ip"}


def patched(status: PodStatus, patch: Mapping[str, Any]) -> PodStatus:
    """As much of the strategic merge patch as the status of a pod needs."""
    values = codec.to_builtins(status)
    for field, change in patch.items():
        if change is None:
            values.pop(field, None)
        elif field in _MERGED:
            values[field] = _merged(values.get(field, []), change, _MERGED[field])
        else:
            values[field] = change
    return codec.decode(PodStatus, codec.encode(values))


def _merged(before: list[dict[str, Any]], patch: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    if {"$patch": "replace"} in patch:
        return [item for item in patch if "$patch" not in item]
    items = {item[key]: item for item in before}
    for item in patch:
        if item.get("$patch") == "delete":
            items.pop(item[key], None)
        else:
            merged = {**items.get(item[key], {}), **item}
            items[item[key]] = {name: value for name, value in merged.items() if value is not None}
    return list(items.values())


class MemoryPods:
    """`faults` spoil the next calls: an error to raise, or None to let one pass."""

    def __init__(self, *pods: Pod) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        self.calls: list[Call] = []
        self.patches: list[Mapping[str, Any]] = []
        self.deleted: list[tuple[str, str, int]] = []
        self.faults: deque[Exception | None] = deque()
        self.away: Callable[[], Exception] | None = None
        """While set, every call fails with what it makes."""
        self.latency = 0.01
        self.open: list[str] = []
        self.most_open = 0
        self._version = 100
        for pod in pods:
            self.put(pod)

    def put(self, pod: Pod) -> Pod:
        """Create or change a pod, as others would. -> the pod with its new version."""
        self._version += 1
        pod = changed(pod, metadata=changed(pod.metadata, resource_version=str(self._version)))
        self.pods[pod.metadata.namespace, pod.metadata.name] = pod
        return pod

    def remove(self, name: str, namespace: str = "default") -> None:
        del self.pods[namespace, name]

    def ask_to_delete(self, name: str, namespace: str = "default") -> Pod:
        """Begin a graceful deletion."""
        pod = self.pods[namespace, name]
        return self.put(
            changed(pod, metadata=changed(pod.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))
        )

    def status(self, name: str, namespace: str = "default") -> PodStatus:
        return self.pods[namespace, name].status

    async def get(self, namespace: str, name: str) -> Pod:
        await self._call("get", name)
        return self._found(namespace, name)

    async def patch_status(self, namespace: str, name: str, uid: str, patch: Mapping[str, Any]) -> Pod:
        await self._call("patch", name)
        pod = self._found(namespace, name, uid)
        assert patch["metadata"] == {"uid": uid}
        codec.encode(patch)  # it can be sent
        self.patches.append(patch["status"])
        status = patched(pod.status, patch["status"])
        return pod if status == pod.status else self.put(changed(pod, status=status))

    async def create(self, pod: Pod) -> Pod:
        await self._call("create", pod.metadata.name)
        return self.put(pod)

    async def delete(self, namespace: str, name: str, uid: str, grace: int) -> None:
        await self._call("delete", name)
        self._found(namespace, name, uid)
        self.deleted.append((name, uid, grace))
        del self.pods[namespace, name]

    async def _call(self, verb: str, name: str) -> None:
        self.calls.append((verb, name))
        assert name not in self.open, "one request per pod at a time"
        self.open.append(name)
        self.most_open = max(self.most_open, len(self.open))
        try:
            await asyncio.sleep(self.latency)
        finally:
            self.open.remove(name)
        fault = self.faults.popleft() if self.faults else None
        if fault is not None:
            raise fault
        if self.away is not None:
            raise self.away()

    def _found(self, namespace: str, name: str, uid: str = "") -> Pod:
        pod = self.pods.get((namespace, name))
        if pod is None:
            raise NotFound(f"there is no pod {namespace}/{name}")
        if uid and pod.metadata.uid != uid:
            raise Conflict(f"{namespace}/{name} is {pod.metadata.uid}, not {uid}")
        return pod

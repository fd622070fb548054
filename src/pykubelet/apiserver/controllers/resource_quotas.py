"""Counts what is used of each quota, whenever something was made or has gone: writes are charged as they come, and this
puts right what only goes."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from pykubelet.apiserver.controllers.client import PODS, ControllerClient, Kind
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.store.port import Event
from pykubelet.apiserver.strategies.quota_usage import (
    Usage,
    added,
    amounts,
    counted,
    in_scope,
    masked,
    texts,
    usage,
)

QUOTAS: Final[Kind] = ("", "resourcequotas")
_LOOK_AGAIN: Final = 300.0
_PAUSE: Final = 0.1
"""Between two looks: of a hundred pods that go, few are counted one by one."""
_ENDED: Final = (b'"phase":"Succeeded"', b'"phase":"Failed"', b'"deletionTimestamp":')
_OVER: Final = ("Succeeded", "Failed")
_LONG_AGO: Final = datetime.fromisoformat("0001-01-01T00:00:00Z")


def slim(pod: Object) -> tuple[Object, Usage]:
    """As much of a pod as quotas are about, and what it takes for as long as it takes anything."""
    spec = pod.get("spec") or {}
    kinds = ("containers", "initContainers")
    containers = {kind: [_slim_container(each) for each in spec.get(kind) or ()] for kind in kinds}
    rest = ("activeDeadlineSeconds", "priorityClassName", "affinity", "overhead", "resources")
    kept = {name: spec[name] for name in rest if name in spec}
    whole = {"spec": {**kept, **containers}, "status": {"phase": at(pod, "status.phase", "")}}
    times = ("deletionTimestamp", "deletionGracePeriodSeconds")
    whole["metadata"] = {name: pod["metadata"][name] for name in times if name in pod["metadata"]}
    running = {**whole, "metadata": {}, "status": {}}
    return whole, usage(PODS, running, _LONG_AGO)


def _slim_container(container: dict[str, Any]) -> dict[str, Any]:
    return {name: container[name] for name in ("name", "resources", "restartPolicy") if name in container}


class ResourceQuotaController:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._prefix = client.resource(QUOTAS).prefix
        self._limited: set[str] = set()
        """The namespaces that have quotas."""
        self._changed: set[str] = set()

    async def run(self) -> None:
        async with self._client.informer(wanted=self._matters) as informer:
            while True:
                await self.sync()
                await asyncio.sleep(_PAUSE)
                await informer.wait(_LOOK_AGAIN if not self._changed else _PAUSE)

    def _matters(self, event: Event) -> bool:
        """Most of what happens in a namespace leaves its quotas as they are, and most namespaces have none."""
        is_quota = event.key.startswith(self._prefix)
        if not is_quota and not self._limited:
            return False
        resource = self._client.resources.at(event.key)
        if resource is None or not resource.namespaced:
            return False
        namespace = event.key.removeprefix(resource.prefix).partition("/")[0]
        if not is_quota and namespace not in self._limited:
            return False
        is_old_pod = resource.plural == "pods" and event.kind == "put" and not event.is_new
        if is_old_pod and not any(each in event.value for each in _ENDED):
            return False
        self._limited |= {namespace} if is_quota else set()
        self._changed.add(namespace)
        return True

    async def sync(self) -> None:
        """Look at the namespaces where something has changed, or at all."""
        changed, self._changed = self._changed, set()
        quotas = await self._client.all(QUOTAS)
        self._limited = {quota["metadata"]["namespace"] for quota in quotas}
        for quota in quotas:
            namespace = quota["metadata"]["namespace"]
            if changed and namespace not in changed:
                continue
            with self._client.apart(f"quota {namespace}/{quota['metadata']['name']}"):
                if not await self.count(quota):
                    self._changed.add(namespace)

    async def count(self, quota: Object) -> bool:
        """Whether it says now what is used; if not, somebody was charged meanwhile and it has to be looked at again."""
        metadata, hard = quota["metadata"], at(quota, "spec.hard", {})
        charges = self._client.backend.charges.get(metadata["namespace"], ())
        pending = [each.delta for each in charges if each.uid == metadata["uid"]]
        used: Usage = {name: amount - amount for name, amount in amounts(hard).items()}
        for resource in self._resources(hard):
            for found in await self._taken(quota, resource):
                used = added(used, masked(found, hard))
        for delta in pending:
            used = added(used, masked(delta, hard))
        status = {name: value for name, value in (("hard", dict(hard)), ("used", texts(used))) if value}
        if quota.get("status") == status:
            return not pending
        changed = await self._client.change(QUOTAS, quota, lambda live: _counted(live, quota, status), part="status")
        return changed is None or (at(changed, "status") == status and not pending)

    def _resources(self, hard: dict[str, Any]) -> Iterator[Resource]:
        """What the quota is about, each place in the store once."""
        seen: set[str] = set()
        for resource in self._client.resources:
            is_new = resource.namespaced and resource.is_stored and resource.prefix not in seen
            if is_new and counted((resource.group, resource.plural), hard):
                seen.add(resource.prefix)
                yield resource

    async def _taken(self, quota: Object, resource: Resource) -> list[Usage]:
        kind, namespace, now = (resource.group, resource.plural), quota["metadata"]["namespace"], self._client.now()
        if kind != PODS:
            objects = await self._client.all(kind, namespace, whole=True)
            return [usage(kind, each, now) for each in objects if in_scope(quota, kind, each)]
        found = []
        for pod, whole in await self._client.views(PODS, slim, namespace, whole=True):
            if in_scope(quota, kind, pod):
                may_be_over = pod["metadata"] or pod["status"]["phase"] in _OVER
                found.append(usage(PODS, pod, now) if may_be_over else whole)
        return found


def _counted(live: Object, seen: Object, status: dict[str, Any]) -> Object | None:
    """Only if nobody was charged since it was looked at."""
    is_same = live["metadata"]["resourceVersion"] == seen["metadata"]["resourceVersion"]
    return {**live, "status": status} if is_same else None

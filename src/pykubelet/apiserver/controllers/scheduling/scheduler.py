"""Finds a node for every pod that has none: at once when there is room, else as soon as something changes; for one that
is more important than others, these make room."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Final

from msgspec.structs import replace as changed

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.meta import LabelSelector, ObjectMeta
from pykubelet.api.objects import ObjectReference
from pykubelet.api.pod import PodSpec, PodStatus
from pykubelet.api.rules.resources import spec_in_force
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import CLAIMS, NAMESPACES, NODES, PODS, VOLUMES, ControllerClient, Kind
from pykubelet.apiserver.controllers.conditions import condition, conditioned
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.resource_claims import DEVICE_CLAIMS
from pykubelet.apiserver.controllers.scheduling.board import Board, Seen
from pykubelet.apiserver.controllers.scheduling.device_claims import DEVICE_CLASSES, SLICES, DeviceClaims
from pykubelet.apiserver.controllers.scheduling.device_pools import Unallocatable
from pykubelet.apiserver.controllers.scheduling.devices import PodDevices
from pykubelet.apiserver.controllers.scheduling.fit import Place, Wish, is_waiting, message, place, wish
from pykubelet.apiserver.controllers.scheduling.pod_affinity import neighbour
from pykubelet.apiserver.controllers.scheduling.preemption import Budget, Guest
from pykubelet.apiserver.controllers.scheduling.volume_limits import node_volumes
from pykubelet.apiserver.controllers.scheduling.volumes import (
    PodVolumes,
    Settlement,
    Storage,
    claims_in_use,
)
from pykubelet.apiserver.controllers.volumes.attachments import ATTACHMENTS, DRIVERS
from pykubelet.apiserver.controllers.volumes.binder import CLASSES
from pykubelet.apiserver.controllers.volumes.binding_rules import (
    SELECTED_NODE,
    annotated,
    annotation,
    claim_names,
    kept_for,
)
from pykubelet.apiserver.objects import Object, at, has_ended
from pykubelet.apiserver.schema.resources import ROOT
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Event
from pykubelet.apiserver.verbs.binding import Binding, bind_pod

log = logging.getLogger(__name__)

NAME: Final = "default-scheduler"
CSI_NODES: Final[Kind] = ("storage.k8s.io", "csinodes")
CAPACITIES: Final[Kind] = ("storage.k8s.io", "csistoragecapacities")
BUDGETS: Final[Kind] = ("policy", "poddisruptionbudgets")
DISRUPTED: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "lastProbeTime": None,
    "reason": "PreemptionByScheduler",
    "message": f"{NAME}: preempting to accommodate a higher priority pod",
}
_UNMOVED: Final = 2**31 - 1
"""The priority of a pod that stays whatever becomes of its object: its node has it from elsewhere."""
_LOOK_AGAIN: Final = 60.0
_NEW: Final = timedelta(seconds=10)
"""For how long nothing is said of a claim that a pod waits for, and that somebody makes right now."""
_PODS: Final = f"{ROOT}pods/"
_ENDED: Final = (b'"phase":"Succeeded"', b'"phase":"Failed"')


def seen(pod: Object) -> Seen:
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    is_over = has_ended(pod)
    waits = is_waiting(pod, NAME)
    wanted: Wish | None = None
    if waits or (spec.get("nodeName") and not is_over):
        try:
            wanted = wish(_spec_in_force(pod))
        except (DecodeError, ValueError) as error:
            log.warning("pod %s/%s cannot be scheduled: %s", metadata.get("namespace"), metadata["name"], error)
    return Seen(
        metadata.get("namespace", ""),
        metadata["name"],
        "" if is_over else spec.get("nodeName", ""),
        at(pod, "status.nominatedNodeName", ""),
        bool(metadata.get("deletionTimestamp")),
        waits and wanted is not None,
        _UNMOVED if MIRROR_ANNOTATION in (metadata.get("annotations") or {}) else spec.get("priority") or 0,
        spec.get("preemptionPolicy") != "Never",
        metadata.get("creationTimestamp", ""),
        at(pod, "status.startTime", ""),
        wanted,
        neighbour(metadata.get("namespace", ""), metadata.get("labels") or {}, wanted.spec if wanted else PodSpec()),
    )


def _spec_in_force(pod: Object) -> PodSpec:
    """Most pods have what they ask for, and need no look at more than that."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    everyone = (*at(spec, "containers", ()), *at(spec, "initContainers", ()))
    asked = {each.get("name"): each.get("resources") for each in everyone}
    seen = (*at(status, "containerStatuses", ()), *at(status, "initContainerStatuses", ()))
    typed = convert(PodSpec, spec)
    if all((each.get("resources") or {}) == (asked.get(each.get("name")) or {}) for each in seen):
        return typed
    return spec_in_force(typed, convert(PodStatus, status))


def namespace_labels(namespace: Object) -> tuple[str, dict[str, str]]:
    return namespace["metadata"]["name"], at(namespace, "metadata.labels", {})


def budget(obj: Object) -> Budget:
    """One that cannot be read protects nobody."""
    metadata = obj["metadata"]
    try:
        selector = convert(LabelSelector, at(obj, "spec.selector")) if at(obj, "spec.selector") else None
    except DecodeError:
        selector = None
    allowed, disrupted = at(obj, "status.disruptionsAllowed", 0), at(obj, "status.disruptedPods", {})
    return Budget(metadata["namespace"], selector, allowed, frozenset(disrupted))


class Scheduler:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._events = EventRecorder(client, NAME)
        self._storage: Storage | None = None
        self._device_claims = DeviceClaims(client)

    async def run(self) -> None:
        kinds = (
            *(PODS, NODES, CLAIMS, VOLUMES, CLASSES, CSI_NODES, CAPACITIES, ATTACHMENTS),
            *(DEVICE_CLAIMS, DEVICE_CLASSES, SLICES),
        )
        await self._client.follow(self.sync, *kinds, wanted=_matters, most=_LOOK_AGAIN)

    async def sync(self) -> None:
        """Look once at all that wait: the most important first, then the oldest."""
        pods = await self._client.views(PODS, seen)
        waiting = sorted(
            (pod for pod in pods if pod.is_waiting), key=lambda pod: (-pod.priority, pod.created, pod.name)
        )
        if not waiting:
            return
        self._storage = None
        self._device_claims.forget()
        board = Board(pods, await self._client.views(NODES, place), await self._namespaces(pods))
        for each in waiting:
            with self._client.apart(f"pod {each.namespace}/{each.name}"):
                await self._place(board, each)

    async def _place(self, board: Board, each: Seen) -> None:
        found = await self._client.find(PODS, each.namespace, each.name)
        pod = None if found is None else seen(found)
        if found is None or pod is None or not pod.is_waiting:
            return
        volumes = PodVolumes(found, await self._stored()) if claim_names(found) else None
        devices = await self._device_claims.of(found)
        if devices is not None and self._device_claims.rests(found):
            return
        trouble = (volumes.trouble if volumes is not None else "") or (devices.trouble if devices is not None else "")
        if trouble and devices is not None and devices.is_awaited and self._is_new(found):
            return  # its claim is being made, and wakes us
        if trouble:
            why = f"0/{board.size} nodes are available: {trouble}." if board.size else message(())
            await self._leave(found, why, pod.nominated)
            return
        takes_long = board.takes_long(pod) or any(each is not None and each.takes_long for each in (volumes, devices))
        choose = partial(board.choose, pod, volumes, devices)
        try:
            node, faults = await asyncio.to_thread(choose) if takes_long else choose()
            if not node:
                await self._leave(found, *await self._make_room(board, pod, found, faults, volumes, devices))
                return
        except Unallocatable as error:
            why = f'running "DynamicResources" filter plugin: {error}'
            await self._leave(found, why, pod.nominated, reason="SchedulerError")
            return
        if await self._settled(volumes, board.place(node)) and await self._given(devices, found, board.place(node)):
            if await self._bind(found, node):
                self._storage = None if volumes is not None else self._storage
                board.put(changed(pod, node=node), node)
            elif devices is not None:
                await self._device_claims.give_up(found)

    async def _stored(self) -> Storage:
        """Looked at once, for those who need it."""
        if self._storage is None:
            client, users = self._client, dict[tuple[str, str], frozenset[tuple[str, str]]]()
            pods = await client.views(PODS, claims_in_use)
            for pod in pods:
                for name in pod.names:
                    key = pod.key[0], name
                    users[key] = users.get(key, frozenset()) | {pod.key}
            claims = {
                (at(each, "metadata.namespace"), at(each, "metadata.name")): each for each in await client.all(CLAIMS)
            }
            volumes = {at(each, "metadata.name"): each for each in await client.all(VOLUMES)}
            classes = {at(each, "metadata.name"): each for each in await client.all(CLASSES)}
            csi_nodes, attachments = await client.all(CSI_NODES), await client.all(ATTACHMENTS)
            drivers = await client.all(DRIVERS)
            self._storage = Storage(
                claims=claims,
                volumes=volumes,
                classes=classes,
                users=users,
                nodes=node_volumes(csi_nodes, attachments, pods, claims, volumes, classes),
                measured=frozenset(at(each, "metadata.name") for each in drivers if at(each, "spec.storageCapacity")),
                capacities=await client.all(CAPACITIES),
            )
        return self._storage

    async def _settled(self, volumes: PodVolumes | None, node: Place) -> bool:
        """Whether all that the pod claims is there; else it is seen to, and the pod waits for it."""
        found = volumes.settlement(node) if volumes is not None else Settlement()
        if found is None or found.is_empty:
            return found is not None
        for volume, claim in found.kept:
            await self._client.change(VOLUMES, volume, partial(kept_for, claim=claim))
        for claim in found.made:
            chosen = {SELECTED_NODE: node.name}
            if annotation(claim, SELECTED_NODE) != node.name:
                await self._client.change(CLAIMS, claim, partial(annotated, more=chosen))
        self._storage = None
        return False

    def _is_new(self, pod: Object) -> bool:
        return bool(pod["metadata"].get("creationTimestamp", "") > rfc3339(self._client.now() - _NEW))

    async def _given(self, devices: PodDevices | None, pod: Object, node: Place) -> bool:
        """Whether all that the pod claims of devices is its own now; else it says why not."""
        why = await self._device_claims.reserve(devices, pod, node) if devices is not None else ""
        if why:
            await self._leave(pod, why, at(pod, "status.nominatedNodeName", ""), reason="SchedulerError")
        return not why

    async def _namespaces(self, pods: list[Seen]) -> dict[str, Mapping[str, str]]:
        """Nobody asks for their labels when nobody is choosy."""
        if not any(pod.neighbour.is_picky for pod in pods):
            return {}
        return dict(await self._client.views(NAMESPACES, namespace_labels))

    async def _make_room(
        self,
        board: Board,
        pod: Seen,
        obj: Object,
        faults: dict[str, list[str]],
        volumes: PodVolumes | None,
        devices: PodDevices | None,
    ) -> tuple[str, str]:
        """-> why the pod has no node yet, and the one on which others leave for it. Raises Unallocatable."""
        why = message(faults.values())
        if not faults:
            return why, pod.nominated
        if devices is not None:
            if devices.is_too_much:
                self._device_claims.tire(obj)
            is_released = await self._device_claims.release(devices, obj)
            why += " deallocation of ResourceClaim completed," if is_released else " still not schedulable,"
        budgets = await self._client.views(BUDGETS, budget)
        make_room = partial(board.make_room, pod, faults, budgets, volumes, devices)
        takes_long = board.takes_long(pod) or any(each is not None and each.takes_long for each in (volumes, devices))
        found, no = await asyncio.to_thread(make_room) if takes_long else make_room()
        if found is None:
            return f"{why} preemption: {no}" if no else why.rstrip(","), pod.nominated
        for victim in found.victims:
            await self._drive_out(victim, obj, found.node)
        for other in board.nominate(changed(pod, nominated=found.node), found.node):
            await self._withdraw(other)
        return why, found.node

    async def _drive_out(self, victim: Guest, by: Object, node: str) -> None:
        pod, now = await self._client.find(PODS, victim.namespace, victim.name), rfc3339(self._client.now())
        if pod is None or at(pod, "metadata.deletionTimestamp"):
            return
        await self._client.change(PODS, pod, lambda live: conditioned(live, DISRUPTED, now), part="status")
        await self._client.remove(PODS, pod)
        text = f"Preempted by pod {by['metadata']['uid']} on node {node}"
        await self._events.record(pod, "Normal", "Preempted", text, action="Preempting")
        log.info("pod %s/%s makes room on %s for %s", victim.namespace, victim.name, node, by["metadata"]["name"])

    async def _withdraw(self, pod: Seen) -> None:
        """The room that was being made for it is now for another."""
        found = await self._client.find(PODS, pod.namespace, pod.name)
        if found is not None:
            await self._client.change(PODS, found, lambda live: nominated(live, ""), part="status")

    async def _bind(self, pod: Object, node: str) -> bool:
        """Whether it is on this node now: somebody else may have been faster, or it is gone."""
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        binding = Binding(ObjectMeta(name=name, uid=metadata.get("uid", "")), ObjectReference(kind="Node", name=node))
        try:
            bound = await bind_pod(self._client.writer, namespace, name, binding)
        except ApiError as error:
            log.info("pod %s/%s is not bound to %s: %s", namespace, name, node, error.message)
            return False
        text = f"Successfully assigned {namespace}/{name} to {node}"
        await self._events.record(bound, "Normal", "Scheduled", text, action="Binding")
        return True

    async def _leave(self, pod: Object, why: str, node: str, reason: str = "Unschedulable") -> None:
        """It stays as it is, and says why. The same is not said twice."""
        was = condition(pod, "PodScheduled")
        is_told = was.get("status") == "False" and was.get("message") == why
        if is_told and at(pod, "status.nominatedNodeName", "") == node:
            return
        now = rfc3339(self._client.now())
        changed_pod = await self._client.change(
            PODS, pod, lambda live: unschedulable(live, why, now, node, reason), part="status"
        )
        if changed_pod is not None and not at(changed_pod, "spec.nodeName") and not is_told:
            await self._events.record(changed_pod, "Warning", "FailedScheduling", why, action="Scheduling")


def unschedulable(pod: Object, why: str, now: str, node: str = "", reason: str = "Unschedulable") -> Object | None:
    if at(pod, "spec.nodeName"):
        return None
    refused = {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "reason": reason,
        "message": why,
    }
    return nominated(conditioned(pod, refused, now), node)


def nominated(pod: Object, node: str) -> Object:
    status = {name: value for name, value in pod.get("status", {}).items() if name != "nominatedNodeName"}
    return {**pod, "status": {**status, **({"nominatedNodeName": node} if node else {})}}


def _matters(event: Event) -> bool:
    """Most news of pods is that they run on: that gives nobody a node."""
    if event.kind == "delete" or not event.key.startswith(_PODS):
        return True
    return b'"nodeName":' not in event.value or any(each in event.value for each in _ENDED)

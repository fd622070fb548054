"""Scales what horizontal pod autoscalers are for: every fifteen seconds by what its pods use."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from pykubelet.api.quantity import Quantity, parse
from pykubelet.api.selectors import Selector, matches, parse_labels
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.autoscaling.behavior import Past, decided, remembered, scaled
from pykubelet.apiserver.controllers.autoscaling.replicas import Proposal, by_utilization, by_value, metered
from pykubelet.apiserver.controllers.client import PODS, ControllerClient, Kind
from pykubelet.apiserver.controllers.conditions import with_condition
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.keyed_work import Key
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.resources import Resource, ScalePaths
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.store.port import Event
from pykubelet.apiserver.verbs.scale import scale_of

log = logging.getLogger(__name__)

AUTOSCALERS: Final[Kind] = ("autoscaling", "horizontalpodautoscalers")
Measure = Callable[[list[Object]], Awaitable[list[Object]]]
"""Pods -> what each of those that run uses, as PodMetrics."""
_PERIOD: Final = 15.0
_UNSERVED: Final = {
    "Pods": ("FailedGetPodsMetric", "failed to get pods metric value", "custom"),
    "Object": ("FailedGetObjectMetric", "failed to get object metric value", "custom"),
    "External": ("FailedGetExternalMetric", "failed to get external metric value", "external"),
}


class Failed(Exception):
    """Why it cannot be said how many there should be: a reason and a sentence."""

    def __init__(self, reason: str, message: str, told: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.told = told or message


class Target(Struct, frozen=True):
    resource: Resource
    obj: Object
    wanted: int
    there: int
    selector: str


class Look(Struct):
    """One autoscaler as it is looked at: its status comes to say what was found."""

    hpa: Object
    status: dict[str, Any]
    now: str

    def say(self, kind: str, is_true: bool, reason: str, message: str) -> None:
        new = {"type": kind, "status": "True" if is_true else "False", "reason": reason, "message": message}
        self.status["conditions"] = with_condition(self.status.get("conditions", ()), new, self.now)


class AutoscalerController:
    def __init__(self, client: ControllerClient, measure: Measure) -> None:
        self._client = client
        self._measure = measure
        self._events = EventRecorder(client, "horizontal-pod-autoscaler")
        self._pasts: dict[Key, Past] = {}
        self._selectors: dict[Key, Selector] = {}

    async def run(self) -> None:
        async with self._client.informer(AUTOSCALERS, wanted=_is_new) as informer:
            due = asyncio.get_running_loop().time()
            while True:
                await informer.wait(max(0.0, due - asyncio.get_running_loop().time()))
                due = asyncio.get_running_loop().time() + _PERIOD
                await self.sync()

    async def sync(self) -> None:
        found = {(each["metadata"]["namespace"], each["metadata"]["name"]): each
                 for each in await self._client.all(AUTOSCALERS)}  # fmt: skip
        self._pasts = {key: past for key, past in self._pasts.items() if key in found}
        self._selectors = {key: each for key, each in self._selectors.items() if key in found}
        looks = await asyncio.gather(*(self.look_at(*each) for each in found.items()), return_exceptions=True)
        for key, result in zip(found, looks, strict=True):  # what is wrong with one stands in nobody else's way
            if isinstance(result, Exception):
                log.error("autoscaler %s cannot be looked at", "/".join(key), exc_info=result)

    async def look_at(self, key: Key, hpa: Object) -> None:
        look = Look(hpa, copied(hpa.get("status") or {}), rfc3339(self._client.now()))
        try:
            await self._scale(key, look)
        except Failed as error:
            await self._events.record(hpa, "Warning", error.reason, error.told)
        if look.status != hpa.get("status"):
            status = look.status
            await self._client.change(AUTOSCALERS, hpa, lambda live: {**live, "status": status}, part="status")

    async def _scale(self, key: Key, look: Look) -> None:
        hpa, spec, now = look.hpa, look.hpa["spec"], self._client.now()
        target = await self._target(look)
        current, least, most = target.wanted, spec.get("minReplicas", 1), spec["maxReplicas"]
        past = self._pasts.setdefault(key, Past(((current, now),)))
        behavior, metrics = spec.get("behavior"), list[dict[str, Any]]()
        why = ""
        if current == 0 and least != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            look.say("ScalingActive", False, "ScalingDisabled", text)
            wanted = 0
        elif current > most:
            wanted, why = most, "Current number of replicas above Spec.MaxReplicas"
        elif current < least:
            wanted, why = least, "Current number of replicas below Spec.MinReplicas"
        else:
            try:
                asked, name = await self._asked(key, look, target, metrics)
            except Failed:
                _told(look, current, at(hpa, "status.desiredReplicas", 0), metrics)
                raise
            why = f"{name} above target" if asked > current else "All metrics below target"
            decision = decided(past, current, asked, least, most, behavior, now)
            self._pasts[key] = past = remembered(past, asked, behavior, now)
            look.say("AbleToScale", True, *decision.able)
            look.say("ScalingLimited", decision.is_limited, *decision.limited)
            wanted = decision.replicas
        if wanted != current:
            await self._rescale(look, target, wanted, why, metrics)
            self._pasts[key] = scaled(past, current, wanted, behavior, now)
            look.status["lastScaleTime"] = look.now
        _told(look, current, wanted, metrics)

    # --- what is scaled

    async def _target(self, look: Look) -> Target:
        reference, namespace = look.hpa["spec"]["scaleTargetRef"], look.hpa["metadata"]["namespace"]
        group = reference.get("apiVersion", "").rpartition("/")[0]
        for resource in self._client.resources:
            if (resource.group, resource.kind) != (group, reference["kind"]) or resource.scale is None:
                continue
            obj = await self._client.find((resource.group, resource.plural), namespace, reference["name"])
            if obj is not None:
                scale = scale_of(resource, obj)
                look.say("AbleToScale", True, "SucceededGetScale",
                         "the HPA controller was able to get the target's current scale")  # fmt: skip
                replicas, status = at(scale, "spec.replicas", 0), scale["status"]
                return Target(resource, obj, replicas, status["replicas"], status.get("selector", ""))
        text = f'{reference["kind"].lower()}s "{reference["name"]}" not found'
        why = f"the HPA controller was unable to get the target's current scale: {text}"
        look.say("AbleToScale", False, "FailedGetScale", why)
        raise Failed("FailedGetScale", text)

    async def _rescale(self, look: Look, target: Target, wanted: int, why: str, metrics: list[dict[str, Any]]) -> None:
        kind = (target.resource.group, target.resource.plural)
        path = (target.resource.scale or ScalePaths()).spec_replicas
        changed = await self._client.change(kind, target.obj, lambda live: _with(live, path, wanted), part="scale")
        if changed is None:
            text = "the target was not changed"
            look.say("AbleToScale", False, "FailedUpdateScale",
                     f"the HPA controller was unable to update the target scale: {text}")  # fmt: skip
            _told(look, target.wanted, at(look.hpa, "status.desiredReplicas", 0), metrics)
            raise Failed("FailedRescale", f"New size: {wanted}; reason: {why}; error: {text}")
        look.say("AbleToScale", True, "SucceededRescale",
                 f"the HPA controller was able to update the target scale to {wanted}")  # fmt: skip
        await self._events.record(look.hpa, "Normal", "SuccessfulRescale", f"New size: {wanted}; reason: {why}")

    # --- how many there should be

    async def _asked(self, key: Key, look: Look, target: Target, metrics: list[dict[str, Any]]) -> tuple[int, str]:
        """-> the largest number that a metric asks for, and which that is. `metrics` gets what they are now."""
        pods = await self._pods(key, look, target)
        wanted, name = 0, ""
        failures: list[Failed] = []
        given = look.hpa["spec"].get("metrics") or []
        measured = await self._measure(pods)
        for metric in given:
            try:
                proposal, title, status = self._proposal(metric, target, pods, measured)
            except Failed as error:
                await self._events.record(look.hpa, "Warning", error.reason, error.told)
                failures.append(error)
                metrics.append({"type": ""})
                continue
            metrics.append(status)
            if not wanted or proposal.replicas > wanted:
                wanted, name = proposal.replicas, title
        if len(failures) >= len(given) or (failures and wanted < target.wanted):
            first = failures[0]
            text = f"the HPA was unable to compute the replica count: {first.told}"
            look.say("ScalingActive", False, first.reason, text)
            count = f"({len(failures)} invalid out of {len(given)})"
            raise Failed("FailedComputeMetricsReplicas", f"invalid metrics {count}, first error is: {first}")
        text = f"the HPA was able to successfully calculate a replica count from {name}"
        look.say("ScalingActive", True, "ValidMetricFound", text)
        return wanted, name

    async def _pods(self, key: Key, look: Look, target: Target) -> list[Object]:
        if not target.selector:
            look.say("ScalingActive", False, "InvalidSelector", "the HPA target's scale is missing a selector")
            raise Failed("SelectorRequired", "selector is required")
        selector = self._selectors[key] = parse_labels(target.selector)
        everyone = await self._client.all(PODS, key[0])
        pods = [pod for pod in everyone if matches(selector, at(pod, "metadata.labels", {}))]
        rivals = [
            name
            for (namespace, name), other in self._selectors.items()
            if namespace == key[0] and any(matches(other, at(pod, "metadata.labels", {})) for pod in pods)
        ]
        if len(rivals) > 1:
            listed = " ".join(f"{key[0]}/{name}" for name in sorted(rivals))
            text = f"pods by selector {target.selector} are controlled by multiple HPAs: [{listed}]"
            look.say("ScalingActive", False, "AmbiguousSelector", text)
            raise Failed("AmbiguousSelector", text)
        return pods

    def _proposal(
        self, metric: Mapping[str, Any], target: Target, pods: list[Object], measured: list[Object]
    ) -> tuple[Proposal, str, dict[str, Any]]:
        kind = metric["type"]
        if kind in _UNSERVED:
            reason, head, api = _UNSERVED[kind]
            name = at(metric, f"{kind.lower()}.metric.name", "")
            text = f"unable to get metric {name}: no {api} metrics API is served here"
            raise Failed(reason, f"{head}: {text}", text)
        member = "resource" if kind == "Resource" else "containerResource"
        source = metric[member]
        name, container, aim = source["name"], source.get("container", ""), source["target"]
        try:
            proposal = self._computed(name, container, aim, target, pods, measured)
        except ValueError as error:
            what = "usage" if aim.get("averageValue") is not None else "utilization"
            text = f"failed to get {name} {what}: {error}"
            if kind == "Resource":
                raise Failed(
                    "FailedGetResourceMetric", f"failed to get {name} resource metric value: {text}", text
                ) from None
            head = f"failed to get {container} container metric value"
            raise Failed("FailedGetContainerResourceMetric", f"{head}: {text}", text) from None
        now: dict[str, Any] = {"averageValue": _quantity(name, proposal.raw)}
        title = f"{name} resource"
        if proposal.utilization is not None:
            now["averageUtilization"] = proposal.utilization
            of_container = "container " if kind == "ContainerResource" else ""
            title = f"{name} {of_container}resource utilization (percentage of request)"
        about = {"name": name, **({"container": container} if container else {}), "current": now}
        return proposal, title, {"type": kind, member: about}

    def _computed(
        self,
        name: str,
        container: str,
        aim: Mapping[str, Any],
        target: Target,
        pods: list[Object],
        measured: list[Object],
    ) -> Proposal:
        try:
            metrics = metered(measured, name, container)
        except ValueError as error:
            raise ValueError(f"unable to get metrics for resource {name}: {error}") from None
        now = self._client.now()
        if aim.get("averageValue") is not None:
            return by_value(target.wanted, parse(str(aim["averageValue"])).milli, name, pods, metrics, now)
        percent = aim["averageUtilization"]
        return by_utilization(target.wanted, percent, name, pods, metrics, now, container=container)


def _is_new(event: Event) -> bool:
    return event.is_new


def _told(look: Look, current: int, wanted: int, metrics: list[dict[str, Any]]) -> None:
    kept: dict[str, Any] = {name: look.status[name] for name in ("lastScaleTime", "conditions") if name in look.status}
    look.status = {
        **({"currentReplicas": current} if current else {}),
        "desiredReplicas": wanted,
        **({"currentMetrics": metrics} if metrics else {}),
        **kept,
    }


def _quantity(resource: str, milli: int) -> str:
    return str(Quantity(milli * 10**6, "BinarySI" if resource == "memory" else "DecimalSI"))


def _with(obj: Object, path: str, value: int) -> Object:
    new: Object = copied(obj)
    *way, last = path.split(".")
    inner = new
    for part in way:
        inner = inner.setdefault(part, {})
    inner[last] = value
    return new

"""Pods: what the server fills in when one is made, and what may change afterwards."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from pykubelet.api.codec import DecodeError, convert, to_builtins
from pykubelet.api.defaults import default_image_volumes, default_pod
from pykubelet.api.field_errors import FieldError, forbidden, invalid, required
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.rules.qos import Demand, qos_class_of
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION
from pykubelet.api.struct import changed, rfc3339
from pykubelet.api.validation.options import PodValidationOptions
from pykubelet.api.validation.pod import validate_pod
from pykubelet.apiserver.objects import Object, at, clean, has_ended, overlay
from pykubelet.apiserver.schema.schema import copied, same
from pykubelet.apiserver.strategies import pod_admission
from pykubelet.apiserver.strategies.base import Lookup, Strategy, keep, keep_all_but
from pykubelet.apiserver.strategies.limit_ranges import apply_limit_ranges
from pykubelet.apiserver.strategies.pod_annotations import annotation_faults
from pykubelet.apiserver.strategies.pod_resize import keep_all_but_resources, resize_faults, resize_refusal
from pykubelet.apiserver.strategies.pod_status import status_faults

_CHANGEABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MOST_CONTAINERS: Final = 1000
_OPTIONS: Final = PodValidationOptions()
_CONDITION_TIMES: Final = ("lastProbeTime", "lastTransitionTime")


class PodStrategy(Strategy):
    selectable = {
        "spec.nodeName": "spec.nodeName",
        "spec.restartPolicy": "spec.restartPolicy",
        "spec.schedulerName": "spec.schedulerName",
        "spec.serviceAccountName": "spec.serviceAccountName",
        "spec.hostNetwork": "spec.hostNetwork",
        "status.phase": "status.phase",
        "status.podIP": "status.podIP",
        "status.nominatedNodeName": "status.nominatedNodeName",
    }

    def normal(self, obj: Object) -> Object:
        check_amount(obj)
        cleaned = clean(obj, self.resource.schema)
        pod = default_pod(convert(Pod, cleaned))
        pod = changed(pod, spec=default_image_volumes(pod.spec))
        result: Object = overlay(cleaned, to_builtins(pod))
        spec = result["spec"]
        if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
            spec["serviceAccountName"] = spec["serviceAccount"] = account
        status = result.setdefault("status", {})
        for condition in status.get("conditions", ()):
            for name in _CONDITION_TIMES:
                condition.setdefault(name, None)
        if not status.get("podIPs") and status.get("podIP"):
            status["podIPs"] = [{"ip": status["podIP"]}]
        if not status.get("hostIPs") and status.get("hostIP"):
            status["hostIPs"] = [{"ip": status["hostIP"]}]
        return result

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        if old is None:
            await pod_admission.admit(obj, lookup)
            if "LimitRanger" not in lookup.settings.without_admission:
                await apply_limit_ranges(obj, lookup)
        elif not subresource:
            pod_admission.add_default_tolerations(obj, lookup)
            for name in ("priority", "preemptionPolicy"):
                if name in old["spec"]:
                    obj["spec"].setdefault(name, old["spec"][name])

    def prepare_create(self, obj: Object, now: datetime) -> None:
        obj["metadata"]["generation"] = 1
        status: dict[str, Any] = {"phase": "Pending", "qosClass": qos_class_of(convert(Demand, obj["spec"]))}
        if obj["spec"].get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastProbeTime": None,
                    "lastTransitionTime": rfc3339(now),
                }
            ]
        obj["status"] = status

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        match subresource:
            case "status":
                keep(obj, old, "spec")
                keep(obj["metadata"], old["metadata"], "ownerReferences")
                if not at(obj, "status.qosClass"):
                    obj.setdefault("status", {})["qosClass"] = at(old, "status.qosClass", "BestEffort")
                return
            case "ephemeralcontainers":
                wanted = at(obj, "spec.ephemeralContainers", [])
                keep_all_but(obj, old, ())
                obj["spec"] = {**copied(old["spec"]), "ephemeralContainers": wanted}
                if not wanted:
                    del obj["spec"]["ephemeralContainers"]
            case "binding":
                return
            case "resize":
                keep_all_but_resources(obj, old)
            case _:
                keep(obj, old, "status")
        self.count_generation(obj, old)

    # --- rules

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from self._faults(obj)
        if at(obj, "spec.ephemeralContainers"):
            yield forbidden("spec.ephemeralContainers", "cannot be set on create")

    def _faults(self, obj: Object) -> Iterator[FieldError]:
        pod = convert(Pod, obj)
        errors = validate_pod(changed(pod, metadata=changed(pod.metadata, managed_fields=())), _OPTIONS)
        for error in errors:
            if error.field == "metadata.name" and error.type == "FieldValueRequired":
                yield required("metadata.name", "name or generateName is required")
            elif error.field != "spec.ephemeralContainers" or error.type != "FieldValueForbidden":
                yield error

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        if subresource == "status":
            yield from self.validate_meta(obj)
            yield from annotation_faults(obj, old)
            yield from status_faults(obj, old)
            return
        if subresource == "binding":
            yield from self.validate_meta(obj)
            yield from annotation_faults(obj, old)
            return
        if subresource == "resize" and (why := resize_refusal(obj, old)):
            yield forbidden("[]", why)  # as upstream names the whole
            return
        if MIRROR_ANNOTATION in at(old, "metadata.annotations", {}) and subresource:
            yield forbidden("", "static pods do not support ephemeral containers")
            return
        yield from self._faults(obj)
        yield from annotation_faults(obj, old)
        if subresource == "ephemeralcontainers":
            yield from _ephemeral_faults(obj["spec"], old["spec"])
        elif subresource == "resize":
            yield from resize_faults(obj, old)
        else:
            yield from _spec_faults(obj["spec"], old["spec"])

    def grace(self, obj: Object, wanted: int | None) -> int | None:
        period: int = at(obj, "spec.terminationGracePeriodSeconds", 0) if wanted is None else wanted
        if not at(obj, "spec.nodeName") or has_ended(obj):
            return 0
        return 1 if period < 0 else period

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        found["spec.hostNetwork"] = found["spec.hostNetwork"] or "false"
        return found


def check_amount(obj: Object) -> None:
    """Two bytes of text are a container, and a thousand of memory once it has its defaults."""
    spec = obj.get("spec") or {}
    kinds = ("containers", "initContainers", "ephemeralContainers")
    if sum(len(spec.get(kind) or ()) for kind in kinds) > _MOST_CONTAINERS:
        raise DecodeError(f"has more than {_MOST_CONTAINERS:,} containers", "spec")


def _spec(obj: Object) -> PodSpec:
    return convert(Pod, obj).spec


def _spec_faults(spec: dict[str, Any], old: dict[str, Any]) -> Iterator[FieldError]:
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind, ())) != len(old.get(kind, ())):
            yield forbidden(f"spec.{kind}", "pod updates may not add or remove containers")
            return
    yield from _deadline_faults(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    tolerated = {_tolerated(each) for each in spec.get("tolerations", ())}
    if any(_tolerated(each) not in tolerated for each in old.get("tolerations", ())):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    gates = {gate["name"] for gate in old.get("schedulingGates", ())}
    if any(gate["name"] not in gates for gate in spec.get("schedulingGates", ())):
        yield forbidden("spec.schedulingGates", "only deletion is allowed, but found new scheduling gates")
    if not same(_without_changeable(spec, old), _without_changeable(old, old)):
        yield forbidden("spec", f"pod updates may not change fields other than {_CHANGEABLE}\n")


def _tolerated(toleration: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(toleration.get(key) for key in ("key", "operator", "value", "effect"))


def _deadline_faults(new: int | None, old: int | None) -> Iterator[FieldError]:
    field = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid(field, None, "must not update from a positive integer to nil value")
    elif old is not None and old < new:
        yield invalid(field, new, "must be less than or equal to previous value")


def _without_changeable(spec: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    rest = copied(spec)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        rest.pop(name, None)
    for kind in ("containers", "initContainers"):
        for container in rest.get(kind, ()):
            container.pop("image", None)
    if old.get("terminationGracePeriodSeconds", 0) < 0 and rest.get("terminationGracePeriodSeconds") == 1:
        rest["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if old.get("schedulingGates"):  # where it may run is still open, as far as that narrows it
        rest.pop("nodeSelector", None) if _narrows(spec, old) else None
    return dict(rest)


def _narrows(spec: dict[str, Any], old: dict[str, Any]) -> bool:
    selector = spec.get("nodeSelector", {})
    return all(selector.get(key) == value for key, value in old.get("nodeSelector", {}).items())


def _ephemeral_faults(spec: dict[str, Any], old: dict[str, Any]) -> Iterator[FieldError]:
    wanted = {each.get("name"): each for each in spec.get("ephemeralContainers", ())}
    for each in old.get("ephemeralContainers", ()):
        name = each["name"]
        if name not in wanted:
            yield forbidden("spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be removed\n')
        elif not same(wanted[name], each):
            yield forbidden("spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be changed\n')

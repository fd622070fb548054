"""What may change of a pod by way of its resize sub-resource: CPU and memory of what runs all the time, never the class
of service."""

from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.codec import convert
from pykubelet.api.field_errors import FieldError, forbidden, invalid
from pykubelet.api.pod import PodSpec
from pykubelet.api.rules.qos import qos_class_of
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied, same
from pykubelet.apiserver.strategies.base import keep, keep_all_but

_KINDS: Final = ("containers", "initContainers")
_RESIZABLE: Final = ("cpu", "memory")


def keep_all_but_resources(obj: Object, old: Object) -> None:
    new_spec, spec = obj["spec"], copied(old["spec"])
    for kind in _KINDS:
        wanted, there = new_spec.get(kind, []), spec.get(kind, [])
        if [each.get("name") for each in wanted] != [each.get("name") for each in there]:
            return  # the rules say what is wrong with that
        for one, other in zip(wanted, there, strict=True):
            other["resources"] = one.get("resources", {})
            keep(other, one, "resizePolicy")
    keep_all_but(obj, old, ())
    obj["spec"] = spec


def resize_refusal(obj: Object, old: Object) -> str:
    """Why such a pod is never resized, whatever is asked; empty: it may be."""
    for each in (old, obj):
        if at(each, "spec.resources.requests") or at(each, "spec.resources.limits"):
            return "pods with pod-level resources cannot be resized"
    if MIRROR_ANNOTATION in at(old, "metadata.annotations", {}):
        return "static pods cannot be resized"
    if at(old, "spec.os.name") == "windows":
        return "windows pods cannot be resized"
    return ""


def resize_faults(obj: Object, old: Object) -> Iterator[FieldError]:
    spec, was = obj["spec"], old["spec"]
    before = at(old, "status.qosClass") or qos_class_of(convert(PodSpec, was))
    if before != qos_class_of(convert(PodSpec, spec)):
        yield invalid("spec", before, "Pod QOS Class may not change as a result of resizing")
    running = next(
        (each for each in at(old, "status.containerStatuses", ()) if at(each, "state.running") is not None), None
    )
    if running is not None and running.get("resources") is None:
        yield forbidden("spec", "Pod running on node without support for resize")
    if faults := list(_order_faults(spec, was)):
        yield from faults
        return
    yield from _removal_faults(spec, was)
    yield from _other_faults(spec, was)


def _order_faults(spec: dict[str, Any], was: dict[str, Any]) -> Iterator[FieldError]:
    for kind in _KINDS:
        wanted, there = spec.get(kind, []), was.get(kind, [])
        if len(wanted) != len(there):
            yield forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize")
            continue
        for index, (one, other) in enumerate(zip(wanted, there, strict=True)):
            if one.get("name") != other.get("name"):
                yield forbidden(f"spec.{kind}[{index}].name", f"{kind} may not be renamed or reordered on resize")


def _removal_faults(spec: dict[str, Any], was: dict[str, Any]) -> Iterator[FieldError]:
    for kind in ("initContainers", "containers"):
        for index, (one, other) in enumerate(zip(spec.get(kind, []), was.get(kind, []), strict=True)):
            if kind == "initContainers" and other.get("restartPolicy") != "Always":
                continue
            for part in ("requests", "limits"):
                if set(at(other, f"resources.{part}", {})) - set(at(one, f"resources.{part}", {})):
                    yield forbidden(f"spec.{kind}[{index}].resources.{part}", f"resource {part} cannot be removed")


def _other_faults(spec: dict[str, Any], was: dict[str, Any]) -> Iterator[FieldError]:
    for one, other in zip(spec.get("containers", []), was.get("containers", []), strict=True):
        if not same(_without_resizable(one, other), other):
            yield forbidden("spec", "only cpu and memory resources are mutable")
    for one, other in zip(spec.get("initContainers", []), was.get("initContainers", []), strict=True):
        if one.get("restartPolicy") == "Always":
            if not same(_without_resizable(one, other), other):
                yield forbidden("spec", "only cpu and memory resources for sidecar containers are mutable")
        elif not same(one, other):
            yield forbidden("spec", "resources for non-sidecar init containers are immutable")


def _without_resizable(container: dict[str, Any], was: dict[str, Any]) -> dict[str, Any]:
    """With the CPU and memory that it had; where it had no resources at all, none count."""
    resources: dict[str, Any] = {}
    for part in ("limits", "requests"):
        before = at(was, f"resources.{part}")
        if before is None:
            continue
        rest = {name: much for name, much in at(container, f"resources.{part}", {}).items() if name not in _RESIZABLE}
        resources[part] = rest | {name: before[name] for name in _RESIZABLE if name in before}
    return {**container, "resources": resources}

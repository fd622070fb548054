"""Claims on devices, their templates, classes of devices, and what drivers have to give."""

from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, duplicate, invalid, required
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import needed, one_of
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.csi_drivers import driver_name_faults

_MODES: Final = ("All", "ExactCount")
_MOST_REQUESTS: Final = 32
_MOST_DEVICES: Final = 128
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def _fill(spec: Object) -> None:
    for request in at(spec, "devices.requests", ()):
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if each is None:
                continue
            each.setdefault("allocationMode", "ExactCount")
            if each["allocationMode"] == "ExactCount" and not each.get("count"):
                each["count"] = 1


def _spec_faults(spec: Object, field: str) -> Iterator[FieldError]:
    requests = at(spec, "devices.requests", [])
    place, seen = f"{field}.devices.requests", set[str]()
    if len(requests) > _MOST_REQUESTS:
        yield FieldError("FieldValueTooMany", place, f"must have at most {_MOST_REQUESTS} items", len(requests))
        return
    for index, request in enumerate(requests):
        path, name = f"{place}[{index}]", request.get("name", "")
        yield from needed(f"{path}.name", name, names.dns_label)
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
        exactly, others = request.get("exactly"), request.get("firstAvailable") or []
        if exactly is None and not others:
            yield required(path, "exactly one of `exactly` or `firstAvailable` is required")
        elif exactly is not None and others:
            yield invalid(path, name, "exactly one of `exactly` or `firstAvailable` is required, but multiple are set")
        if exactly is not None:
            yield from _request_faults(exactly, f"{path}.exactly")
        for number, each in enumerate(others):
            yield from needed(f"{path}.firstAvailable[{number}].name", each.get("name", ""), names.dns_label)
            yield from _request_faults(each, f"{path}.firstAvailable[{number}]")


def _request_faults(request: dict[str, Any], field: str) -> Iterator[FieldError]:
    yield from needed(f"{field}.deviceClassName", request.get("deviceClassName", ""), names.dns_subdomain)
    mode, count = request["allocationMode"], request.get("count", 0)
    yield from one_of(f"{field}.allocationMode", mode, _MODES)
    if mode == "ExactCount" and count <= 0:
        yield invalid(f"{field}.count", count, "must be greater than zero")
    if mode == "All" and count:
        yield invalid(f"{field}.count", count, "must not be specified when allocationMode is 'All'")


class ResourceClaimStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        _fill(result.setdefault("spec", {}))
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        yield from _spec_faults(obj["spec"], "spec")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if not same(obj.get("spec"), old.get("spec")):
            yield invalid("spec", obj.get("spec"), "field is immutable")


class ResourceClaimTemplateStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        _fill(result.setdefault("spec", {}).setdefault("spec", {}))
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        yield from _spec_faults(obj["spec"]["spec"], "spec.spec")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if not same(obj.get("spec"), old.get("spec")):
            yield invalid("spec", obj.get("spec"), "field is immutable")


class ResourceSliceStrategy(Strategy):
    selectable = {"spec.driver": "spec.driver", "spec.nodeName": "spec.nodeName"}

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj.get("spec") or {}
        yield from driver_name_faults("spec.driver", spec.get("driver", ""))
        yield from needed("spec.pool.name", at(spec, "pool.name", ""), _pool_name)
        if at(spec, "pool.resourceSliceCount", 0) <= 0:
            yield invalid(
                "spec.pool.resourceSliceCount", at(spec, "pool.resourceSliceCount", 0), "must be greater than zero"
            )
        if at(spec, "pool.generation", 0) < 0:
            yield invalid("spec.pool.generation", spec["pool"]["generation"], "must be greater than or equal to zero")
        given = [each for each in _PLACES if spec.get(each) not in (None, "", False)]
        if len(given) != 1:
            detail = f"exactly one of {', '.join(f'`{each}`' for each in _PLACES)} is required"
            yield invalid("spec", ", ".join(given), detail) if given else required("spec", detail)
        devices = spec.get("devices") or []
        if len(devices) > _MOST_DEVICES:
            detail = f"must have at most {_MOST_DEVICES} items"
            yield FieldError("FieldValueTooMany", "spec.devices", detail, len(devices))
            return
        seen: set[str] = set()
        for index, each in enumerate(devices):
            yield from needed(f"spec.devices[{index}].name", each.get("name", ""), names.dns_label)
            if each.get("name", "") in seen:
                yield duplicate(f"spec.devices[{index}].name", each["name"])
            seen.add(each.get("name", ""))

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        for path in ("spec.driver", "spec.pool.name", "spec.nodeName"):
            if at(obj, path) != at(old, path):
                yield invalid(path, at(obj, path), "field is immutable")


def _pool_name(text: str) -> names.Faults:
    """Domains, with slashes between."""
    if names.size(text) > 253:
        return ["may not be more than 253 bytes"]
    return [fault for part in text.split("/") for fault in names.dns_subdomain(part)]

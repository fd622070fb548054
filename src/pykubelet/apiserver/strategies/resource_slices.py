"""What drivers have to give: slices of their pools of devices, and the classes by which people ask for them."""

import re
from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, invalid, required, too_long
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import spelled
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies import device_requests as requests
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.csi_drivers import driver_name_faults
from pykubelet.apiserver.strategies.resource_claims import node_selector_faults, pool_name_faults

_MOST_DEVICES: Final = 128
_MOST_FACTS: Final = 32
_LONGEST_TEXT: Final = 64
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_VALUES: Final = ("bool", "int", "string", "version")
_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)

Faults = Iterator[FieldError]


class ResourceSliceStrategy(Strategy):
    selectable = {"spec.driver": "spec.driver", "spec.nodeName": "spec.nodeName"}

    def content_faults(self, obj: Object) -> Faults:
        spec = obj.get("spec") or {}
        yield from driver_name_faults("spec.driver", spec.get("driver", ""))
        yield from pool_name_faults("spec.pool.name", at(spec, "pool.name", ""))
        count, generation = at(spec, "pool.resourceSliceCount", 0), at(spec, "pool.generation", 0)
        if count <= 0:
            yield invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
        if generation < 0:
            yield invalid("spec.pool.generation", generation, "must be greater than or equal to zero")
        yield from _where_faults(spec)
        devices = spec.get("devices") or []
        yield from requests.listed("spec.devices", devices, _MOST_DEVICES, _device_faults)
        yield from requests.repeated("spec.devices", [each.get("name", "") for each in devices], "name")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Faults:
        yield from super().validate_update(obj, old, subresource)
        for path in ("spec.driver", "spec.pool.name", "spec.nodeName"):
            if at(obj, path) != at(old, path):
                yield invalid(path, at(obj, path), "field is immutable")


def _where_faults(spec: Object) -> Faults:
    given = [each for each in _PLACES if spec.get(each) not in (None, "", False)]
    for each in _PLACES:
        if spec.get(each) in ("", False):
            said = "set to a non-empty string" if each == "nodeName" else "set to true"
            yield invalid(f"spec.{each}", spec[each], f"must be either unset or {said}")
    if "nodeName" in given:
        yield from spelled("spec.nodeName", spec["nodeName"], names.dns_subdomain(spec["nodeName"]))
    if "nodeSelector" in given:
        yield from node_selector_faults(spec["nodeSelector"], "spec.nodeSelector")
        terms = spec["nodeSelector"].get("nodeSelectorTerms") or []
        if len(terms) != 1:
            yield invalid("spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term")
    detail = f"exactly one of {', '.join(f'`{each}`' for each in _PLACES)} is required"
    if not given:
        yield required("spec", detail)
    elif len(given) > 1:
        shown = ", ".join(f"`{each}`" for each in given)
        yield invalid("spec", f"{{{shown}}}", f"{detail}, but multiple fields are set")


def _device_faults(device: Object, path: str) -> Faults:
    yield from requests.label_faults(f"{path}.name", device.get("name", ""))
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if len(attributes) + len(capacity) > _MOST_FACTS:
        said = f"the total number of attributes and capacities must not exceed {_MOST_FACTS}"
        yield invalid(path, len(attributes) + len(capacity), said)
        return
    for name, given in attributes.items():
        yield from requests.name_faults(name, f"{path}.attributes[{name}]")
        yield from _attribute_faults(given or {}, f"{path}.attributes[{name}]")
    for name, given in capacity.items():
        yield from requests.name_faults(name, f"{path}.capacity[{name}]")
        yield from _amount_faults((given or {}).get("value"), f"{path}.capacity[{name}].value")


def _attribute_faults(given: Object, path: str) -> Faults:
    told = [name for name in _VALUES if given.get(name) is not None]
    if "string" in told and names.size(given["string"]) > _LONGEST_TEXT:
        yield too_long(f"{path}.string", _LONGEST_TEXT)
    if "version" in told:
        if names.size(given["version"]) > _LONGEST_TEXT:
            yield too_long(f"{path}.version", _LONGEST_TEXT)
        elif not _VERSION.fullmatch(given["version"]):
            said = "must be a string compatible with semver.org spec 2.0.0"
            yield invalid(f"{path}.version", given["version"], said)
    if not told:
        yield required(path, "exactly one value must be specified")
    elif len(told) > 1:
        yield invalid(path, given, "exactly one value must be specified")


def _amount_faults(value: Any, path: str) -> Faults:
    try:
        parse_quantity(str(value if value is not None else "0"))
    except ValueError as error:
        yield invalid(path, value, str(error))


class DeviceClassStrategy(Strategy):
    def content_faults(self, obj: Object) -> Faults:
        spec = obj.get("spec") or {}
        yield from requests.selector_faults(spec.get("selectors") or (), "spec.selectors")
        given = spec.get("config") or ()
        yield from requests.listed("spec.config", given, requests.MOST, requests.configuration_faults)

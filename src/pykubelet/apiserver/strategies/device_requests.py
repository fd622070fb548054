"""What a claim asks for, and what a class of devices says: the parts that claims, their templates and classes share."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykubelet.api.field_errors import FieldError, duplicate, invalid, not_supported, required, too_long, too_many
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import needed, one_of, spelled
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.csi_drivers import driver_name_faults
from pykubelet.apiserver.strategies.device_selectors import LONGEST, compiled

MOST: Final = 32
"""Devices of a claim; requests, constraints, configurations and selectors alike."""
LONGEST_PARAMETERS: Final = 10 << 10
_LONGEST_TOGETHER: Final = 256 << 10
"""Of all expressions of a claim: upstream knows no such limit, and takes less time to make them ready."""
_LIGHT: Final = 1 << 10
_MODES: Final = ("All", "ExactCount")
_MOST_ALTERNATIVES: Final = 8
_EFFECTS: Final = ("NoExecute", "NoSchedule")
_LONGEST_IDENTIFIER: Final = 32
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

Faults = Iterator[FieldError]


def filled(spec: Object) -> None:
    """One device is meant, unless more are asked for."""
    for request in at(spec, "devices.requests", ()):
        for each in _asked(request):
            each.setdefault("allocationMode", "ExactCount")
            if each["allocationMode"] == "ExactCount" and not each.get("count"):
                each["count"] = 1


def _asked(request: Object) -> Iterator[Object]:
    for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
        if each is not None:
            yield each


def administered(spec: Object) -> str:
    """The first field that asks for access as an administrator; empty: none does."""
    for index, request in enumerate(at(spec, "devices.requests", ())):
        if at(request, "exactly.adminAccess"):
            return f"spec.devices.requests[{index}].adminAccess"
    return ""


# --- lists


def listed(field: str, items: Sequence[Any], most: int, faults: Callable[[Any, str], Faults]) -> Faults:
    """Each of them, and not too many. What is beyond is not looked at: somebody has to wait for it."""
    for index, each in enumerate(items[:most]):
        yield from faults(each, f"{field}[{index}]")
    if len(items) > most:
        yield too_many(field, most, len(items))


def repeated(field: str, keys: Sequence[Any], name: str = "") -> Faults:
    seen = set()
    for index, key in enumerate(keys):
        if key in seen:
            yield duplicate(f"{field}[{index}]{name and f'.{name}'}", key)
        seen.add(key)


def label_faults(field: str, name: str) -> Faults:
    yield from spelled(field, name, names.dns_label(name))


# --- claims


def claim_faults(spec: Object, field: str) -> Faults:
    devices, field = spec.get("devices") or {}, f"{field}.devices"
    requests = devices.get("requests") or []
    known = request_names(spec)
    if _size_of_expressions(spec) > _LONGEST_TOGETHER:
        yield too_long(f"{field}.requests", _LONGEST_TOGETHER)
        return
    yield from listed(f"{field}.requests", requests, MOST, _request_faults)
    yield from repeated(f"{field}.requests", [each.get("name", "") for each in requests], "name")

    def constraint(each: Object, path: str) -> Faults:
        yield from references(each.get("requests") or (), f"{path}.requests", known)
        if each.get("matchAttribute") is None:
            yield required(f"{path}.matchAttribute", "")
        else:
            yield from _whole_name_faults(each["matchAttribute"], f"{path}.matchAttribute")

    def configuration(each: Object, path: str) -> Faults:
        yield from references(each.get("requests") or (), f"{path}.requests", known)
        yield from configuration_faults(each, path)

    yield from listed(f"{field}.constraints", devices.get("constraints") or (), MOST, constraint)
    yield from listed(f"{field}.config", devices.get("config") or (), MOST, configuration)


def is_heavy(spec: Object) -> bool:
    """Whether its expressions take long to be made ready: some microseconds for each letter."""
    return _size_of_expressions(spec) > _LIGHT


def _size_of_expressions(spec: Object) -> int:
    requests = at(spec, "devices.requests", ())
    selectors = (one for request in requests for each in _asked(request) for one in each.get("selectors") or ())
    return sum(len(at(each, "cel.expression", "")) for each in selectors)


def request_names(spec: Object) -> frozenset[str]:
    """All that results and configurations may refer to."""
    found = set()
    for request in at(spec, "devices.requests", ()):
        name = request.get("name", "")
        found |= {name, *(f"{name}/{each.get('name', '')}" for each in request.get("firstAvailable") or ())}
    return frozenset(found)


def references(given: Sequence[str], field: str, known: Collection[str]) -> Faults:
    yield from listed(field, given, MOST, lambda name, path: reference(name, path, known))
    yield from repeated(field, given)


def reference(name: str, field: str, known: Collection[str]) -> Faults:
    parts = name.split("/")
    for part in parts if len(parts) <= 2 else ():
        yield from spelled(field, part, names.dns_label(part))
    if len(parts) > 2 or name not in known:
        yield invalid(field, name, _NO_REQUEST)


def _request_faults(request: Object, path: str) -> Faults:
    yield from label_faults(f"{path}.name", request.get("name", ""))
    exactly, others = request.get("exactly"), request.get("firstAvailable") or []
    if others:
        place = f"{path}.firstAvailable"
        yield from listed(place, others, _MOST_ALTERNATIVES, _alternative_faults)
        yield from repeated(place, [each.get("name", "") for each in others], "name")
    if exactly is not None:
        yield from _wanted_faults(exactly, f"{path}.exactly")
    if exactly is None and not others:
        yield required(path, "exactly one of `exactly` or `firstAvailable` is required")
    elif exactly is not None and others:
        said = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        yield invalid(path, request.get("name", ""), said)


def _alternative_faults(request: Object, path: str) -> Faults:
    yield from label_faults(f"{path}.name", request.get("name", ""))
    yield from _wanted_faults(request, path)


def _wanted_faults(request: Object, path: str) -> Faults:
    yield from needed(f"{path}.deviceClassName", request.get("deviceClassName", ""), names.dns_subdomain)
    yield from selector_faults(request.get("selectors") or (), f"{path}.selectors")
    mode, count = request["allocationMode"], request.get("count") or 0
    yield from one_of(f"{path}.allocationMode", mode, _MODES)
    if mode == "ExactCount" and count <= 0:
        yield invalid(f"{path}.count", count, "must be greater than zero")
    if mode == "All" and count:
        yield invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    for index, each in enumerate(request.get("tolerations") or ()):
        yield from _toleration_faults(each, f"{path}.tolerations[{index}]")


def _toleration_faults(toleration: Object, path: str) -> Faults:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    yield from spelled(f"{path}.key", key, names.qualified_name(key) if key else ())
    if operator == "Exists" and value:
        yield invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from spelled(f"{path}.value", value, names.label_value(value))
    elif not operator:
        yield required(f"{path}.operator", "")
    elif operator != "Exists":
        yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect:
        yield from one_of(f"{path}.effect", effect, _EFFECTS)


# --- expressions, names and parameters


def selector_faults(selectors: Sequence[Object], field: str) -> Faults:
    yield from listed(field, selectors, MOST, _selector_faults)


def _selector_faults(selector: Object, path: str) -> Faults:
    if selector.get("cel") is None:
        yield required(f"{path}.cel", "")
        return
    from pykubelet.apiserver.cel.program import CompileError  # takes long to load, and few need it

    place, expression = f"{path}.cel.expression", at(selector, "cel.expression", "")
    if names.size(expression) > LONGEST:
        yield too_long(place, LONGEST)
        return
    try:
        compiled(expression)
    except CompileError as error:
        said = str(error)
        yield invalid(place, expression, said if said.startswith("must evaluate") else f"compilation failed: {said}")


def configuration_faults(given: Object, path: str) -> Faults:
    opaque = given.get("opaque")
    if opaque is None:
        yield required(f"{path}.opaque", "")
        return
    yield from driver_name_faults(f"{path}.opaque.driver", opaque.get("driver", ""))
    yield from raw_faults(opaque.get("parameters"), f"{path}.opaque.parameters")


def raw_faults(value: Any, field: str) -> Faults:
    """Of what only a driver understands: an object, and not too large."""
    if value is None:
        yield required(field, "")
    elif len(msgspec.json.encode(value)) > LONGEST_PARAMETERS:
        yield too_long(field, LONGEST_PARAMETERS)
    elif not isinstance(value, Mapping):
        yield invalid(field, "<value omitted>", "must be a valid JSON object")


def name_faults(name: str, field: str) -> Faults:
    """Of an attribute or a capacity: an identifier, after the domain that it is of."""
    if not name:
        yield required(field, "name required")
        return
    domain, slash, own = name.rpartition("/")
    if slash and not domain:
        yield required(field, "the domain must not be empty")
    elif slash:
        yield from driver_name_faults(field, domain)
    if not own:
        yield required(field, "the name must not be empty")
    else:
        if names.size(own) > _LONGEST_IDENTIFIER:
            yield too_long(field, _LONGEST_IDENTIFIER)
        if not (own.isascii() and own.isidentifier()):
            yield invalid(field, own, "must start with a letter or '_', and have only letters, digits and '_'")


def _whole_name_faults(name: str, field: str) -> Faults:
    yield from name_faults(name, field)
    if name and "/" not in name:
        yield invalid(field, name, "must include a domain")

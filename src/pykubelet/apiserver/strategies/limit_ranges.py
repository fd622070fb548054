"""Limit ranges: what containers get when they ask for nothing, and how much they, pods and claims may ask for."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from pykubelet.api.codec import convert
from pykubelet.api.field_errors import FieldError, duplicate, forbidden, invalid, required
from pykubelet.api.pod import PodSpec
from pykubelet.api.quantity import parse
from pykubelet.api.rules.resources import container_limits, container_requests, is_pod_level_resource
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import spelled
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Lookup, Strategy

_NOTE: Final = "kubernetes.io/limit-ranger"
_KINDS: Final = ("containers", "initContainers")
_CLAIM: Final = "PersistentVolumeClaim"
_PARTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_ORDER_OF: Final = ("min", "max", "default", "defaultRequest")
_ORDER: Final = (
    ("min", "max", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "default request value {} is greater than default limit value {}"),
    ("min", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default value {} is greater than max value {}"),
)
"""What may not be more than what."""
_MOST_AMOUNTS: Final = 10_000
"""Each takes a tenth of a millisecond until the pod is stored."""
Amounts = dict[str, str]


class LimitRangeStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        for item in at(result, "spec.limits", ()):
            if item.get("type") != "Container":
                continue
            default = {**item.get("max", {}), **item.get("default", {})}
            request = {**item.get("min", {}), **default, **item.get("defaultRequest", {})}
            if default:
                item["default"] = default
            if request:
                item["defaultRequest"] = request
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        seen: set[str] = set()
        for number, item in enumerate(at(obj, "spec.limits", ())):
            path, kind = f"spec.limits[{number}]", item.get("type", "")
            yield from _item_faults(item, path)
            if kind in seen:
                yield duplicate(f"{path}.type", kind)
            seen.add(kind)


async def apply_limit_ranges(pod: Object, lookup: Lookup) -> None:
    """Fill in what the pod's containers left open, and raise 403 when they ask for too little or too much."""
    ranges = await lookup.known("", "limitranges", pod["metadata"].get("namespace", ""))
    items = [item for each in ranges for item in at(each, "spec.limits", ())]
    if not items:
        return
    _check_amount(pod, items)
    _fill_in(pod, [item for item in items if item.get("type") == "Container"])
    faults: list[str] = []
    for item in items:
        if item.get("type") == "Container":
            for container in _containers(pod):
                resources = container.get("resources", {})
                faults += _faults(item, "Container", resources.get("requests", {}), resources.get("limits", {}))
        elif item.get("type") == "Pod":
            faults += _faults(item, "Pod", _total(pod, "requests"), _total(pod, "limits"))
    _refuse("pods", pod, faults)


def _check_amount(pod: Object, items: list[dict[str, Any]]) -> None:
    """A few large ranges and a pod with many containers are hundreds of thousands of amounts."""
    values = sum(len(item.get(part, {})) for item in items for part in _PARTS)
    if values * sum(1 for _ in _containers(pod)) > _MOST_AMOUNTS:
        why = f"the limit ranges of its namespace have more than {_MOST_AMOUNTS} amounts for its containers"
        raise status.forbidden("pods", pod["metadata"].get("name", ""), why)


def _containers(pod: Object) -> Iterator[dict[str, Any]]:
    for kind in _KINDS:
        yield from pod["spec"].get(kind, ())


def _fill_in(pod: Object, items: list[dict[str, Any]]) -> None:
    notes = []
    for kind in _KINDS:
        for container in pod["spec"].get(kind, ()):
            resources = container.setdefault("resources", {})
            for name, default, word in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
                amounts = {key: value for item in items for key, value in item.get(default, {}).items()}
                missing = {key: amount for key, amount in amounts.items() if key not in resources.get(name, {})}
                if missing:
                    resources[name] = {**missing, **resources.get(name, {})}
                    what = "init container" if kind == "initContainers" else "container"
                    notes.append(f"{', '.join(sorted(missing))} {word} for {what} {container.get('name', '')}")
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_NOTE] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _total(pod: Object, name: str) -> Amounts:
    """What the containers of a pod ask for together, or the pod as a whole."""
    spec = convert(PodSpec, pod["spec"])
    found = container_requests(spec) if name == "requests" else container_limits(spec)
    if spec.resources:
        whole = spec.resources.requests if name == "requests" else spec.resources.limits
        found |= {key: amount for key, amount in whole.items() if is_pod_level_resource(key)}
    return {key: str(amount) for key, amount in found.items()}


async def check_claim(claim: Object, lookup: Lookup) -> None:
    """Raises 403 when a claim asks for too little or too much storage."""
    ranges = await lookup.known("", "limitranges", claim["metadata"].get("namespace", ""))
    faults: list[str] = []
    for item in (item for each in ranges for item in at(each, "spec.limits", ()) if item.get("type") == _CLAIM):
        asked = at(claim, "spec.resources.requests", {})
        faults += _least_faults(item, _CLAIM, asked, {})
        for name, most in item.get("max", {}).items():
            head = f"maximum {name} usage per {_CLAIM} is {most}"
            if name not in asked:
                faults.append(f"{head}.  No request is specified")
            elif _nanos(asked[name]) > _nanos(most):
                faults.append(f"{head}, but request is {asked[name]}")
    _refuse("persistentvolumeclaims", claim, faults)


def _refuse(plural: str, obj: Object, faults: list[str]) -> None:
    if faults:
        text = faults[0] if len(faults) == 1 else f"[{', '.join(dict.fromkeys(faults))}]"
        raise status.forbidden(plural, obj["metadata"].get("name", ""), text)


def _faults(item: dict[str, Any], what: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _least_faults(item, what, requests, limits)
    for name, most in item.get("max", {}).items():
        head = f"maximum {name} usage per {what} is {most}"
        if name not in limits:
            yield f"{head}.  No limit is specified"
        elif _nanos(limits[name]) > _nanos(most):
            yield f"{head}, but limit is {limits[name]}"
        elif name in requests and _nanos(requests[name]) > _nanos(most):
            yield f"{head}, but request is {requests[name]}"
    for name, ratio in item.get("maxLimitRequestRatio", {}).items():
        head = f"{name} max limit to request ratio per {what} is {ratio}"
        asked, bound = (_nanos(amounts.get(name, 0)) for amounts in (requests, limits))
        if not asked:
            yield f"{head}, but no request is specified or request is 0"
        elif not bound:
            yield f"{head}, but no limit is specified or limit is 0"
        elif bound * 10**9 > _nanos(ratio) * asked:
            yield f"{head}, but provided ratio is {bound / asked:.6f}"


def _least_faults(item: dict[str, Any], what: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in item.get("min", {}).items():
        head = f"minimum {name} usage per {what} is {least}"
        if name not in requests:
            yield f"{head}.  No request is specified"
        elif _nanos(requests[name]) < _nanos(least):
            yield f"{head}, but request is {requests[name]}"
        elif name in limits and _nanos(limits[name]) < _nanos(least):
            yield f"{head}, but limit is {limits[name]}"


def _nanos(amount: Any) -> int:
    return parse(str(amount)).nanos


# --- what makes no sense


def _item_faults(item: dict[str, Any], path: str) -> Iterator[FieldError]:
    kind = item.get("type", "")
    if "/" not in kind and kind not in ("Pod", "Container", _CLAIM):
        yield invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified")
    for part in _PARTS:
        for name in item.get(part) or ():
            field = f"{path}.{part}[{name}]"
            yield from spelled(field, name, names.qualified_name(name))
            if kind in ("Pod", "Container") and "/" not in name and not _is_of_containers(name):
                yield invalid(field, name, "must be a standard resource for containers")
    for part in ("default", "defaultRequest"):
        if kind == "Pod" and item.get(part):
            yield forbidden(f"{path}.{part}", "may not be specified when `type` is 'Pod'")
    if kind == _CLAIM and "storage" not in {**item.get("min", {}), **item.get("max", {})}:
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", text)
    for part, other, text in _ORDER:
        for name, amount in (item.get(part) or {}).items():
            bound = (item.get(other) or {}).get(name)
            if bound is not None and _nanos(amount) > _nanos(bound):
                where = "min" if part == "min" and other == "max" else max(part, other, key=_ORDER_OF.index)
                yield invalid(f"{path}.{where}[{name}]", str(amount), text.format(amount, bound))
    yield from _ratio_faults(item, path)


def _ratio_faults(item: dict[str, Any], path: str) -> Iterator[FieldError]:
    for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
        field, least, most = (
            f"{path}.maxLimitRequestRatio[{name}]",
            *(item.get(part, {}).get(name) for part in ("min", "max")),
        )
        if _nanos(ratio) < 10**9:
            yield invalid(field, str(ratio), f"ratio {ratio} is less than 1")
        share = _nanos(most) / _nanos(least) if most is not None and _nanos(least or 0) else None
        if share is not None and _nanos(ratio) / 10**9 > share:
            yield invalid(field, str(ratio), f"ratio {ratio} is greater than max/min = {share:f}")


def _is_of_containers(name: str) -> bool:
    return name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")

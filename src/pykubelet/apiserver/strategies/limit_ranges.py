"""Limit ranges: what containers of a namespace get when they ask for nothing, and how much they may ask for."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from pykubelet.api.quantity import Quantity, parse
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Lookup, Strategy

_NOTE: Final = "kubernetes.io/limit-ranger"
_KINDS: Final = ("containers", "initContainers")
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


async def apply_limit_ranges(pod: Object, lookup: Lookup) -> None:
    """Fill in what the pod's containers left open, and raise 403 when they ask for too little or too much."""
    ranges = await lookup.known("", "limitranges", pod["metadata"].get("namespace", ""))
    items = [item for each in ranges for item in at(each, "spec.limits", ())]
    if not items:
        return
    _fill_in(pod, [item for item in items if item.get("type") == "Container"])
    faults: list[str] = []
    for item in items:
        if item.get("type") == "Container":
            for container in _containers(pod):
                resources = container.get("resources", {})
                faults += _faults(item, "Container", resources.get("requests", {}), resources.get("limits", {}))
        elif item.get("type") == "Pod":
            faults += _faults(item, "Pod", _total(pod, "requests"), _total(pod, "limits"))
    if faults:
        text = faults[0] if len(faults) == 1 else f"[{', '.join(dict.fromkeys(faults))}]"
        raise status.forbidden("pods", pod["metadata"].get("name", ""), text)


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
    """What the containers of a pod ask for together; a resource that one of them leaves open has no limit."""
    found: dict[str, list[Quantity]] = {}
    containers = pod["spec"].get("containers", ())
    for container in containers:
        for key, value in at(container, f"resources.{name}", {}).items():
            found.setdefault(key, []).append(parse(str(value)))
    sums = {}
    for key, amounts in found.items():
        if name == "requests" or len(amounts) == len(containers):
            total = sum(amount.nanos for amount in amounts)
            sums[key] = str(parse(f"{total}n"))
    return sums


def _faults(item: dict[str, Any], what: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in item.get("min", {}).items():
        head = f"minimum {name} usage per {what} is {least}"
        if name not in requests:
            yield f"{head}.  No request is specified"
        for word, amounts in (("request", requests), ("limit", limits)):
            if name in amounts and _nanos(amounts[name]) < _nanos(least):
                yield f"{head}, but {word} is {amounts[name]}"
    for name, most in item.get("max", {}).items():
        head = f"maximum {name} usage per {what} is {most}"
        if name not in limits:
            yield f"{head}.  No limit is specified"
        for word, amounts in (("limit", limits), ("request", requests)):
            if name in amounts and _nanos(amounts[name]) > _nanos(most):
                yield f"{head}, but {word} is {amounts[name]}"
    for name, ratio in item.get("maxLimitRequestRatio", {}).items():
        head = f"{name} max limit to request ratio per {what} is {ratio}"
        asked, bound = requests.get(name), limits.get(name)
        if asked is None or bound is None or not _nanos(asked):
            yield f"{head}, but no request is specified or request is 0"
        elif _nanos(bound) * 10**9 > _nanos(ratio) * _nanos(asked):
            yield f"{head}, but provided ratio is {_nanos(bound) / _nanos(asked):.6f}"


def _nanos(amount: Any) -> int:
    return parse(str(amount)).nanos

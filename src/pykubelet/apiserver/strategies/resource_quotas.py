"""Resource quotas: what may be limited, and for which objects."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from pykubelet.api.field_errors import FieldError, invalid, required
from pykubelet.api.quantity import parse
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import spelled
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Strategy

_COUNTED: Final = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_COMPUTE: Final = frozenset(
    (
        "cpu",
        "memory",
        "ephemeral-storage",
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")),
    )
)
_STANDARD: Final = _COUNTED | _COMPUTE | {"requests.storage"}
_SCOPES: Final = {
    "Terminating": _COMPUTE | {"pods"},
    "NotTerminating": _COMPUTE | {"pods"},
    "NotBestEffort": _COMPUTE | {"pods"},
    "PriorityClass": _COMPUTE | {"pods"},
    "BestEffort": frozenset(("pods",)),
    "CrossNamespacePodAffinity": _COMPUTE | {"pods"},
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", "requests.storage")),
}
"""What may be limited for some objects only."""
_EXCLUSIVE: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_WITHOUT_VALUES: Final = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")


class ResourceQuotaStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True

    def give_status(self, obj: Object) -> None:
        obj["status"] = {}

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        for path in ("spec.hard", "status.hard", "status.used"):
            yield from _amount_faults(at(obj, path, {}), path)
        spec = obj.get("spec") or {}
        yield from _scope_faults(spec, "spec.scopes", list(spec.get("scopes") or ()))
        wanted = at(spec, "scopeSelector.matchExpressions", ())
        path = "spec.scopeSelector.matchExpressions"
        yield from _scope_faults(spec, path, [each.get("scopeName", "") for each in wanted])
        for each in wanted:
            yield from _selector_faults(each, path)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if set(at(obj, "spec.scopes", ())) != set(at(old, "spec.scopes", ())):
            yield invalid("spec.scopes", at(obj, "spec.scopes", []), "field is immutable")


def _amount_faults(amounts: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for name, value in amounts.items():
        field, amount = f"{path}[{name}]", parse(str(value))
        yield from spelled(field, name, names.qualified_name(name))
        if "/" not in name and not is_standard(name):
            yield invalid(field, name, "must be a standard resource for quota")
        if amount.sign < 0:
            yield invalid(field, str(value), "must be greater than or equal to 0")
        if name in _COUNTED and amount.milli % 1000:
            yield invalid(field, str(value), "must be an integer")


def is_standard(name: str) -> bool:
    return name in _STANDARD or name.removeprefix("requests.").startswith("hugepages-")


def _scope_faults(spec: Mapping[str, Any], path: str, scopes: list[str]) -> Iterator[FieldError]:
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid(path, scope, "unsupported scope")
        elif any(is_standard(name) and name not in _SCOPES[scope] for name in spec.get("hard") or ()):
            yield invalid(path, scopes, "unsupported scope applied to resource")
    if any(pair <= set(scopes) for pair in _EXCLUSIVE):
        yield invalid(path, scopes, "conflicting scopes")


def _selector_faults(wanted: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    operator, values = wanted.get("operator", ""), wanted.get("values") or []
    if wanted.get("scopeName") in _WITHOUT_VALUES and operator != "Exists":
        yield invalid(f"{path}.operator", operator, f"must be 'Exists' when scope is {wanted['scopeName']}")
    match operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", "must be at least one value when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                yield invalid(
                    f"{path}.values", values, "must be no value when `operator` is 'Exists' or 'DoesNotExist'"
                )
        case _:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")

"""Roles, of a namespace and of the cluster: each rule is about objects or about paths, never about both."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.field_errors import FieldError, invalid, required
from pykubelet.api.meta import LabelSelector
from pykubelet.api.validation.meta import validate_label_selector
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Strategy


class RoleStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        if not result.get("rules"):
            result["rules"] = None
        return result

    def name_faults(self, name: str) -> Iterable[str]:
        return path_segment_faults(name)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        for number, rule in enumerate(obj.get("rules") or ()):
            yield from _rule_faults(rule, f"rules[{number}]", self.resource.namespaced)
        if obj.get("aggregationRule") is not None:
            yield from _aggregation_faults(at(obj, "aggregationRule.clusterRoleSelectors", ()))


def path_segment_faults(name: str) -> Iterator[str]:
    """Names of roles and bindings may be anything that a path can hold."""
    if name in (".", ".."):
        yield f"may not be '{name}'"
    for sign in "/%":
        if sign in name:
            yield f"may not contain '{sign}'"


def _rule_faults(rule: dict[str, Any], path: str, namespaced: bool) -> Iterator[FieldError]:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            yield invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, why)
        return
    if not rule.get("apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def _aggregation_faults(selectors: Iterable[Any]) -> Iterator[FieldError]:
    path = "aggregationRule.clusterRoleSelectors"
    found = list(selectors)
    if not found:
        yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for number, selector in enumerate(found):
        try:
            yield from validate_label_selector(convert(LabelSelector, selector), f"{path}[{number}]")
        except DecodeError as error:
            yield invalid(f"{path}[{number}]", selector, error.reason)

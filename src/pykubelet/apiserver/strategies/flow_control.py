"""Flow schemas and priority levels, as upstream fills them in and checks them. They are kept for others to read."""

from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import needed, needed_one_of, not_negative, one_of
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Strategy

_PRECEDENCE: Final = 1000
_MOST_PRECEDENCE: Final = 10000
_QUEUING: Final = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
_SUBJECTS: Final = ("Group", "ServiceAccount", "User")
_VERBS: Final = {
    "resourceRules": ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"),
    "nonResourceRules": ("delete", "get", "head", "options", "patch", "post", "put"),
}
_EXEMPT: Final = "exempt"


class FlowSchemaStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.setdefault("spec", {})
        spec["matchingPrecedence"] = spec.get("matchingPrecedence") or _PRECEDENCE
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        precedence = spec["matchingPrecedence"]
        if not 0 < precedence <= _MOST_PRECEDENCE:
            detail = f"must be between 1 and {_MOST_PRECEDENCE}"
            yield invalid("spec.matchingPrecedence", precedence, detail)
        if precedence == 1 and obj["metadata"].get("name") != _EXEMPT:
            yield invalid("spec.matchingPrecedence", 1, "only the schema named 'exempt' may have matchingPrecedence 1")
        if (method := spec.get("distinguisherMethod")) is not None:
            yield from needed_one_of("spec.distinguisherMethod.type", method.get("type", ""), ("ByNamespace", "ByUser"))
        level = at(spec, "priorityLevelConfiguration.name", "")
        yield from needed("spec.priorityLevelConfiguration.name", level, names.dns_subdomain)
        for index, rule in enumerate(spec.get("rules") or ()):
            yield from _rule_faults(rule, f"spec.rules[{index}]")


def _rule_faults(rule: dict[str, Any], field: str) -> Iterator[FieldError]:
    if not rule.get("subjects"):
        yield required(f"{field}.subjects", "subjects must contain at least one value")
    for index, each in enumerate(rule.get("subjects") or ()):
        place, kind = f"{field}.subjects[{index}]", each.get("kind", "")
        yield from one_of(f"{place}.kind", kind, _SUBJECTS)
        member = kind[:1].lower() + kind[1:]
        if kind in _SUBJECTS and not at(each, f"{member}.name"):
            yield required(f"{place}.{member}.name", "")
        for other in _SUBJECTS:
            field_of = other[:1].lower() + other[1:]
            if other != kind and kind in _SUBJECTS and each.get(field_of) is not None:
                yield forbidden(f"{place}.{field_of}", f"{field_of} is forbidden when subject kind is not '{other}'")
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield required(field, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for part, needs in (
        ("resourceRules", ("verbs", "apiGroups", "resources")),
        ("nonResourceRules", ("verbs", "nonResourceURLs")),
    ):
        for index, each in enumerate(rule.get(part) or ()):
            for name in needs:
                if not each.get(name):
                    yield required(f"{field}.{part}[{index}].{name}", f"{name} must contain at least one value")
            yield from _member_faults(each, part, f"{field}.{part}[{index}]")
            if part == "resourceRules" and not each.get("clusterScope") and not each.get("namespaces"):
                yield required(f"{field}.{part}[{index}].namespaces", "set clusterScope, or name a namespace")


def _member_faults(rule: dict[str, Any], part: str, field: str) -> Iterator[FieldError]:
    """What the lists of a rule may hold."""
    verbs = _VERBS[part]
    if any(each != "*" and each not in verbs for each in rule.get("verbs") or ()):
        yield not_supported(f"{field}.verbs", rule["verbs"], verbs)
    for index, each in enumerate(rule.get("nonResourceURLs") or ()):
        if each != "*" and (not each.startswith("/") or " " in each or "*" in each[:-1]):
            yield invalid(f"{field}.nonResourceURLs[{index}]", each, "must be '*', or begin with '/' and have no space")
    for index, each in enumerate(rule.get("namespaces") or ()):
        if each != "*" and names.dns_label(each):
            yield invalid(
                f"{field}.namespaces[{index}]", each, "each member of this list must be '*' or a DNS-1123 label"
            )


class PriorityLevelStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.setdefault("spec", {})
        if (exempt := spec.get("exempt")) is not None or spec.get("type") == "Exempt":
            exempt = spec.setdefault("exempt", {})
            exempt.setdefault("nominalConcurrencyShares", 0)
            exempt.setdefault("lendablePercent", 0)
        if (limited := spec.get("limited")) is not None:
            limited.setdefault("nominalConcurrencyShares", 30)
            limited.setdefault("lendablePercent", 0)
            if (queuing := at(limited, "limitResponse.queuing")) is not None:
                for name, value in _QUEUING.items():
                    queuing[name] = queuing.get(name) or value
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        kind, limited = spec.get("type", ""), spec.get("limited")
        yield from one_of("spec.type", kind, ("Exempt", "Limited"))
        if kind == "Limited" and limited is None:
            yield required("spec.limited", "must not be empty when type is Limited")
        if kind == "Limited" and spec.get("exempt") is not None:
            yield forbidden("spec.exempt", "must be nil if the type is Limited")
        if kind == "Exempt" and limited is not None:
            yield forbidden("spec.limited", "must be nil if the type is not Limited")
        if limited is not None:
            yield from _limit_faults(limited, "spec.limited")


def _limit_faults(limited: dict[str, Any], field: str) -> Iterator[FieldError]:
    yield from not_negative(f"{field}.nominalConcurrencyShares", limited["nominalConcurrencyShares"])
    lent = limited["lendablePercent"]
    if not 0 <= lent <= 100:
        yield invalid(f"{field}.lendablePercent", lent, "must be between 0 and 100, inclusive")
    if limited.get("borrowingLimitPercent", 0) < 0:
        yield invalid(f"{field}.borrowingLimitPercent", limited["borrowingLimitPercent"], "must not be negative")
    answer, place = limited.get("limitResponse") or {}, f"{field}.limitResponse"
    kind, queuing = answer.get("type", ""), answer.get("queuing")
    yield from needed_one_of(f"{place}.type", kind, ("Queue", "Reject"))
    if kind == "Queue" and queuing is None:
        yield required(f"{place}.queuing", "must not be empty if limited.limitResponse.type is Limited")
    if kind == "Reject" and queuing is not None:
        yield forbidden(f"{place}.queuing", "must be nil if limited.limitResponse.type is not Limited")
    if queuing is None:
        return
    for name in ("queues", "handSize", "queueLengthLimit"):
        if queuing[name] <= 0:
            yield invalid(f"{place}.queuing.{name}", queuing[name], "must be positive")
    if queuing["handSize"] > queuing["queues"]:
        detail = f"should not be greater than queues ({queuing['queues']})"
        yield invalid(f"{place}.queuing.handSize", queuing["handSize"], detail)

"""Whether a webhook or a policy is meant by a write. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from pykubelet.api.selectors import Selector, matches
from pykubelet.apiserver.admission.hooks import HookRule, labels_of
from pykubelet.apiserver.requests.admission import Attempt
from pykubelet.apiserver.schema.resources import Resource

EXEMPT: Final = frozenset(
    (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    )
)
"""Of their own group: nobody shuts himself out by what he writes about who may write."""
_NAMESPACES: Final = ("", "v1", "namespaces")


def meant_as(rules: Sequence[HookRule], attempt: Attempt, equivalents: Sequence[Resource]) -> Resource | None:
    """The resource as which a write is meant, which may be an equivalent one; None: it is not meant at all."""
    if any(rule_matches(rule, attempt, attempt.resource) for rule in rules):
        return attempt.resource
    for rule in rules:
        for other in equivalents:
            if rule_matches(rule, attempt, other):
                return other
    return None


def rule_matches(rule: HookRule, attempt: Attempt, resource: Resource) -> bool:
    return (
        _has(rule.operations, attempt.operation)
        and _has(rule.groups, resource.group)
        and _has(rule.versions, resource.version)
        and any(_names(each, resource.plural, attempt.part) for each in rule.resources)
        and _in_scope(rule.scope, attempt, resource)
        and (not rule.names or attempt.name in rule.names)
    )


def _has(values: frozenset[str], wanted: str) -> bool:
    return wanted in values or "*" in values


def _names(rule: str, plural: str, part: str) -> bool:
    resource, _, subresource = rule.partition("/")
    return resource in ("*", plural) and subresource in ("*", part)


def _in_scope(scope: str, attempt: Attempt, resource: Resource) -> bool:
    is_of_cluster = resource.path == _NAMESPACES or not attempt.namespace
    return scope == "*" or (scope == "Cluster") == is_of_cluster


def of_objects(selector: Selector, attempt: Attempt) -> bool:
    """Whether the object is selected as it is or as it would be."""
    if not selector:
        return True
    there = [each for each in (attempt.obj, attempt.old) if each is not None]
    return any(matches(selector, labels_of(each)) for each in there)


def asks_namespace(selector: Selector, attempt: Attempt) -> bool:
    """Whether a namespace has to be looked at."""
    return bool(selector) and (bool(attempt.namespace) or attempt.resource.plural == "namespaces")


def own_labels(attempt: Attempt) -> Mapping[str, str] | None:
    """Of a namespace that is itself written; None: they are those of the namespace that is there."""
    is_written = attempt.resource.plural == "namespaces" and not attempt.part and attempt.operation != "DELETE"
    return labels_of(attempt.obj) if is_written else None

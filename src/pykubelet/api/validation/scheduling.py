"""What a pod says about the nodes it may run on: affinity, spreading, tolerations, gates."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from pykubelet.api.field_errors import duplicate, forbidden, invalid, required
from pykubelet.api.meta import LabelSelector
from pykubelet.api.pod import PodSchedulingGate
from pykubelet.api.scheduling import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Toleration,
    TopologySpreadConstraint,
)
from pykubelet.api.validation import names
from pykubelet.api.validation.meta import operator_and_values, validate_label_selector
from pykubelet.api.validation.options import Errors
from pykubelet.api.validation.rules import filled, one_of, positive, spelled

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_affinity(affinity: Affinity | None, path: str) -> Errors:
    if affinity is None:
        return
    if affinity.node_affinity is not None:
        yield from _node_affinity(affinity.node_affinity, f"{path}.nodeAffinity")
    if affinity.pod_affinity is not None:
        yield from _pod_affinity(affinity.pod_affinity, f"{path}.podAffinity")
    if affinity.pod_anti_affinity is not None:
        yield from _pod_affinity(affinity.pod_anti_affinity, f"{path}.podAntiAffinity")


def validate_tolerations(tolerations: Sequence[Toleration], path: str) -> Errors:
    for index, toleration in enumerate(tolerations):
        yield from _toleration(toleration, f"{path}[{index}]")


def validate_scheduling_gates(gates: Sequence[PodSchedulingGate], path: str) -> Errors:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        yield from spelled(f"{path}[{index}]", gate.name, names.qualified_name(gate.name))
        if gate.name in seen:
            yield duplicate(f"{path}[{index}]", gate.name)
        seen.add(gate.name)


def validate_topology_spread(constraints: Sequence[TopologySpreadConstraint], path: str) -> Errors:
    left = Counter((each.topology_key, each.when_unsatisfiable) for each in constraints)
    for index, constraint in enumerate(constraints):
        place = f"{path}[{index}]"
        yield from _spread_constraint(constraint, place)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        left[pair] -= 1
        if left[pair]:
            yield duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", " and ".join(pair))
        yield from _spread_details(constraint, place)


def _toleration(toleration: Toleration, path: str) -> Errors:
    if toleration.key:
        yield from spelled(f"{path}.key", toleration.key, names.qualified_name(toleration.key))
    elif toleration.operator != "Exists":
        yield invalid(f"{path}.operator", toleration.operator, "must be Exists when there is no key")
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        yield invalid(f"{path}.effect", toleration.effect, "must be NoExecute when tolerationSeconds is set")
    if toleration.operator in ("", "Equal"):
        if faults := names.label_value(toleration.value):
            yield invalid(f"{path}.operator", toleration.value, f"has a value that {' and '.join(faults)}")
    elif toleration.operator != "Exists":
        yield from one_of(f"{path}.operator", toleration.operator, ("Equal", "Exists"))
    elif toleration.value:
        yield invalid(f"{path}.operator", toleration.value, "must be Equal, or the value empty")
    if toleration.effect:
        yield from one_of(f"{path}.effect", toleration.effect, _EFFECTS)


def _node_affinity(affinity: NodeAffinity, path: str) -> Errors:
    needed = affinity.required_during_scheduling_ignored_during_execution
    if needed is not None:
        yield from validate_node_selector(needed, f"{path}.{_REQUIRED}", label_values=True)
    for index, wish in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        place = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(wish.weight, place)
        yield from _node_selector_term(wish.preference, f"{place}.preference", label_values=False)


def validate_node_selector(selector: NodeSelector, path: str, *, label_values: bool = False) -> Errors:
    """`label_values`: whether values have to be such that labels may have them."""
    terms = f"{path}.nodeSelectorTerms"
    if not selector.node_selector_terms:
        yield required(terms, "must have at least one term")
    for index, term in enumerate(selector.node_selector_terms):
        yield from _node_selector_term(term, f"{terms}[{index}]", label_values=label_values)


def _node_selector_term(term: NodeSelectorTerm, path: str, *, label_values: bool) -> Errors:
    for index, requirement in enumerate(term.match_expressions):
        place = f"{path}.matchExpressions[{index}]"
        yield from _node_label(requirement, place)
        for number, value in enumerate(requirement.values if label_values else ()):
            yield from spelled(f"{place}.values[{number}]", value, names.label_value(value))
    for index, requirement in enumerate(term.match_fields):
        yield from _node_field(requirement, f"{path}.matchFields[{index}]")


def _node_label(requirement: NodeSelectorRequirement, path: str) -> Errors:
    if requirement.operator not in ("Gt", "Lt"):
        yield from operator_and_values(requirement.operator, requirement.values, path)
    elif len(requirement.values) != 1:
        yield required(f"{path}.values", f"must have exactly one value with the operator {requirement.operator}")
    yield from spelled(f"{path}.key", requirement.key, names.qualified_name(requirement.key))


def _node_field(requirement: NodeSelectorRequirement, path: str) -> Errors:
    if requirement.operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", requirement.operator, "must be In or NotIn")
    elif len(requirement.values) != 1:
        yield required(f"{path}.values", "must have exactly one value")
    if requirement.key != "metadata.name":
        yield invalid(f"{path}.key", requirement.key, "must be metadata.name")
        return
    for index, value in enumerate(requirement.values):
        yield from spelled(f"{path}.values[{index}]", value, names.dns_subdomain(value))


def _pod_affinity(affinity: PodAffinity | PodAntiAffinity, path: str) -> Errors:
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        yield from _pod_affinity_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, wish in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        place = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(wish.weight, place)
        yield from _pod_affinity_term(wish.pod_affinity_term, f"{place}.podAffinityTerm")


def _pod_affinity_term(term: PodAffinityTerm, path: str) -> Errors:
    yield from validate_label_selector(term.label_selector, f"{path}.labelSelector")
    yield from validate_label_selector(term.namespace_selector, f"{path}.namespaceSelector")
    for namespace in term.namespaces:
        yield from spelled(f"{path}.namespace", namespace, names.dns_label(namespace))
    yield from _label_keys(term.match_label_keys, term.mismatch_label_keys, term.label_selector, path)
    yield from filled(f"{path}.topologyKey", term.topology_key)
    yield from spelled(f"{path}.topologyKey", term.topology_key, names.qualified_name(term.topology_key))


def _spread_constraint(constraint: TopologySpreadConstraint, path: str) -> Errors:
    yield from positive(f"{path}.maxSkew", constraint.max_skew)
    yield from filled(f"{path}.topologyKey", constraint.topology_key)
    yield from one_of(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway"))


def _spread_details(constraint: TopologySpreadConstraint, path: str) -> Errors:
    if constraint.min_domains is not None:
        yield from positive(f"{path}.minDomains", constraint.min_domains)
        if constraint.when_unsatisfiable != "DoNotSchedule":
            yield invalid(f"{path}.minDomains", constraint.min_domains, "needs whenUnsatisfiable: DoNotSchedule")
    for name, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy is not None:
            yield from one_of(f"{path}.{name}", policy, ("Honor", "Ignore"))
    yield from _label_keys(constraint.match_label_keys, (), constraint.label_selector, path)
    yield from validate_label_selector(constraint.label_selector, f"{path}.labelSelector")


def _label_keys(
    matching: Sequence[str], mismatching: Sequence[str], selector: LabelSelector | None, path: str
) -> Errors:
    """Keys whose values are taken from the pod's own labels. They extend a selector, and do not repeat its keys."""
    for name, keys in (("matchLabelKeys", matching), ("mismatchLabelKeys", mismatching)):
        if keys and selector is None:
            yield forbidden(f"{path}.{name}", "needs a labelSelector to extend")
        for index, key in enumerate(keys if selector is not None else ()):
            yield from spelled(f"{path}.{name}[{index}]", key, names.qualified_name(key))
    if selector is not None:
        yield from _keys_twice_in_selector(matching, selector, path)
    for index, key in enumerate(matching):
        if key in mismatching:
            yield invalid(f"{path}.matchLabelKeys[{index}]", key, "must not be in mismatchLabelKeys too")


def _keys_twice_in_selector(keys: Sequence[str], selector: LabelSelector, path: str) -> Errors:
    """By now each key has become an expression of the selector: a second use of it is the author's own."""
    places = {key: index for index, key in enumerate(keys)}
    seen = set(selector.match_labels)
    for expression in selector.match_expressions:
        if expression.key in places and expression.key in seen:
            yield invalid(f"{path}[{places[expression.key]}]", expression.key, "must not be in the labelSelector too")
        seen.add(expression.key)


def _weight(weight: int, path: str) -> Errors:
    yield from spelled(f"{path}.weight", weight, names.between(weight, 1, 100))

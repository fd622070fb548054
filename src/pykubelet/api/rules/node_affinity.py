"""Whether a node is one that a pod may be on: its labels and its name."""

import re
from collections.abc import Mapping
from typing import Final

from pykubelet.api import selectors
from pykubelet.api.pod import PodSpec
from pykubelet.api.scheduling import NodeSelectorRequirement, NodeSelectorTerm
from pykubelet.api.validation import names

_DIGITS: Final = re.compile("[0-9]+")
_MAX_INT64: Final = 2**63 - 1


def is_attracted(spec: PodSpec, node_name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node has all that the node selector names, and satisfies some term of the required affinity."""
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or any(term_holds(term, node_name, labels) for term in required.node_selector_terms)


def term_holds(term: NodeSelectorTerm, node_name: str, labels: Mapping[str, str]) -> bool:
    """All of it, and an empty term never does."""
    if not term.match_expressions and not term.match_fields:
        return False
    # A node without a name has no fields to compare.
    fields = {"metadata.name": node_name} if node_name else None
    return all(_label_holds(each, labels) for each in term.match_expressions) and all(
        _field_holds(each, fields) for each in term.match_fields
    )


def _label_holds(wanted: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """An expression that makes no sense holds nowhere, also when it is a negative one."""
    try:
        requirement = selectors.requirement(wanted.key, wanted.operator, wanted.values)
    except ValueError:
        return False
    if names.qualified_name(wanted.key) or any(map(names.label_value, wanted.values)):
        return False
    if wanted.operator in ("Gt", "Lt") and not all(map(_is_number, (*wanted.values, labels.get(wanted.key, "")))):
        return False
    return requirement.holds(labels)


def _is_number(text: str) -> bool:
    return bool(_DIGITS.fullmatch(text)) and int(text) <= _MAX_INT64


def _field_holds(wanted: NodeSelectorRequirement, fields: Mapping[str, str] | None) -> bool:
    if wanted.operator not in ("In", "NotIn") or len(wanted.values) != 1:
        return False
    if fields is None:
        return True
    return (fields.get(wanted.key, "") == wanted.values[0]) == (wanted.operator == "In")

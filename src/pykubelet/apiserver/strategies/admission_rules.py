"""What webhooks and admission policies have in common: rules that say which writes are meant, and match conditions."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.field_errors import FieldError, duplicate, invalid, not_supported, required, too_many
from pykubelet.api.meta import LabelSelector
from pykubelet.api.validation import names
from pykubelet.api.validation.meta import validate_label_selector

if TYPE_CHECKING:
    from pykubelet.apiserver.cel.admission import Named

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_MOST_CONDITIONS: Final = 64
AUTHORIZER: Final = ("authorizer", "authorizer.requestResource")
_VARIABLES: Final = ("object", "oldObject", "request", "namespaceObject", *AUTHORIZER)


def rule_faults(rule: dict[str, Any], path: str) -> Iterator[FieldError]:
    yield from _values(rule.get("operations") or [], f"{path}.operations", "operations")
    for number, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{number}]", operation, _OPERATIONS)
    yield from _values(rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    yield from _values(rule.get("apiVersions") or [], f"{path}.apiVersions", "API versions")
    for number, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            yield required(f"{path}.apiVersions[{number}]")
    yield from _resource_faults(rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope") not in (None, *_SCOPES):
        yield not_supported(f"{path}.scope", rule["scope"], _SCOPES)


def _values(values: Sequence[str], path: str, what: str) -> Iterator[FieldError]:
    if not values:
        yield required(path)
    if len(values) > 1 and "*" in values:
        yield invalid(path, list(values), f"if '*' is present, must not specify other {what}")


def _resource_faults(resources: Sequence[str], path: str) -> Iterator[FieldError]:
    if not resources:
        yield required(path)
    whole: set[str] = set()
    parts: set[str] = set()
    for number, each in enumerate(resources):
        if not each:
            yield required(f"{path}[{number}]")
        resource, slash, part = each.partition("/")
        if not slash:
            continue
        if resource in whole:
            yield invalid(f"{path}[{number}]", each, f"if '{resource}/*' is present, must not specify {each}")
        if part in parts:
            yield invalid(f"{path}[{number}]", each, f"if '*/{part}' is present, must not specify {each}")
        whole |= {resource} if part == "*" else set()
        parts |= {part} if resource == "*" else set()
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, list(resources), "if '*/*' is present, must not specify other resources")
    if "*" in resources and any(each != "*" and "/" not in each for each in resources):
        why = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, list(resources), why)


def selector_faults(selector: Any, path: str) -> Iterator[FieldError]:
    try:
        yield from validate_label_selector(convert(LabelSelector, selector or {}), path)
    except DecodeError as error:
        yield invalid(path, selector, error.reason)


def condition_faults(conditions: Sequence[dict[str, Any]], path: str, *variables: str) -> Iterator[FieldError]:
    """`variables`: what expressions may name besides the write itself."""
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many(path, _MOST_CONDITIONS, len(conditions))
    seen: set[str] = set()
    for number, each in enumerate(conditions):
        name, here = each.get("name", ""), f"{path}[{number}]"
        expression = (each.get("expression") or "").strip()
        if not expression:
            yield required(f"{here}.expression")
        elif fault := expression_fault(expression, (*_VARIABLES, *variables), ("bool",)):
            yield invalid(f"{here}.expression", expression, fault)
        if not name:
            yield required(f"{here}.name")
        elif name in seen:
            yield duplicate(f"{here}.name", name)
        for fault in names.qualified_name(name) if name else ():
            yield invalid(f"{here}.name", name, fault)
        seen.add(name)


def expression_fault(
    expression: str, variables: Sequence[str], results: Sequence[str], named: "Named | None" = None
) -> str:
    """Why an expression cannot be used where one of the `results` is wanted (none: any); empty: it can."""
    # Only now: few write expressions, and what reads them takes a tenth of a second to load.
    from pykubelet.apiserver.cel.admission import compiled
    from pykubelet.apiserver.cel.program import CompileError
    from pykubelet.apiserver.cel.types import Type

    try:
        compiled(expression, tuple(variables), named, tuple(map(Type, results)))
    except CompileError as error:
        return str(error)
    return ""

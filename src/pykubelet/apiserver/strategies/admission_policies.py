"""Validating admission policies and their bindings."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pykubelet.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from pykubelet.api.validation import names
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.admission_rules import (
    AUTHORIZER,
    condition_faults,
    expression_fault,
    rule_faults,
    selector_faults,
)
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.roles import path_segment_faults

if TYPE_CHECKING:
    from pykubelet.apiserver.cel.admission import Named

_SEEN: Final = ("object", "oldObject", "request", "namespaceObject")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_MOST_NOTES: Final = 20


class ValidatingAdmissionPolicyStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.get("spec")
        if isinstance(spec, dict):
            spec.setdefault("failurePolicy", "Fail")
            _fill_in(spec.get("matchConstraints"))
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj.get("spec") or {}
        if spec.get("failurePolicy") not in ("Fail", "Ignore"):
            yield not_supported("spec.failurePolicy", spec.get("failurePolicy"), ("Fail", "Ignore"))
        kind = spec.get("paramKind")
        if kind is not None:
            yield from _kind_faults(kind, "spec.paramKind")
        constraints = spec.get("matchConstraints")
        if constraints is None:
            yield required("spec.matchConstraints")
        else:
            yield from _resource_faults(constraints, "spec.matchConstraints")
            if not constraints.get("resourceRules"):
                yield required("spec.matchConstraints.resourceRules")
        more = ("params",) if kind is not None else ()
        yield from condition_faults(spec.get("matchConditions") or (), "spec.matchConditions", *more)
        expressions = _Expressions(spec.get("variables") or [], (*_SEEN, *AUTHORIZER, *more))
        yield from expressions.variable_faults()
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            for field in ("validations", "auditAnnotations"):
                yield required(f"spec.{field}", "validations or auditAnnotations must contain at least one item")
        for number, each in enumerate(spec.get("validations") or ()):
            yield from _validation_faults(each, f"spec.validations[{number}]", expressions)
        yield from _note_faults(spec.get("auditAnnotations") or [], expressions)


class _Expressions:
    """What the expressions of a policy may name: what is there for all, and its variables, each after its own."""

    def __init__(self, variables: list[dict[str, Any]], seen: tuple[str, ...]) -> None:
        self._variables = variables
        self._seen = seen
        self._named: Named | None = None
        if variables:
            from pykubelet.apiserver.cel.admission import named_of  # takes long to load, and few need it

            self._named = named_of(variables, seen)

    def faults(
        self, expression: str | None, path: str, *results: str, upto: int | None = None, asks: bool = True
    ) -> Iterator[FieldError]:
        """`upto`: how many of the variables it may use; `asks`: whether it may ask who may do what."""
        if not (expression or "").strip():
            yield required(path, "expression is not specified")
            return
        seen = tuple(name for name in self._seen if asks or name not in AUTHORIZER)
        named = self._named[:upto] if self._named is not None else None
        if fault := expression_fault((expression or "").strip(), seen, results, named):
            yield invalid(path, expression, fault)

    def variable_faults(self) -> Iterator[FieldError]:
        for number, each in enumerate(self._variables):
            path, name = f"spec.variables[{number}]", each.get("name", "")
            if not name.strip():
                yield required(f"{path}.name", "name is not specified")
            elif not _IDENTIFIER.fullmatch(name):
                yield invalid(f"{path}.name", name, "must be a valid CEL identifier")
            yield from self.faults(each.get("expression"), f"{path}.expression", upto=number)


class ValidatingAdmissionPolicyBindingStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        _fill_in((result.get("spec") or {}).get("matchResources"))
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj.get("spec") or {}
        policy = spec.get("policyName", "")
        if not policy:
            yield required("spec.policyName")
        for fault in names.dns_subdomain(policy) if policy else ():
            yield invalid("spec.policyName", policy, fault)
        if spec.get("paramRef") is not None:
            yield from _parameter_faults(spec["paramRef"], "spec.paramRef")
        if spec.get("matchResources") is not None:
            yield from _resource_faults(spec["matchResources"], "spec.matchResources")
        actions = spec.get("validationActions") or []
        if not actions:
            yield required("spec.validationActions", "at least one validation action is required")
        for number, action in enumerate(actions):
            if action not in _ACTIONS:
                yield not_supported(f"spec.validationActions[{number}]", action, _ACTIONS)
            if action in actions[:number]:
                yield duplicate(f"spec.validationActions[{number}]", action)
        if "Deny" in actions and "Warn" in actions:
            why = "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            yield invalid("spec.validationActions", actions, f"{why}response and headers serves no purpose)")


def _fill_in(match: Any) -> None:
    if not isinstance(match, dict):
        return
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(field) or ():
            rule.setdefault("scope", "*")


def _resource_faults(match: dict[str, Any], path: str) -> Iterator[FieldError]:
    if match.get("matchPolicy") not in (None, "Equivalent", "Exact"):
        yield not_supported(f"{path}.matchPolicy", match["matchPolicy"], ("Equivalent", "Exact"))
    for field in ("namespaceSelector", "objectSelector"):
        yield from selector_faults(match.get(field), f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for number, rule in enumerate(match.get(field) or ()):
            yield from rule_faults(rule, f"{path}.{field}[{number}]")


def _kind_faults(kind: dict[str, Any], path: str) -> Iterator[FieldError]:
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not version:
        yield required(f"{path}.apiVersion")
    elif version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    if not name:
        yield required(f"{path}.kind")
    for fault in names.dns_1035_label(name.lower()) if name else ():
        yield invalid(f"{path}.kind", name, f"may have mixed case, but should otherwise match: {fault}")


def _validation_faults(validation: dict[str, Any], path: str, expressions: _Expressions) -> Iterator[FieldError]:
    yield from expressions.faults(validation.get("expression"), f"{path}.expression", "bool")
    message = validation.get("message") or ""
    if "\n" in message.strip():
        yield invalid(f"{path}.message", message, "message must not contain line breaks")
    if validation.get("messageExpression"):
        told = validation["messageExpression"]
        yield from expressions.faults(told, f"{path}.messageExpression", "string", asks=False)
    if validation.get("reason") not in (None, *_REASONS):
        yield not_supported(f"{path}.reason", validation["reason"], _REASONS)


def _note_faults(wanted: list[dict[str, Any]], expressions: _Expressions) -> Iterator[FieldError]:
    if len(wanted) > _MOST_NOTES:
        why = f"must not have more than {_MOST_NOTES} auditAnnotations"
        yield invalid("spec.auditAnnotations", len(wanted), why)
    keys: set[str] = set()
    for number, each in enumerate(wanted):
        path, key = f"spec.auditAnnotations[{number}]", each.get("key", "")
        if not key:
            yield required(f"{path}.key")
        for fault in names.qualified_name(key) if key else ():
            yield invalid(f"{path}.key", key, fault)
        if key and key in keys:
            yield duplicate(f"{path}.key", key)
        keys.add(key)
        value = each.get("valueExpression")
        yield from expressions.faults(value, f"{path}.valueExpression", "string", "null_type")


def _parameter_faults(given: dict[str, Any], path: str) -> Iterator[FieldError]:
    name, selector = given.get("name") or "", given.get("selector")
    for fault in path_segment_faults(name):
        yield invalid(f"{path}.name", name, fault)
    if selector is not None:
        yield from selector_faults(selector, f"{path}.selector")
    if name and selector is not None:
        for field in ("name", "selector"):
            yield forbidden(f"{path}.{field}", "name and selector are mutually exclusive")
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")
    action = given.get("parameterNotFoundAction")
    if not action:
        yield required(f"{path}.parameterNotFoundAction")
    elif action not in ("Allow", "Deny"):
        yield not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))

"""Validating admission policies and their bindings."""

import re
from collections.abc import Iterator
from typing import Any, Final

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

_SEEN: Final = ("object", "oldObject", "request", "namespaceObject", "variables")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
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
        for field in ("apiVersion", "kind"):
            if kind is not None and not kind.get(field):
                yield required(f"spec.paramKind.{field}")
        constraints = spec.get("matchConstraints")
        if constraints is None:
            yield required("spec.matchConstraints")
        else:
            yield from _resource_faults(constraints, "spec.matchConstraints")
            if not constraints.get("resourceRules"):
                yield required("spec.matchConstraints.resourceRules")
        more = ("params",) if kind is not None else ()
        seen = (*_SEEN, *AUTHORIZER, *more)
        yield from condition_faults(spec.get("matchConditions") or (), "spec.matchConditions", "variables", *more)
        yield from _variable_faults(spec.get("variables") or (), seen)
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            for field in ("validations", "auditAnnotations"):
                yield required(f"spec.{field}", "validations or auditAnnotations must contain at least one item")
        for number, each in enumerate(spec.get("validations") or ()):
            yield from _validation_faults(each, f"spec.validations[{number}]", seen)
        yield from _note_faults(spec.get("auditAnnotations") or [], seen)


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


def _variable_faults(variables: Any, seen: tuple[str, ...]) -> Iterator[FieldError]:
    for number, each in enumerate(variables):
        path, name = f"spec.variables[{number}]", each.get("name", "")
        if not name.strip():
            yield required(f"{path}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name):
            yield invalid(f"{path}.name", name, "must be a valid CEL identifier")
        yield from _expression_faults(each.get("expression"), f"{path}.expression", seen, "")


def _validation_faults(validation: dict[str, Any], path: str, seen: tuple[str, ...]) -> Iterator[FieldError]:
    yield from _expression_faults(validation.get("expression"), f"{path}.expression", seen, "bool")
    message = validation.get("message") or ""
    if "\n" in message.strip():
        yield invalid(f"{path}.message", message, "message must not contain line breaks")
    if validation.get("messageExpression"):
        told = tuple(name for name in seen if name not in AUTHORIZER)
        yield from _expression_faults(validation["messageExpression"], f"{path}.messageExpression", told, "string")
    if validation.get("reason") not in (None, *_REASONS):
        yield not_supported(f"{path}.reason", validation["reason"], _REASONS)


def _note_faults(wanted: list[dict[str, Any]], seen: tuple[str, ...]) -> Iterator[FieldError]:
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
        yield from _expression_faults(each.get("valueExpression"), f"{path}.valueExpression", seen, "")


def _expression_faults(expression: str | None, path: str, seen: tuple[str, ...], result: str) -> Iterator[FieldError]:
    text = (expression or "").strip()
    if not text:
        yield required(path, "expression is not specified")
    elif fault := expression_fault(text, seen, result):
        yield invalid(path, expression, fault)


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

"""The rules of a schema that are written as expressions: compiled once, and evaluated on every object.

A rule belongs to the place in the schema where it is written, and sees what stands there as `self`. What already was
as it is before an update may stay, even where a rule speaks against it: rules can be added to a schema that is in use.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykubelet.api.field_errors import FieldError, duplicate, forbidden, invalid, required
from pykubelet.apiserver.cel.program import (
    Budget,
    CelError,
    CompileError,
    Program,
    TooExpensive,
    compile_expression,
)
from pykubelet.apiserver.cel.types import BOOL, STRING, Type, optional_of
from pykubelet.apiserver.cel.values import NONE, Optional
from pykubelet.apiserver.custom.declarations import Adapter, Schema, adapter, declared
from pykubelet.apiserver.custom.field_paths import BadPath, field_path
from pykubelet.apiserver.schema.schema import same

RULES: Final = "x-kubernetes-validations"
_LONGEST_MESSAGE: Final = 5 << 10
_OUT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class Rule(msgspec.Struct, frozen=True):
    program: Program
    message: str
    shown: str
    """What is said of it where its own message cannot be."""
    message_program: Program | None
    reason: str
    field_path: str
    is_optional_old: bool

    @property
    def is_transition(self) -> bool:
        return "oldSelf" in self.program.used


class RuleTree(msgspec.Struct, frozen=True):
    """The rules at one place of a schema and below."""

    kind: str
    """The type of the schema, which stands for the value in what is said about it."""
    rules: tuple[Rule, ...]
    adapter: Adapter
    items: "RuleTree | None"
    values: "RuleTree | None"
    properties: "Mapping[str, RuleTree]"
    all_of: "tuple[RuleTree, ...]"
    keys: tuple[str, ...]
    """What tells the items of a list apart."""


def rule_tree(schema: Schema, *, is_root: bool = True) -> RuleTree | None:
    """None: there is no rule in it. Raises CompileError, which is a surprise: it was compiled when it was written."""
    return _tree(schema, schema, "self", is_root)


def _tree(validation: Schema, node: Schema, name: str, is_root: bool) -> RuleTree | None:
    """`validation` is `node`, or the part of an allOf that says more about it."""
    is_root = is_root or bool(node.get("x-kubernetes-embedded-resource"))
    kind = declared(node, name, is_root=is_root)
    rules = tuple(compiled_rules(validation, node, kind))
    items = values = None
    properties = {}
    if "items" in validation and "items" in node:
        items = _tree(validation["items"], node["items"], f"{name}.@idx", False)
    inner = validation.get("additionalProperties")
    if isinstance(inner, Mapping) and isinstance(node.get("additionalProperties"), Mapping):
        values = _tree(inner, node["additionalProperties"], f"{name}.@elem", False)
    for each, part in validation.get("properties", {}).items():
        if each in node.get("properties", {}):
            found = _tree(part, node["properties"][each], f"{name}.{each}", False)
            if found is not None:
                properties[each] = found
    parts = (_tree(part, node, name, is_root) for part in validation.get("allOf", ()))
    all_of = tuple(part for part in parts if part is not None)
    if not (rules or items or values or properties or all_of):
        return None
    made = adapter(node, name, is_root=is_root)
    keys = tuple(node.get("x-kubernetes-list-map-keys", ())) if node.get("x-kubernetes-list-type") == "map" else ()
    return RuleTree(node.get("type", ""), rules, made, items, values, properties, all_of, keys)


def compiled_rules(validation: Schema, node: Schema, kind: Type | None) -> Iterator[Rule]:
    """Raises CompileError for the first that cannot be."""
    for rule in validation.get(RULES) or ():
        if not rule.get("rule", "").strip():
            continue
        if kind is None:
            raise CompileError("failed to convert to declType for CEL validation rules")
        yield compiled_rule(rule, node, kind)


def compiled_rule(rule: Mapping[str, Any], node: Schema, kind: Type) -> Rule:
    """Raises CompileError."""
    is_optional = bool(rule.get("optionalOldSelf"))
    variables = {"self": kind, "oldSelf": optional_of(kind) if is_optional else kind}
    program = compile_expression(rule["rule"], variables, BOOL)
    message = rule.get("messageExpression") or ""
    path = ""
    if rule.get("fieldPath"):
        try:
            path = field_path(rule["fieldPath"], node)
        except BadPath:
            path = ""
    said, text = (rule.get("message") or "").strip(), rule["rule"].strip()
    return Rule(
        program,
        said or f"failed rule: {text}",
        said or text,
        compile_expression(message, variables, STRING) if message else None,
        rule.get("reason") or "",
        path,
        is_optional,
    )


class _Place(msgspec.Struct, frozen=True):
    path: str
    value: Any
    old: Any
    """None: there is nothing to compare it with."""
    is_kept: bool
    """Whether it was as it is, or is part of something that was."""


def rule_faults(tree: RuleTree, obj: Any, old: Any, budget: Budget, path: str = "") -> list[FieldError]:
    """What the rules say against an object that fits its schema. `old` is None when it is created.

    Raises TooExpensive when the budget is used up.
    """
    return list(_walk(tree, _Place(path, obj, old, False), budget))


def out_of_budget(kind: str = "object", path: str = "") -> FieldError:
    return invalid(path, kind, _OUT)


def _walk(tree: RuleTree, place: _Place, budget: Budget) -> Iterator[FieldError]:
    if place.value is None:
        return
    if tree.rules:
        yield from _at(tree, place, budget)
    for part in tree.all_of:
        yield from _walk(part, place, budget)
    value, old, is_kept = place.value, place.old, place.is_kept
    if isinstance(value, dict):
        olds = old if isinstance(old, dict) else {}
        for key, each in value.items():
            inner = tree.properties.get(key)
            if inner is not None:
                at = f"{place.path}.{key}".lstrip(".")
                yield from _walk(inner, _Place(at, each, olds.get(key), is_kept), budget)
            if tree.values is not None:
                yield from _walk(tree.values, _Place(f"{place.path}[{key}]", each, olds.get(key), is_kept), budget)
    elif isinstance(value, list) and tree.items is not None:
        olds = _by_keys(old, tree.keys)
        is_kept = is_kept or (isinstance(old, list) and same(value, old))
        for index, each in enumerate(value):
            before = olds.get(item_key(each, tree.keys)) if olds else None
            yield from _walk(tree.items, _Place(f"{place.path}[{index}]", each, before, is_kept), budget)


def _by_keys(items: Any, keys: Sequence[str]) -> dict[Any, Any]:
    if not keys or not isinstance(items, list):
        return {}
    return {item_key(each, keys): each for each in items}


def item_key(item: Any, keys: Sequence[str]) -> Any:
    """What tells an item of a list apart from the others."""
    return tuple(repr(item.get(key)) for key in keys) if isinstance(item, dict) else None


def _at(tree: RuleTree, place: _Place, budget: Budget) -> Iterator[FieldError]:
    """What the rules at one place say."""
    try:
        value = tree.adapter(place.value)
        old = None if place.old is None else tree.adapter(place.old)
    except CelError as error:
        yield invalid(place.path, tree.kind, str(error))
        return
    for rule in tree.rules:
        if rule.is_transition and place.old is None and not rule.is_optional_old:
            continue
        before = (NONE if place.old is None else Optional(old)) if rule.is_optional_old else old
        fault = _fault(tree.kind, rule, place.path, {"self": value, "oldSelf": before}, budget)
        if fault is None:
            continue
        is_kept = place.is_kept or (place.old is not None and same(place.value, place.old))
        if rule.is_transition or not is_kept or place.path in ("apiVersion", "kind"):
            yield fault


def _fault(kind: str, rule: Rule, path: str, values: Mapping[str, Any], budget: Budget) -> FieldError | None:
    if budget.left <= 0:
        raise TooExpensive
    try:
        if rule.program.evaluate(values, budget) is True:
            return None
    except CelError as error:
        if str(error).startswith("no such overload"):
            said = "call arguments did not match a supported operator, function or macro signature for rule"
            return invalid(path, kind, f"'{error}': {said}: {rule.shown}")
        return invalid(path, kind, f"{error} evaluating rule: {rule.shown}")
    path += rule.field_path if path or not rule.field_path.startswith(".") else rule.field_path[1:]
    message = _message(rule, values, budget)
    match rule.reason:
        case "FieldValueForbidden":
            return forbidden(path, message)
        case "FieldValueRequired":
            return required(path, message)
        case "FieldValueDuplicate":
            return duplicate(path, kind)
    return invalid(path, kind, message)


def _message(rule: Rule, values: Mapping[str, Any], budget: Budget) -> str:
    """Its own, if that comes to something that can be said."""
    if rule.message_program is None:
        return rule.message
    try:
        found = rule.message_program.evaluate(values, budget)
    except CelError:
        return rule.message
    text = found.strip() if isinstance(found, str) else ""
    return rule.message if not text or "\n" in text or len(text.encode()) > _LONGEST_MESSAGE else text

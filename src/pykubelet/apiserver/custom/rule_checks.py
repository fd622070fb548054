"""Whether the rules of a schema may be used: each is compiled when the definition is written."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from pykubelet.apiserver.cel.parser import parse
from pykubelet.apiserver.cel.program import CompileError, compile_expression
from pykubelet.apiserver.cel.types import BOOL, STRING, Type, optional_of
from pykubelet.apiserver.custom.declarations import Schema, declared
from pykubelet.apiserver.custom.field_paths import BadPath, steps
from pykubelet.apiserver.custom.rule_costs import PER_RULE, PER_SCHEMA, cost, most, over
from pykubelet.apiserver.custom.rules import RULES

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
MOST_RULES: Final = 1000
"""Of one version, so that to compile them all takes no longer than to read them."""


def rules_faults(schema: Schema, path: str) -> Iterator[FieldError]:
    """What is wrong with the rules of a structural schema."""
    if _count(schema) > MOST_RULES:
        yield forbidden(path, f"has more than {MOST_RULES} validation rules")
        return
    spent: list[int] = []
    yield from _walk(schema, path, "self", "", 1, spent, is_root=True)
    if why := over(sum(spent), PER_SCHEMA):
        yield forbidden(path, f"x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema {why}")


def _count(schema: Schema) -> int:
    total, waiting = 0, [schema]
    while waiting:
        outer = waiting.pop()
        total += len(outer.get(RULES) or ())
        waiting += [inner for inner, _, _, _ in _inside(outer, "", "", "")]
    return total


def _inside(schema: Schema, path: str, name: str, apart: str) -> Iterator[tuple[Schema, str, str, str]]:
    """The schemas inside, with their paths and the names of their types; `apart` says where old values are lost."""
    for each, inner in (schema.get("properties") or {}).items():
        yield inner, f"{path}.properties[{each}]", f"{name}.{each}", apart
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield schema["additionalProperties"], f"{path}.additionalProperties", f"{name}.@elem", apart
    if isinstance(schema.get("items"), Mapping):
        is_keyed = schema.get("x-kubernetes-list-type") == "map"
        yield schema["items"], f"{path}.items", f"{name}.@idx", apart if is_keyed else apart or path or "."


def _walk(
    schema: Schema, path: str, name: str, apart: str, times: int, spent: list[int], *, is_root: bool = False
) -> Iterator[FieldError]:
    """`times`: how many values of this schema there may be; `spent`: what the rules may cost."""
    if schema.get(RULES):
        kind = declared(schema, name, is_root=is_root)
        for index, rule in enumerate(schema[RULES]):
            faults = list(_rule_faults(rule, schema, kind, f"{path}.{RULES}[{index}]", apart))
            yield from faults
            if not faults:
                spent.append(times * cost(parse(rule["rule"]), schema))
                if why := over(spent[-1], PER_RULE):
                    yield forbidden(f"{path}.{RULES}[{index}].rule", f"estimated rule cost {why}")
    many = times * most(schema) if path and _is_many(schema) else times
    for inner, place, inner_name, inner_apart in _inside(schema, path, name, apart):
        yield from _walk(inner, place, inner_name, inner_apart, many, spent)


def _is_many(schema: Schema) -> bool:
    return isinstance(schema.get("items"), Mapping) or isinstance(schema.get("additionalProperties"), Mapping)


def _rule_faults(
    rule: Mapping[str, Any], schema: Schema, kind: Type | None, path: str, apart: str
) -> Iterator[FieldError]:
    text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    if not text:
        yield required(f"{path}.rule", "rule is not specified")
        return
    if message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif ("\n" in text or "\r" in text) and not message:
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if rule.get("messageExpression") and not rule["messageExpression"].strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)
    if rule.get("fieldPath"):
        try:
            steps(rule["fieldPath"], schema)
        except BadPath:
            yield invalid(f"{path}.fieldPath", rule["fieldPath"], "must be a valid path")
    yield from _expression_faults(rule, kind, path, apart)


def _expression_faults(rule: Mapping[str, Any], kind: Type | None, path: str, apart: str) -> Iterator[FieldError]:
    if kind is None:
        yield invalid(f"{path}.rule", rule["rule"], "cannot be used where the schema has no type")
        return
    variables = {"self": kind, "oldSelf": optional_of(kind) if rule.get("optionalOldSelf") else kind}
    try:
        program = compile_expression(rule["rule"], variables, BOOL)
    except CompileError as error:
        yield invalid(f"{path}.rule", rule["rule"], f"compilation failed: {error}")
        return
    if "oldSelf" in program.used and apart:
        said = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {apart}"
        yield invalid(f"{path}.rule", rule["rule"], said)
    if "oldSelf" not in program.used and rule.get("optionalOldSelf") is not None:
        said = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], said)
    if rule.get("messageExpression"):
        try:
            compile_expression(rule["messageExpression"], variables, STRING)
        except CompileError as error:
            said = f"messageExpression compilation failed: {error}"
            yield invalid(f"{path}.messageExpression", rule["messageExpression"], said)

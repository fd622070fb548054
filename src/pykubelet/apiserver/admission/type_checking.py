"""What is wrong with the expressions of a policy, given the types of what it is for: told in its status, for a policy
decides all the same."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pykubelet.apiserver.admission.policy_rules import VARIABLES
from pykubelet.apiserver.cel.library_authorization import AUTHORIZER
from pykubelet.apiserver.cel.names import escaped
from pykubelet.apiserver.cel.program import CompileError, compile_expression
from pykubelet.apiserver.cel.types import BOOL, DOUBLE, DYN, INT, STRING, ObjectType, Type, list_of, map_of
from pykubelet.apiserver.schema.kinds import Resources
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.schema.schema import ListOf, MapOf, Record, Scalar, Schema

_MOST_TYPES: Final = 10
_PLAIN: Final = {"boolean": BOOL, "integer": INT, "number": DOUBLE, "string": STRING}
_NAMED: Final = "kubernetes.variables"


def expression_warnings(spec: Mapping[str, Any], resources: Resources) -> list[dict[str, str]]:
    """As a policy's status has them."""
    known: dict[str, Type] = {}
    of_kinds = [(each, _variables(spec, each, resources, known)) for each in _meant(spec, resources)]
    found = []
    for number, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            faults = list(_faults(validation.get(field) or "", of_kinds))
            if faults:
                where = f"spec.validations[{number}].{field}"
                found.append({"fieldRef": where, "warning": "\n".join(faults)})
    return found


def _faults(expression: str, of_kinds: Iterable[tuple[Resource, Mapping[str, Type]]]) -> Iterator[str]:
    for resource, variables in of_kinds if expression else ():
        try:
            compile_expression(expression, variables)
        except CompileError as error:
            kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
            yield f"{kind}: compilation failed: {error}\n"


def _meant(spec: Mapping[str, Any], resources: Resources) -> list[Resource]:
    """The kinds that its rules name, but for those with a `*`, which may be any."""
    found: dict[tuple[str, str, str], Resource] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        for group in sorted(rule.get("apiGroups") or ()):
            for version in sorted(rule.get("apiVersions") or ()):
                for plural in sorted(rule.get("resources") or ()):
                    resource = resources.find(group, version, plural)
                    if resource is not None and len(found) < _MOST_TYPES:
                        found[resource.group, resource.version, resource.kind] = resource
    return [found[key] for key in sorted(found)]


def _variables(
    spec: Mapping[str, Any], resource: Resource, resources: Resources, known: dict[str, Type]
) -> Mapping[str, Type]:
    own, parameter = type_of(resource.schema, known), DYN
    if kind := spec.get("paramKind"):
        wanted = kind.get("apiVersion"), kind.get("kind")
        meant = next((each for each in resources if (each.api_version, each.kind) == wanted), None)
        parameter = type_of(meant.schema, known) if meant is not None else DYN
    named: dict[str, Type] = {}
    types: dict[str, Type] = {**dict.fromkeys(VARIABLES, DYN), **AUTHORIZER, "object": own, "oldObject": own}
    types |= {"params": parameter, "variables": ObjectType(_NAMED, fields=named)}
    for each in spec.get("variables") or ():
        try:
            named[each["name"]] = compile_expression(each["expression"], types).type
        except CompileError:
            named[each["name"]] = DYN
    return types


def type_of(schema: Schema, known: dict[str, Type]) -> Type:
    """`known`: the types that were made before, by their names; some are in themselves."""
    match schema:
        case ListOf():
            return list_of(type_of(schema.items, known))
        case MapOf():
            return map_of(STRING, type_of(schema.items, known))
        case Scalar():
            return DYN if schema.format in ("byte", "date-time", "int-or-string", "quantity") else _PLAIN[schema.kind]
        case Record() if not schema.is_open and schema.fields:
            if schema.name not in known:
                fields: dict[str, Type] = {}
                known[schema.name] = ObjectType(schema.name, fields=fields)
                for name, field in schema.fields.items():
                    if (written := escaped(name)) is not None:
                        fields[written] = type_of(field.type, known)
            return known[schema.name]
    return DYN

"""Validating admission policies: expressions about what is written, bound to the writes that they are for.

A policy is read when it is written, and its expressions when the first write is meant by it. What goes wrong with one
refuses the write, unless the policy says that it may be passed over.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from pykubelet.api.selectors import Selector, from_json, matches
from pykubelet.apiserver import status
from pykubelet.apiserver.admission.evaluating import Expressions
from pykubelet.apiserver.admission.hooks import GROUP, Match, labels_of, match_of, possible_match
from pykubelet.apiserver.admission.sight import Sight
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import UNREADABLE, Object, encode, made_of
from pykubelet.apiserver.requests.admission import Attempt
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Entry

T = TypeVar("T")
POLICIES: Final = "validatingadmissionpolicies"
BINDINGS: Final = "validatingadmissionpolicybindings"
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_EXPRESSIONS: Final = {
    "matchConditions": ("expression",),
    "variables": ("name", "expression"),
    "validations": ("expression",),
    "auditAnnotations": ("key", "valueExpression"),
}
_MAY_BE: Final = ("message", "messageExpression", "reason")
_FAILURE: Final = "validation.policy.admission.k8s.io/validation_failure"


class Parameters(msgspec.Struct, frozen=True):
    """Which objects a binding gives to its policy."""

    name: str
    namespace: str
    selector: Selector | None
    must_be: bool


class Binding(msgspec.Struct, frozen=True):
    name: str
    policy: str
    """Empty: nobody can read which, and it may be any."""
    match: Match | None
    parameters: Parameters | None
    actions: tuple[str, ...]
    fault: str = ""
    """Why it cannot be used."""


class Definition(msgspec.Struct, frozen=True):
    name: str
    match: Match
    is_closed: bool
    parameter: tuple[str, str] | None
    """apiVersion and kind"""
    spec: Mapping[str, Any]
    fault: str = ""


class Denial(msgspec.Struct, frozen=True):
    message: str
    reason: str = ""
    number: int = 0
    """Of the expression."""


def definition_of(name: str, obj: Object | None) -> Definition:
    """None: one that nobody can read. What is spoilt has a fault, and its failurePolicy says what follows."""
    spec = obj.get("spec") if obj is not None else None
    known = spec if isinstance(spec, dict) else {}
    is_closed = known.get("failurePolicy") != "Ignore"
    try:
        kind = known.get("paramKind")
        _look_through(known)
        return Definition(
            name=name,
            match=match_of(known["matchConstraints"], "resourceRules"),
            is_closed=is_closed,
            parameter=(kind["apiVersion"], kind["kind"]) if kind else None,
            spec=known,
        )
    except UNREADABLE as error:
        match = possible_match(known.get("matchConstraints"), "resourceRules")
        return Definition(name, match, is_closed, None, known, _unreadable("policy", name, error))


def _look_through(spec: Mapping[str, Any]) -> None:
    """Raises KeyError and TypeError for expressions that are none."""
    for field, texts in _EXPRESSIONS.items():
        for each in spec.get(field) or ():
            for text in (*texts, *(name for name in _MAY_BE if name in each)):
                if not isinstance(each[text], str):
                    raise TypeError(f"{field}: {text} is no text")


def binding_of(name: str, obj: Object | None) -> Binding:
    spec = obj.get("spec") if obj is not None else None
    known = spec if isinstance(spec, dict) else {}
    policy, resources, given = known.get("policyName"), known.get("matchResources"), known.get("paramRef")
    try:
        return Binding(
            name=name,
            policy=known["policyName"],
            match=match_of(resources, "resourceRules") if resources else None,
            parameters=_parameters(given) if given else None,
            actions=tuple(known.get("validationActions") or ()),
        )
    except UNREADABLE as error:
        match = possible_match(resources, "resourceRules")
        fault = _unreadable("binding", name, error)
        return Binding(name, policy if isinstance(policy, str) else "", match, None, (), fault)


def _unreadable(what: str, name: str, error: Exception) -> str:
    return f"the {what} {name} cannot be read: {error!r}; delete it or write it anew"


def _parameters(given: Mapping[str, Any]) -> Parameters:
    selector = from_json(given["selector"]) if given.get("selector") is not None else None
    must_be = given.get("parameterNotFoundAction") != "Allow"
    return Parameters(given.get("name") or "", given.get("namespace") or "", selector, must_be)


def _tell(
    known: dict[str, T], make: Callable[[str, Object | None], T], prefix: str, key: str, entry: Entry | None
) -> None:
    name = key.removeprefix(prefix)
    known.pop(name, None)
    if entry is not None:
        known[name] = make(name, made_of(entry, _map, "what it may be meant by is refused"))


def _map(obj: Object) -> Object:
    if not isinstance(obj, dict):
        raise TypeError("is no object")
    return obj


class ValidatingPolicies:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._sight = Sight(backend)
        self._expressions = Expressions()
        self._definitions: dict[str, Definition] = {}
        self._bindings: dict[str, Binding] = {}
        resources = backend.resources
        definitions, bindings = (resources.of(GROUP, plural).prefix for plural in (POLICIES, BINDINGS))
        backend.cache.mirror(definitions, partial(_tell, self._definitions, definition_of, definitions))
        backend.cache.mirror(bindings, partial(_tell, self._bindings, binding_of, bindings))

    def has_any(self) -> bool:
        return bool(self._bindings)

    async def validate(self, attempt: Attempt) -> None:
        """Raises ApiError: what the first of all policies that refuse has to say."""
        if not self._bindings:
            return
        refusals: list[ApiError] = []
        for name, definition in sorted(self._definitions.items()):
            bindings = [each for _, each in sorted(self._bindings.items()) if each.policy in (name, "")]
            if bindings:
                refusals += await self._refusals(definition, bindings, attempt)
        if refusals:
            raise refusals[0]

    async def _refusals(self, definition: Definition, bindings: Iterable[Binding], attempt: Attempt) -> list[ApiError]:
        seen_as = await self._sight.meant_as(definition.match, attempt)
        if seen_as is None:
            return []
        if fault := definition.fault or self._kind_fault(definition):
            return _misconfigured(definition, None, attempt, fault)
        found: list[ApiError] = []
        notes: dict[str, list[str]] = {}
        for binding in bindings:
            match = binding.match
            if match is not None and not match.rules:  # without rules, all that the policy is for
                match = msgspec.structs.replace(match, rules=definition.match.rules)
            if match is not None and await self._sight.meant_as(match, attempt) is None:
                continue
            try:
                parameters = await self._given(definition, binding, attempt)
            except ValueError as error:
                found += _misconfigured(definition, binding, attempt, str(error))
                continue
            for parameter in parameters:
                found += await self._decided(definition, binding, attempt, seen_as, parameter, notes)
        for key, values in notes.items():
            attempt.notes[f"{definition.name}/{key}"] = ", ".join(dict.fromkeys(values))
        return found

    def _kind_fault(self, definition: Definition) -> str:
        if definition.parameter is None or self._kind(*definition.parameter) is not None:
            return ""
        version, kind = definition.parameter
        shown = f"{version if '/' in version else f'/{version}'}, Kind={kind}"
        return f"failed to find resource referenced by paramKind: '{shown}'"

    async def _decided(
        self,
        definition: Definition,
        binding: Binding,
        attempt: Attempt,
        seen_as: Resource,
        parameter: Object | None,
        notes: dict[str, list[str]],
    ) -> list[ApiError]:
        # Only now: few write expressions, and what reads them takes a tenth of a second to load.
        from pykubelet.apiserver.admission.conditions import values_of
        from pykubelet.apiserver.admission.policy_rules import judged
        from pykubelet.apiserver.admission.verdicts import Verdicts

        values = values_of(attempt, seen_as, *await self._sight.both(attempt, seen_as))
        is_namespace = attempt.resource.plural == "namespaces" and not attempt.resource.group
        namespace = None
        if attempt.namespace and not is_namespace:
            namespace = await self._backend.find("", "namespaces", "", attempt.namespace)
        verdicts = Verdicts(self._backend.access, attempt)
        told = {**values, **verdicts.values(seen_as), "params": parameter, "namespaceObject": namespace}
        work = partial(judged, definition.spec, told)
        judgement = await self._expressions.evaluated(attempt.user.name, verdicts, work)
        for key, value in judgement.notes.items():
            notes.setdefault(key, []).append(value)
        refusals = [_refused(definition, binding, attempt, each) for each in judgement.errors]
        for denial in judgement.denials:
            if "Deny" in binding.actions:
                refusals.append(_refused(definition, binding, attempt, denial))
            if "Warn" in binding.actions:
                who = f"ValidatingAdmissionPolicy '{definition.name}' with binding '{binding.name}'"
                attempt.warnings.append(f"Validation failed for {who}: {denial.message}")
            if "Audit" in binding.actions:
                attempt.notes[_FAILURE] = _failure(definition, binding, denial)
        return refusals

    async def _given(self, definition: Definition, binding: Binding, attempt: Attempt) -> list[Object | None]:
        """What the policy is to be asked with, each by itself. Raises ValueError."""
        if binding.fault:
            raise ValueError(binding.fault)
        wanted = binding.parameters
        if definition.parameter is None or wanted is None:
            return [None]
        resource = self._kind(*definition.parameter)
        if resource is None:  # it has gone in this moment
            raise ValueError(self._kind_fault(definition))
        if not resource.namespaced and wanted.namespace:
            raise ValueError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        namespace = (wanted.namespace or attempt.namespace) if resource.namespaced else ""
        if resource.namespaced and not namespace:
            raise ValueError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
        found: list[Object | None] = []
        for entry in (await self._backend.cache.list(resource.folder(namespace))).entries:
            obj = self._backend.object_of(resource, entry.value, entry.revision)
            if wanted.name:
                is_meant = obj["metadata"]["name"] == wanted.name
            else:
                is_meant = wanted.selector is not None and matches(wanted.selector, labels_of(obj))
            if is_meant:
                found.append(obj)
        if not found and wanted.must_be:
            raise ValueError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return found

    def _kind(self, api_version: str, kind: str) -> Resource | None:
        every = self._backend.resources
        return next((each for each in every if (each.api_version, each.kind) == (api_version, kind)), None)


def _misconfigured(definition: Definition, binding: Binding | None, attempt: Attempt, fault: str) -> list[ApiError]:
    """What follows from what cannot be used at all, whatever the binding says."""
    if not definition.is_closed:
        return []
    message = f"failed to configure {'policy' if binding is None else 'binding'}: {fault}"
    if (wanted := definition.spec.get("failurePolicy", "Fail")) != "Fail":
        message = f"unrecognized failure policy: '{wanted}'"
    return [_refused(definition, binding, attempt, Denial(message))]


def _refused(definition: Definition, binding: Binding | None, attempt: Attempt, denial: Denial) -> ApiError:
    bound = f" with binding '{binding.name}'" if binding is not None else ""
    who = f"ValidatingAdmissionPolicy '{definition.name}'{bound}"
    message = f"{who} denied request: {denial.message}"
    resource = attempt.resource
    error = status.forbidden(resource.plural, attempt.name, message, resource.group, ({"message": message},))
    error.reason = denial.reason or "Invalid"
    error.code = _CODES.get(error.reason, 422)
    return error


def _failure(definition: Definition, binding: Binding, denial: Denial) -> str:
    told = {
        "message": denial.message,
        "policy": definition.name,
        "binding": binding.name,
        "expressionIndex": denial.number,
        "validationActions": list(binding.actions),
    }
    return encode([told]).decode()

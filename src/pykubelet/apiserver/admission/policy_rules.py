"""What the expressions of a policy say about one write. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykubelet.apiserver.admission.policies import Denial
from pykubelet.apiserver.cel.admission import NOTE, TEXT, TRUTH, Results, compiled, named_of
from pykubelet.apiserver.cel.library_authorization import AUTHORIZER
from pykubelet.apiserver.cel.program import Budget, CelError, CompileError, Program, TooExpensive

VARIABLES: Final = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
_SEEN: Final = ("object", "oldObject", "request", "namespaceObject")
_LONGEST_MESSAGE: Final = 5 << 10
_LONGEST_NOTE: Final = 10 << 10
_FOR_CONDITIONS: Final = 2_500_000
"""What match conditions may cost together."""
_CALL: Final = "operation cancelled: actual cost limit exceeded"
_OUT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class Judgement(msgspec.Struct, frozen=True):
    denials: list[Denial]
    errors: list[Denial]
    """What went wrong, and refuses whatever the binding says."""
    notes: dict[str, str]


class _Failed(Exception):
    """An expression that has no value."""


class _OutOfBudget(Exception):
    """Nothing more is evaluated, and what was found before does not count."""


class _Variables(dict[str, Any]):
    """Each is evaluated when it is first looked at: one that nobody needs cannot go wrong."""

    def __init__(self, evaluation: "_Evaluation", programs: Mapping[str, Program | str]) -> None:
        super().__init__()
        self._evaluation = evaluation
        self._programs = programs

    def __contains__(self, name: object) -> bool:
        return name in self._programs

    def __missing__(self, name: str) -> Any:
        found = self._programs[name]
        if isinstance(found, str):
            raise CelError(f'composited variable "{name}" fails to compile: {found}')
        try:
            value = self[name] = self._evaluation.run(found)
        except CelError as error:
            raise CelError(f'composited variable "{name}" fails to evaluate: {error}') from None
        return value


class _Evaluation:
    def __init__(self, spec: Mapping[str, Any], values: Mapping[str, Any], budget: Budget) -> None:
        self._budget = budget
        self._seen = (*_SEEN, *(("params",) if spec.get("paramKind") else ()))
        seen, variables = (*self._seen, *AUTHORIZER), spec.get("variables") or ()
        self._named = named_of(variables, seen)
        programs: dict[str, Program | str] = {}
        for number, each in enumerate(variables):
            try:
                programs[each["name"]] = compiled(each["expression"], seen, self._named[:number])
            except CompileError as error:
                programs[each["name"]] = str(error)
        self._values = {**values, "variables": _Variables(self, programs)}

    def run(self, program: Program) -> Any:
        """Raises CelError."""
        try:
            return program.evaluate(self._values, self._budget)
        except TooExpensive:
            if self._budget.is_trial:
                raise
            if self._budget.left <= 0:
                raise _OutOfBudget from None
            raise CelError(_CALL) from None

    def value(self, expression: str, results: Results) -> Any:
        """Raises _Failed."""
        is_note, asks = results is NOTE, results is not TEXT  # a message cannot ask who may do what
        try:
            program = compiled(expression, (*self._seen, *(AUTHORIZER if asks else ())), self._named, results)
        except CompileError as error:
            raise _Failed(f"compilation error: {error}") from None
        if is_note and (names := sorted(program.used & set(AUTHORIZER))):  # as upstream: known, and not there
            raise _Failed(f"expression '{expression}' resulted in error: no such attribute(s): {names[0]}")
        try:
            return self.run(program)
        except CelError as error:
            raise _Failed(f"expression '{expression}' resulted in error: {error}") from None


def judged(spec: Mapping[str, Any], values: Mapping[str, Any], budget: Budget) -> Judgement:
    """A trial raises TooExpensive."""
    is_closed = spec.get("failurePolicy") != "Ignore"
    try:
        return _judged(spec, values, budget, is_closed=is_closed)
    except _OutOfBudget as error:
        return Judgement([Denial(str(error) or _OUT)] if is_closed else [], [], {})


def _judged(spec: Mapping[str, Any], values: Mapping[str, Any], budget: Budget, *, is_closed: bool) -> Judgement:
    if conditions := spec.get("matchConditions"):
        own = budget if budget.is_trial else Budget(_FOR_CONDITIONS)
        is_meant, fault = _meets(_Evaluation(spec, {**values, "namespaceObject": None}, own), conditions)
        if fault:
            return Judgement([Denial(fault)] if is_closed else [], [], {})
        if not is_meant:
            return Judgement([], [], {})
    evaluation = _Evaluation(spec, values, budget)
    found = list(_found(evaluation, spec.get("validations") or ()))
    denials = []
    for number, (validation, fault) in enumerate(found):
        if fault and is_closed:
            denials.append(Denial(fault, "", number))
        elif not fault and validation is not None:
            denials.append(Denial(_message(evaluation, validation), validation.get("reason") or "Invalid", number))
    notes, errors = _notes(evaluation, spec.get("auditAnnotations") or ())
    return Judgement(denials, errors if is_closed else [], notes)


def _found(
    evaluation: _Evaluation, validations: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any] | None, str]]:
    """For each validation, itself if it does not hold, and what went wrong."""
    for each in validations:
        try:
            yield (None if evaluation.value(each["expression"], TRUTH) is True else each), ""
        except _Failed as error:
            yield None, str(error)


def _meets(evaluation: _Evaluation, conditions: Sequence[Mapping[str, Any]]) -> tuple[bool, str]:
    """-> whether all hold, and what went wrong where that is not known"""
    faults = []
    is_meant = True
    for each in conditions:  # all of them: one that costs too much is not made up for by one that does not hold
        try:
            is_meant = evaluation.value(each["expression"], TRUTH) is True and is_meant
        except _Failed as error:
            faults.append(str(error))
    if not is_meant:
        return False, ""
    return not faults, faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]" if faults else ""


def _message(evaluation: _Evaluation, validation: Mapping[str, Any]) -> str:
    if validation.get("messageExpression"):
        try:
            text = evaluation.value(validation["messageExpression"], TEXT).strip()
        except _Failed:
            text = ""
        except _OutOfBudget:
            raise _OutOfBudget(f"failed messageExpression: {_OUT}") from None
        if text and len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text:
            return str(text)
    own = (validation.get("message") or "").strip()
    return own or f"failed expression: {validation['expression'].strip()}"


def _notes(evaluation: _Evaluation, wanted: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], list[Denial]]:
    notes: dict[str, str] = {}
    errors: list[Denial] = []
    for each in wanted:
        try:
            value = evaluation.value(each["valueExpression"], NOTE)
        except _Failed as error:
            errors.append(Denial(str(error)))
            continue
        if value is not None and value.strip():
            notes[each["key"]] = value.strip()[:_LONGEST_NOTE]
    return notes, errors

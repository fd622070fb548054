"""What the expressions of a policy say about one write. Pure."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from pykubelet.apiserver.admission.policies import Denial
from pykubelet.apiserver.cel.library_authorization import AUTHORIZER
from pykubelet.apiserver.cel.program import Budget, CelError, CompileError, Program, TooExpensive, compile_expression
from pykubelet.apiserver.cel.types import DYN

VARIABLES: Final = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
_LONGEST_MESSAGE: Final = 5 << 10
_LONGEST_NOTE: Final = 10 << 10
_OUT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class Judgement(msgspec.Struct, frozen=True):
    denials: list[Denial]
    errors: list[Denial]
    """What went wrong, and refuses whatever the binding says."""
    notes: dict[str, str]


@lru_cache(maxsize=1024)
def program(expression: str) -> Program:
    """Raises CompileError."""
    return compile_expression(expression, {**dict.fromkeys(VARIABLES, DYN), **AUTHORIZER})


class _Evaluation:
    def __init__(self, spec: Mapping[str, Any], values: Mapping[str, Any], budget: Budget) -> None:
        self._budget = budget
        self._values = {**values, "variables": {}}
        for each in spec.get("variables") or ():
            try:
                self._values["variables"][each["name"]] = self.value(each["expression"])
            except _Failed:
                continue  # whoever uses it finds it missing

    def value(self, expression: str) -> Any:
        """Raises _Failed."""
        try:
            return program(expression).evaluate(self._values, self._budget)
        except TooExpensive:
            if self._budget.is_trial:
                raise
            raise _Failed(_OUT) from None
        except (CelError, CompileError) as error:
            raise _Failed(f"expression '{expression.strip()}' resulted in error: {error}") from None


class _Failed(Exception):
    pass


def judged(spec: Mapping[str, Any], values: Mapping[str, Any], budget: Budget) -> Judgement:
    """A trial raises TooExpensive."""
    is_closed = spec.get("failurePolicy") != "Ignore"
    evaluation = _Evaluation(spec, values, budget)
    is_meant, fault = _meets(evaluation, spec.get("matchConditions") or ())
    if fault:
        return Judgement([Denial(fault)] if is_closed else [], [], {})
    if not is_meant:
        return Judgement([], [], {})
    denials: list[Denial] = []
    for number, each in enumerate(spec.get("validations") or ()):
        try:
            if evaluation.value(each["expression"]) is not True:
                denials.append(Denial(_message(evaluation, each), each.get("reason") or "Invalid", number))
        except _Failed as error:
            if is_closed:
                denials.append(Denial(str(error), "", number))
    notes, errors = _notes(evaluation, spec.get("auditAnnotations") or ())
    return Judgement(denials, errors if is_closed else [], notes)


def _meets(evaluation: _Evaluation, conditions: Sequence[Mapping[str, Any]]) -> tuple[bool, str]:
    """-> whether all hold, and what went wrong where that is not known"""
    faults = []
    for each in conditions:
        try:
            if evaluation.value(each["expression"]) is not True:
                return False, ""
        except _Failed as error:
            faults.append(str(error))
    return not faults, faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]" if faults else ""


def _message(evaluation: _Evaluation, validation: Mapping[str, Any]) -> str:
    if validation.get("messageExpression"):
        try:
            said = evaluation.value(validation["messageExpression"])
        except _Failed:
            said = ""
        text = said.strip() if isinstance(said, str) else ""
        if text and len(text) <= _LONGEST_MESSAGE and "\n" not in text:
            return text
    own = (validation.get("message") or "").strip()
    return own or f"failed expression: {validation['expression'].strip()}"


def _notes(evaluation: _Evaluation, wanted: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], list[Denial]]:
    notes: dict[str, str] = {}
    errors: list[Denial] = []
    for each in wanted:
        try:
            value = evaluation.value(each["valueExpression"])
        except _Failed as error:
            errors.append(Denial(str(error)))
            continue
        if isinstance(value, str) and value.strip():
            notes[each["key"]] = value.strip()[:_LONGEST_NOTE]
        elif value is not None and not isinstance(value, str):
            what = f"valueExpression '{each['valueExpression']}' resulted in unsupported return type"
            errors.append(Denial(f"{what}. Return type must be either string or null."))
    return notes, errors

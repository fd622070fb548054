"""Match conditions: expressions that say of which writes a webhook or a policy wants to hear."""

from functools import lru_cache
from typing import Any, Final

from pykubelet.apiserver.admission.review import GROUP, review_of
from pykubelet.apiserver.cel.library_authorization import AUTHORIZER
from pykubelet.apiserver.cel.program import Budget, CelError, CompileError, Program, TooExpensive, compile_expression
from pykubelet.apiserver.cel.types import BOOL, DYN, Type
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.admission import Attempt
from pykubelet.apiserver.schema.resources import Resource

VARIABLES: Final[dict[str, Type]] = {
    "object": DYN,
    "oldObject": DYN,
    "request": DYN,
    "namespaceObject": DYN,
    **AUTHORIZER,
}


@lru_cache(maxsize=1024)
def condition(expression: str) -> Program:
    """Raises CompileError."""
    return compile_expression(expression, VARIABLES, BOOL)


def values_of(attempt: Attempt, seen_as: Resource, obj: Object | None, old: Object | None) -> dict[str, Any]:
    """What expressions see of a write."""
    request = review_of(attempt, seen_as, None, None, "", GROUP)["request"]
    del request["uid"], request["object"], request["oldObject"]
    request.setdefault("name", "")
    request.setdefault("namespace", "")
    request.setdefault("subResource", "")
    return {"object": obj, "oldObject": old, "request": request}


def unmet(conditions: tuple[tuple[str, str], ...], values: dict[str, Any], budget: Budget) -> tuple[bool, str]:
    """-> whether one of them does not hold, and what went wrong if that is not known. A trial raises TooExpensive."""
    faults = []
    for name, expression in conditions:
        try:
            if condition(expression).evaluate(values, budget) is not True:
                return True, ""
        except TooExpensive:
            if budget.is_trial:
                raise
            return False, "validation failed due to running out of cost budget, no further validation rules will be run"
        except (CelError, CompileError) as error:
            faults.append(f"expression '{expression}' resulted in error: {error}" if name else str(error))
    return False, faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]" if faults else ""

"""What expressions about a write may name and have to come to: the same when they are written and when they decide."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from pykubelet.apiserver.cel.library_authorization import AUTHORIZER
from pykubelet.apiserver.cel.program import CompileError, Program, compile_expression
from pykubelet.apiserver.cel.types import BOOL, DYN, NULL, STRING, ObjectType, Type

Named = tuple[tuple[str, Type], ...]
"""The variables of a policy that an expression may use, with their types."""
Results = tuple[Type, ...]

TRUTH: Final[Results] = (BOOL,)
TEXT: Final[Results] = (STRING,)
NOTE: Final[Results] = (STRING, NULL)


@lru_cache(maxsize=1024)
def compiled(expression: str, seen: tuple[str, ...], named: Named | None = None, results: Results = ()) -> Program:
    """`results`: what it may come to; a value of no known type is none of them. Raises CompileError."""
    types: dict[str, Type] = {name: AUTHORIZER.get(name, DYN) for name in seen}
    if named is not None:
        types["variables"] = ObjectType("kubernetes.variables", fields=dict(named))
    try:
        program = compile_expression(expression, types)
    except CompileError as error:
        raise CompileError(f"compilation failed: {error}") from None
    if results and program.type not in results:
        wanted = results[0].name if len(results) == 1 else f"one of [{' '.join(each.name for each in results)}]"
        raise CompileError(f"must evaluate to {wanted} but got {program.type.name}")
    return program


def named_of(variables: Iterable[Mapping[str, Any]], seen: tuple[str, ...]) -> Named:
    """Each may use those before it; of what cannot be compiled nothing is known."""
    named: Named = ()
    for each in variables:
        try:
            kind = compiled(each.get("expression") or "", seen, named).type
        except CompileError:
            kind = DYN
        named = (*named, (each.get("name") or "", kind))
    return named

"""An expression that is ready to be evaluated. This is the way in for whoever has expressions.

    program = compile_expression("self.replicas <= self.most", {"self": some_type}, result=BOOL)
    program.evaluate({"self": {"replicas": 3, "most": 5}}, Budget())

Types and values of objects with a schema come from `declarations`; what has none is of type DYN, and plain JSON.
"""

from collections.abc import Mapping
from typing import Final

from pykubelet.apiserver.cel.compiler import Compiler, Part
from pykubelet.apiserver.cel.evaluation import FAULTS, Frame
from pykubelet.apiserver.cel.macros import macro, macro_or_binding
from pykubelet.apiserver.cel.parser import parse
from pykubelet.apiserver.cel.syntax import CompileError
from pykubelet.apiserver.cel.types import Bindings, Type
from pykubelet.apiserver.cel.values import CelError, TooExpensive, Value

PER_CALL: Final = 1_000_000
"""What one evaluation may cost, as upstream counts about: a look at a value, ten characters of a text."""
PER_REQUEST: Final = 10_000_000
_AT_ONCE: Final = 20_000
_LEAST: Final = 10
"""What any evaluation costs: a rule for each item of a long list is much work, however little each is."""


class Budget:
    """What all the expressions of one request may cost together."""

    __slots__ = ("is_trial", "left")

    def __init__(self, left: int = PER_REQUEST, *, is_trial: bool = False) -> None:
        self.left = left
        self.is_trial = is_trial
        """Whether it may be tried again with more, where nobody else has to wait: then TooExpensive says nothing."""

    @classmethod
    def trial(cls) -> "Budget":
        """As much as may be spent in the loop: some milliseconds."""
        return cls(_AT_ONCE, is_trial=True)


class Program:
    def __init__(self, source: str, part: Part, variables: tuple[str, ...], slots: int, used: frozenset[str]) -> None:
        self.source = source
        self.type = part.type
        self.used = used
        """The variables that it looks at."""
        self._run = part.run
        self._variables = variables
        self._extra = slots - len(variables)

    def evaluate(self, values: Mapping[str, Value], budget: Budget) -> Value:
        """Raises CelError, and TooExpensive when the budget is used up."""
        allowed = min(PER_CALL, budget.left)
        frame = Frame([values.get(name) for name in self._variables] + [None] * self._extra, allowed)
        try:
            return self._run(frame)
        except CelError:
            raise
        except RecursionError:
            raise CelError("the expression is nested too deeply") from None
        except FAULTS:
            raise CelError("no such overload") from None
        finally:
            budget.left -= max(_LEAST, allowed - frame.left)


def compile_expression(
    source: str, variables: Mapping[str, Type], result: Type | None = None, *, binds: bool = False
) -> Program:
    """`result`: the type that it has to come to. `binds`: whether it may have cel.bind(). Raises CompileError."""
    compiler = Compiler(source, variables, macro_or_binding if binds else macro)
    try:
        part = compiler.compiled(parse(source))
    except RecursionError:
        raise CompileError("the expression is nested too deeply") from None
    if result is not None and not Bindings().unify(part.type, result):
        raise CompileError(f"must evaluate to {'a bool' if result.name == 'bool' else result}")
    return Program(source, part, tuple(variables), compiler.slots, frozenset(compiler.used & set(variables)))


__all__ = [
    "PER_CALL",
    "PER_REQUEST",
    "Budget",
    "CelError",
    "CompileError",
    "Program",
    "TooExpensive",
    "compile_expression",
]

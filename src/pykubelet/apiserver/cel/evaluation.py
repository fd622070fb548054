"""What the parts of an expression do when it is evaluated: look fields and items up, call, and combine truths."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pykubelet.apiserver.cel.functions import Function
from pykubelet.apiserver.cel.types import Type
from pykubelet.apiserver.cel.values import NONE, CelError, ObjectValue, Optional, TooExpensive, Value, type_name

FAULTS: Final = (CelError, TypeError, AttributeError, KeyError, IndexError, ValueError, OverflowError, RecursionError)
"""What a value that is not of its declared type leads to; all of it is a fault of the expression."""


class Frame:
    """One evaluation: the values of its variables, and what is left of its budget."""

    __slots__ = ("left", "values")

    def __init__(self, values: list[Value], left: int) -> None:
        self.values = values
        self.left = left

    def pay(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise TooExpensive


Run: TypeAlias = Callable[[Frame], Any]


def truth(value: Value) -> bool:
    if isinstance(value, bool):
        return value
    raise CelError("no such overload")


def selected(run: Run, name: str) -> Run:
    def found(frame: Frame) -> Value:
        value = run(frame)
        if not isinstance(value, dict):
            raise CelError("no such overload" if value is not None else f"no such key: {name}")
        try:
            return value[name]
        except KeyError:
            raise CelError(f"no such key: {name}") from None

    return found


def tested(run: Run, name: str) -> Run:
    def found(frame: Frame) -> bool:
        value = run(frame)
        if isinstance(value, Optional):
            value = value.value if value is not NONE else {}
        if not isinstance(value, dict):
            raise CelError("no such overload")
        return name in value

    return found


def selected_maybe(run: Run, name: str) -> Run:
    def found(frame: Frame) -> Optional:
        value = run(frame)
        if isinstance(value, Optional):
            if value is NONE:
                return NONE
            value = value.value
        if not isinstance(value, dict):
            raise CelError("no such overload")
        return Optional(value[name]) if name in value else NONE

    return found


def _item(value: Value, key: Value) -> Value:
    if isinstance(value, list):
        if isinstance(key, float) and key.is_integer():
            key = int(key)
        if not isinstance(key, int) or isinstance(key, bool):
            raise CelError("no such overload")
        if not 0 <= key < len(value):
            raise CelError(f"index out of bounds: {key}")
        return value[key]
    if not isinstance(value, dict) or isinstance(value, ObjectValue) or isinstance(key, list | dict):
        raise CelError("no such overload")
    try:
        return value[key]
    except KeyError:
        raise CelError(f"no such key: {key}") from None


def indexed(run: Run, index: Run) -> Run:
    return lambda frame: _item(run(frame), index(frame))


def indexed_maybe(run: Run, index: Run) -> Run:
    def found(frame: Frame) -> Optional:
        value, key = run(frame), index(frame)
        if isinstance(value, Optional):
            if value is NONE:
                return NONE
            value = value.value
        if isinstance(value, list) and isinstance(key, int):
            return Optional(value[key]) if 0 <= key < len(value) else NONE
        if not isinstance(value, dict):
            raise CelError("no such overload")
        return Optional(value[key]) if key in value else NONE

    return found


def called(functions: list[Function], runs: list[Run], is_certain: bool) -> Run:
    if is_certain:
        made, cost = functions[0].run, functions[0].cost

        def direct(frame: Frame) -> Value:
            args = [run(frame) for run in runs]
            frame.pay(cost(args))
            return made(*args)

        return direct

    def dispatched(frame: Frame) -> Value:
        args = [run(frame) for run in runs]
        for each in functions:
            if all(_suits(arg, kind) for arg, kind in zip(args, each.signature.args, strict=True)):
                frame.pay(each.cost(args))
                return each.run(*args)
        raise CelError("no such overload")

    return dispatched


def _suits(value: Value, kind: Type) -> bool:
    if kind.is_free or kind.name == "dyn":
        return True
    if type_name(value) != kind.name:
        return False
    return kind.name != "list" or not value or _suits(value[0], kind.args[0])


def combined(runs: list[Run], is_and: bool) -> Run:
    """One part that decides makes up for any fault of the others."""

    def found(frame: Frame) -> bool:
        fault: Exception | None = None
        for run in runs:
            try:
                if truth(run(frame)) is not is_and:
                    return not is_and
            except FAULTS as error:
                fault = fault or error
        if fault is not None:
            raise fault
        return is_and

    return found

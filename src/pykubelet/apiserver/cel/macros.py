"""Loops over lists and maps, and what is done with what is in an optional. Each turn takes from the budget."""

from collections.abc import Callable, Iterable
from typing import Final

from pykubelet.apiserver.cel.compiler import Compiler, Part
from pykubelet.apiserver.cel.evaluation import FAULTS, Frame, Run, truth
from pykubelet.apiserver.cel.syntax import Macro
from pykubelet.apiserver.cel.types import BOOL, DYN, INT, Type, list_of, map_of, optional_of
from pykubelet.apiserver.cel.values import NONE, CelError, Optional, Value

Turns = Callable[[Frame], Iterable[Frame]]
_CHECKED: Final = ("all", "exists", "existsOne", "filter")


def macro(compiler: Compiler, tree: Macro) -> Part:
    """Raises CompileError."""
    if tree.name == "bind":
        raise compiler.error("undeclared reference to 'cel' (in container '')", tree.at)
    operand = compiler.part(tree.operand)
    kind = compiler.resolved(operand.type)
    if tree.name in ("optMap", "optFlatMap"):
        return _optional(compiler, tree, operand, kind)
    types = _variables(compiler, tree, kind)
    slots, parts = compiler.within(dict(zip(tree.names, types, strict=True)), tree.parts)
    conditions = parts if tree.name in _CHECKED else parts[:-1]
    for part, inner in zip(conditions, tree.parts, strict=False):
        if not compiler.unify(part.type, BOOL):
            raise compiler.error(f"expected type 'bool' but found '{compiler.resolved(part.type)}'", inner.at)
    turns = _turns(operand.run, slots)
    runs = [part.run for part in parts]
    match tree.name:
        case "all" | "exists":
            return Part(BOOL, _quantified(turns, runs[0], tree.name == "all"))
        case "existsOne":
            return Part(BOOL, lambda frame: sum(truth(runs[0](turn)) for turn in turns(frame)) == 1)
        case "filter":
            return Part(list_of(types[0]), _listed(turns, runs[0], lambda frame: frame.values[slots[0]]))
        case "map" | "transformList":
            return Part(list_of(parts[-1].type), _listed(turns, _condition(runs), runs[-1]))
        case "transformMap":
            key = types[0]
            return Part(map_of(key, parts[-1].type), _mapped(turns, _condition(runs), runs[-1], slots[0]))
        case "transformMapEntry":
            return _entries(compiler, tree, turns, runs, parts[-1])
        case "sortBy":
            return Part(kind, _sorted(turns, runs[0], slots[0]))
    raise compiler.error(f"undeclared reference to '{tree.name}'", tree.at)


def macro_or_binding(compiler: Compiler, tree: Macro) -> Part:
    """The same, where a value may also be given a name: `cel.bind(name, value, expression)`."""
    if tree.name != "bind":
        return macro(compiler, tree)
    operand = compiler.part(tree.operand)
    (slot,), (part,) = compiler.within({tree.names[0]: compiler.resolved(operand.type)}, tree.parts)
    first, then = operand.run, part.run

    def run(frame: Frame) -> Value:
        frame.values[slot] = first(frame)
        return then(frame)

    return Part(part.type, run)


def _variables(compiler: Compiler, tree: Macro, kind: Type) -> list[Type]:
    if kind.name == "dyn" or kind.is_free:
        return [DYN] * len(tree.names)
    if kind.name == "list":
        return [kind.args[0]] if len(tree.names) == 1 else [INT, kind.args[0]]
    if kind.name == "map" and tree.name != "sortBy":
        return list(kind.args[: len(tree.names)])
    raise compiler.error(
        f"expression of type '{kind}' cannot be range of a comprehension (must be list, map, or dynamic)",
        tree.operand.at,
    )


def _turns(run: Run, slots: list[int]) -> Turns:
    """The frame of each turn: it is always the same one."""

    def turns(frame: Frame) -> Iterable[Frame]:
        over, values = run(frame), frame.values
        if not isinstance(over, list | dict):
            raise CelError("no such overload")
        if len(slots) == 1:
            for each in over:
                frame.pay(1)
                values[slots[0]] = each
                yield frame
            return
        for key, each in over.items() if isinstance(over, dict) else enumerate(over):
            frame.pay(1)
            values[slots[0]], values[slots[1]] = key, each
            yield frame

    return turns


def _condition(runs: list[Run]) -> Run | None:
    return runs[0] if len(runs) == 2 else None


def _quantified(turns: Turns, run: Run, is_all: bool) -> Run:
    """One turn that decides makes up for any fault of the others."""

    def quantified(frame: Frame) -> bool:
        fault: Exception | None = None
        for turn in turns(frame):
            try:
                if truth(run(turn)) is not is_all:
                    return not is_all
            except FAULTS as error:
                fault = fault or error
        if fault is not None:
            raise fault
        return is_all

    return quantified


def _listed(turns: Turns, condition: Run | None, run: Run) -> Run:
    def listed(frame: Frame) -> list[Value]:
        return [run(turn) for turn in turns(frame) if condition is None or truth(condition(turn))]

    return listed


def _mapped(turns: Turns, condition: Run | None, run: Run, slot: int) -> Run:
    def mapped(frame: Frame) -> dict[Value, Value]:
        return {turn.values[slot]: run(turn) for turn in turns(frame) if condition is None or truth(condition(turn))}

    return mapped


def _entries(compiler: Compiler, tree: Macro, turns: Turns, runs: list[Run], last: Part) -> Part:
    kind = compiler.resolved(last.type)
    if kind.name not in ("map", "dyn"):
        raise compiler.error(f"expected type 'map' but found '{kind}'", tree.parts[-1].at)
    condition = _condition(runs)

    def entries(frame: Frame) -> dict[Value, Value]:
        found: dict[Value, Value] = {}
        for turn in turns(frame):
            if condition is not None and not truth(condition(turn)):
                continue
            for key, value in runs[-1](turn).items():
                if key in found:
                    raise CelError(f"insert failed: key {key} already exists")
                found[key] = value
        return found

    return Part(kind, entries)


def _sorted(turns: Turns, run: Run, slot: int) -> Run:
    def in_order(frame: Frame) -> list[Value]:
        keyed = [(run(turn), turn.values[slot]) for turn in turns(frame)]
        if len({type(key) for key, _ in keyed}) > 1:
            raise CelError("list elements must have the same type")
        return [value for _, value in sorted(keyed, key=lambda pair: pair[0])]

    return in_order


def _optional(compiler: Compiler, tree: Macro, operand: Part, kind: Type) -> Part:
    if kind.name not in ("optional_type", "dyn"):
        raise compiler.error(f"found no matching overload for '{tree.name}' applied to '{kind}'", tree.at)
    inner = kind.args[0] if kind.args else DYN
    (slot,), (part,) = compiler.within({tree.names[0]: inner}, tree.parts)
    first, then, is_flat = operand.run, part.run, tree.name == "optFlatMap"
    if is_flat and not compiler.unify(part.type, optional_of(DYN)):
        raise compiler.error(f"expected type 'optional_type' but found '{compiler.resolved(part.type)}'", tree.at)

    def run(frame: Frame) -> Value:
        found = first(frame)
        if found is NONE:
            return NONE
        frame.values[slot] = found.value
        result = then(frame)
        return result if is_flat else Optional(result)

    return Part(part.type if is_flat else optional_of(part.type), run)

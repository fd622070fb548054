"""From the tree of an expression to a function that evaluates it, with every type checked on the way.

What does not fit is found here, before anything is evaluated, and told with its place. What is left to the evaluation
are values of no declared type: there the function that fits is looked for again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from pykubelet.apiserver.cel.evaluation import (
    Frame,
    Run,
    called,
    combined,
    indexed,
    indexed_maybe,
    selected,
    selected_maybe,
    tested,
    truth,
)
from pykubelet.apiserver.cel.functions import Function
from pykubelet.apiserver.cel.libraries import FUNCTIONS
from pykubelet.apiserver.cel.names import unescaped
from pykubelet.apiserver.cel.syntax import (
    RESERVED,
    Call,
    Choice,
    CompileError,
    Ident,
    Index,
    ListForm,
    Literal,
    Logic,
    Macro,
    MapForm,
    Select,
    Tree,
)
from pykubelet.apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    UINT,
    Bindings,
    ObjectType,
    Type,
    list_of,
    map_of,
    optional_of,
)
from pykubelet.apiserver.cel.values import (
    NONE,
    CelError,
    TypeValue,
    Uint,
    Value,
)

_TYPES: Final = (
    "bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint", "dyn",
    "google.protobuf.Duration", "google.protobuf.Timestamp", "kubernetes.Quantity", "kubernetes.URL",
    "kubernetes.Semver", "kubernetes.NamedFormat", "net.IP", "net.CIDR", "optional_type",
)  # fmt: skip


class Part(msgspec.Struct, frozen=True):
    type: Type
    run: Run


class Compiler:
    def __init__(self, source: str, variables: Mapping[str, Type], macro: "Callable[[Compiler, Macro], Part]") -> None:
        self._source = source
        self._macro = macro
        self._bindings = Bindings()
        self._scope: dict[str, tuple[Type, int]] = {
            name: (kind, slot) for slot, (name, kind) in enumerate(variables.items())
        }
        self.used: set[str] = set()
        """The variables that the expression looks at."""
        self.slots = len(variables)

    def compiled(self, tree: Tree) -> Part:
        """Raises CompileError."""
        part = self.part(tree)
        return Part(self._bindings.resolved(part.type), part.run)

    def part(self, tree: Tree) -> Part:
        match tree:
            case Literal():
                return _constant(tree.value)
            case Ident():
                return self._ident(tree)
            case Select():
                return self._select(tree)
            case Index():
                return self._index(tree)
            case Call():
                return self._call(tree)
            case Logic():
                return self._logic(tree)
            case Choice():
                return self._choice(tree)
            case ListForm():
                return self._list(tree)
            case MapForm():
                return self._map(tree)
            case Macro():
                return self._macro(self, tree)

    def error(self, reason: str, at: int) -> CompileError:
        return CompileError(reason, self._source, at)

    # --- for macros

    def resolved(self, kind: Type) -> Type:
        return self._bindings.resolved(kind)

    def unify(self, one: Type, other: Type) -> bool:
        return self._bindings.unify(one, other)

    def within(self, names: Mapping[str, Type], trees: Sequence[Tree]) -> tuple[list[int], list[Part]]:
        """Parts that see more variables -> the slots of these, and the parts."""
        outer, slots = self._scope, []
        self._scope = dict(outer)
        for name, kind in names.items():
            self._scope[name] = kind, self.slots
            slots.append(self.slots)
            self.slots += 1
        try:
            return slots, [self.part(tree) for tree in trees]
        finally:
            self._scope = outer

    # --- names

    def _ident(self, tree: Ident) -> Part:
        found = self._scope.get(tree.name)
        if found is not None:
            kind, slot = found
            self.used.add(tree.name)
            return Part(kind, lambda frame: frame.values[slot])
        if tree.name in _TYPES:
            return Part(Type("type"), _constant(TypeValue(tree.name)).run)
        raise self.error(f"undeclared reference to '{tree.name}' (in container '')", tree.at)

    def _qualified(self, tree: Tree) -> str:
        """`a.b` for what is written so and does not begin with a variable; else nothing."""
        if isinstance(tree, Ident):
            return "" if tree.name in self._scope else tree.name
        if isinstance(tree, Select) and not tree.is_test and not tree.is_optional:
            outer = self._qualified(tree.operand)
            return f"{outer}.{tree.field}" if outer else ""
        return ""

    def _select(self, tree: Select) -> Part:
        if isinstance(tree.operand, Ident) and not tree.is_test:
            dotted = f"{tree.operand.name}.{tree.field}"
            if dotted in self._scope:
                return self._ident(Ident(at=tree.at, name=dotted))
        qualified = self._qualified(tree)
        if qualified in _TYPES:
            return Part(Type("type"), _constant(TypeValue(qualified)).run)
        operand = self.part(tree.operand)
        kind = self._bindings.resolved(operand.type)
        is_optional = tree.is_optional
        if kind.name == "optional_type":
            kind, is_optional = kind.args[0], True
        name, found = tree.field, DYN
        if isinstance(kind, ObjectType):
            written = f"__{tree.field}__" if tree.field in RESERVED else tree.field
            if written not in kind.fields:
                raise self.error(f"undefined field '{tree.field}'", tree.at)
            name, found = unescaped(written), kind.fields[written]
        elif kind.name == "map":
            found = kind.args[1]
        elif kind.name != "dyn" and not kind.is_free:
            raise self.error(f"type '{kind}' does not support field selection", tree.at)
        if tree.is_test:
            return Part(BOOL, tested(operand.run, name))
        if is_optional:
            return Part(optional_of(found), selected_maybe(operand.run, name))
        return Part(found, selected(operand.run, name))

    def _index(self, tree: Index) -> Part:
        operand, index = self.part(tree.operand), self.part(tree.index)
        kind, key = self._bindings.resolved(operand.type), self._bindings.resolved(index.type)
        is_optional = tree.is_optional
        if kind.name == "optional_type":
            kind, is_optional = kind.args[0], True
        if kind.name == "list" and self._bindings.unify(key, INT):
            found = kind.args[0]
        elif kind.name == "map" and self._bindings.unify(key, kind.args[0]):
            found = kind.args[1]
        elif kind.name == "dyn" or kind.is_free:
            found = DYN
        else:
            raise self.error(f"found no matching overload for '_[_]' applied to '({kind}, {key})'", tree.at)
        if is_optional:
            return Part(optional_of(found), indexed_maybe(operand.run, index.run))
        return Part(found, indexed(operand.run, index.run))

    # --- calls

    def _call(self, tree: Call) -> Part:
        qualified = self._qualified(tree.target) if tree.target is not None else ""
        if qualified and f"{qualified}.{tree.function}" in FUNCTIONS:
            tree = Call(at=tree.at, function=f"{qualified}.{tree.function}", target=None, args=tree.args)
        if tree.target is not None and tree.function in ("or", "orValue") and len(tree.args) == 1:
            return self._alternative(tree)
        is_member = tree.target is not None
        trees = tree.args if tree.target is None else (tree.target, *tree.args)
        parts = [self._mixed(each) if tree.function == "format" else self.part(each) for each in trees]
        candidates = [
            each
            for each in FUNCTIONS.get(tree.function, ())
            if each.signature.is_member == is_member and len(each.signature.args) == len(parts)
        ]
        if tree.function not in FUNCTIONS:
            raise self.error(f"undeclared reference to '{tree.function}' (in container '')", tree.at)
        fitting, result = self._overload(candidates, [part.type for part in parts])
        if not fitting:
            types = [str(self._bindings.resolved(part.type)) for part in parts]
            shown = f"{types[0]}.({', '.join(types[1:])})" if is_member else f"({', '.join(types)})"
            said = f"found no matching overload for '{tree.function}' applied to '{shown}'"
            raise self.error(said, tree.at)
        self._check_literal(fitting, trees)
        is_certain = len(fitting) == 1 and all(_is_certain(self._bindings.resolved(part.type)) for part in parts)
        return Part(result, called(fitting, [part.run for part in parts], is_certain))

    def _mixed(self, tree: Tree) -> Part:
        """What is to be written in a text may be of any types, even in one list."""
        if not isinstance(tree, ListForm) or tree.optional:
            return self.part(tree)
        runs = [self.part(each).run for each in tree.items]
        return Part(list_of(DYN), lambda frame: [run(frame) for run in runs])

    def _overload(self, candidates: list[Function], types: list[Type]) -> tuple[list[Function], Type]:
        """-> the functions that such arguments fit, and the type of the result."""
        before = self._bindings.copied()
        found: list[tuple[Function, Type, dict[str, Type]]] = []
        for each in candidates:
            *args, result = self._bindings.instance((*each.signature.args, each.signature.result))
            if all(self._bindings.unify(wanted, given) for wanted, given in zip(args, types, strict=True)):
                found.append((each, self._bindings.resolved(result), self._bindings.copied()))
            self._bindings.restore(dict(before))
        if len(found) == 1:
            self._bindings.restore(found[0][2])
        results = {result for _, result, _ in found}
        return [each for each, _, _ in found], results.pop() if len(results) == 1 else DYN

    def _check_literal(self, functions: list[Function], trees: Sequence[Tree]) -> None:
        check = functions[0].literal
        if check is None or len(functions) > 1:
            return
        tree = trees[min(1, len(trees) - 1)]
        if isinstance(tree, Literal) and (fault := check(tree.value)):
            raise self.error(fault, tree.at)

    def _alternative(self, tree: Call) -> Part:
        """What is in an optional, or something else, which is not looked at before it is needed."""
        assert tree.target is not None
        optional, other = self.part(tree.target), self.part(tree.args[0])
        value = self._bindings.fresh()
        wanted = optional_of(value) if tree.function == "or" else value
        if not self._bindings.unify(optional.type, optional_of(value)) or not self._bindings.unify(wanted, other.type):
            types = [str(self._bindings.resolved(part.type)) for part in (optional, other)]
            said = f"found no matching overload for '{tree.function}' applied to '{types[0]}.({types[1]})'"
            raise self.error(said, tree.at)
        first, second, is_or = optional.run, other.run, tree.function == "or"

        def run(frame: Frame) -> Value:
            found = first(frame)
            if found is NONE:
                return second(frame)
            return found if is_or else found.value

        return Part(wanted, run)

    # --- forms

    def _logic(self, tree: Logic) -> Part:
        runs = []
        for each in tree.args:
            part = self.part(each)
            self._wanted(part, BOOL, each, "_&&_" if tree.is_and else "_||_")
            runs.append(part.run)
        return Part(BOOL, combined(runs, tree.is_and))

    def _wanted(self, part: Part, kind: Type, tree: Tree, operator: str) -> None:
        if not self._bindings.unify(part.type, kind):
            found = self._bindings.resolved(part.type)
            raise self.error(f"found no matching overload for '{operator}' applied to '({found}, bool)'", tree.at)

    def _choice(self, tree: Choice) -> Part:
        condition, yes, no = self.part(tree.condition), self.part(tree.yes), self.part(tree.no)
        self._wanted(condition, BOOL, tree.condition, "_?_:_")
        if not self._bindings.unify(yes.type, no.type):
            types = ", ".join(str(self._bindings.resolved(part.type)) for part in (condition, yes, no))
            raise self.error(f"found no matching overload for '_?_:_' applied to '({types})'", tree.at)
        asked, first, second = condition.run, yes.run, no.run
        kind = DYN if "dyn" in (yes.type.name, no.type.name) else yes.type

        def run(frame: Frame) -> Value:
            return first(frame) if truth(asked(frame)) else second(frame)

        return Part(kind, run)

    def _element(self, tree: Tree, kind: Type, is_optional: bool) -> tuple[Run, Type]:
        part = self.part(tree)
        found = part.type
        if is_optional:
            inner = self._bindings.fresh()
            if not self._bindings.unify(found, optional_of(inner)):
                raise self.error(f"expected type 'optional_type' but found '{self.resolved(found)}'", tree.at)
            found = inner
        if not self._bindings.unify(kind, found):
            said = f"expected type '{self.resolved(kind)}' but found '{self.resolved(found)}'"
            raise self.error(said, tree.at)
        return part.run, DYN if self.resolved(found).name == "dyn" else kind

    def _list(self, tree: ListForm) -> Part:
        kind, runs = self._bindings.fresh(), []
        for place, each in enumerate(tree.items):
            run, kind = self._element(each, kind, place in tree.optional)
            runs.append((run, place in tree.optional))

        def made(frame: Frame) -> list[Value]:
            found = []
            frame.pay(len(runs))
            for run, is_optional in runs:
                value = run(frame)
                if is_optional:
                    if value is NONE:
                        continue
                    value = value.value
                found.append(value)
            return found

        return Part(list_of(kind), made)

    def _map(self, tree: MapForm) -> Part:
        key_kind, kind, runs = self._bindings.fresh(), self._bindings.fresh(), []
        for place, (key, value) in enumerate(tree.entries):
            key_run, key_kind = self._element(key, key_kind, False)
            run, kind = self._element(value, kind, place in tree.optional)
            runs.append((key_run, run, place in tree.optional))

        def made(frame: Frame) -> dict[Value, Value]:
            found: dict[Value, Value] = {}
            frame.pay(len(runs))
            for key_run, run, is_optional in runs:
                key, value = key_run(frame), run(frame)
                if is_optional:
                    if value is NONE:
                        continue
                    value = value.value
                if not isinstance(key, str | int):
                    raise CelError("unsupported key type")
                if key in found:
                    raise CelError(f"Failed with repeated key {key}")
                found[key] = value
            return found

        return Part(map_of(key_kind, kind), made)


def _constant(value: Value) -> Part:
    kinds = {bool: BOOL, str: STRING, bytes: BYTES, float: DOUBLE, Uint: UINT, int: INT, type(None): NULL}
    return Part(kinds.get(type(value), DYN), lambda frame: value)


def _is_certain(kind: Type) -> bool:
    """Whether values of this type need no look at what they are."""
    return kind.name != "dyn" and not kind.is_free

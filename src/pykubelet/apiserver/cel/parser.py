"""From the text of an expression to its tree. Macros are forms of their own in it, so that a loop is one step each."""

from typing import Final, assert_never

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
    Token,
    Tree,
    tokens,
)
from pykubelet.apiserver.cel.values import INT_MAX, UINT_MAX, Uint

DEEPEST: Final = 100
"""Levels of an expression. Each takes a few calls of ours, of which Python has a limit."""
_BINARY: Final = {
    "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3, "!=": 3, "in": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "%": 5,
}  # fmt: skip
_OPERATORS: Final = {sign: f"_{sign}_" for sign in _BINARY} | {"in": "@in"}
_MACROS: Final = {
    ("all", 2): 1, ("exists", 2): 1, ("exists_one", 2): 1, ("existsOne", 2): 1, ("map", 2): 1, ("map", 3): 1,
    ("filter", 2): 1, ("all", 3): 2, ("exists", 3): 2, ("existsOne", 3): 2, ("exists_one", 3): 2,
    ("transformList", 3): 2, ("transformList", 4): 2, ("transformMap", 3): 2, ("transformMap", 4): 2,
    ("transformMapEntry", 3): 2, ("transformMapEntry", 4): 2,
    ("sortBy", 2): 1, ("optMap", 2): 1, ("optFlatMap", 2): 1,
}  # fmt: skip
"""By name and number of arguments: how many of these are names of variables."""


def parse(source: str) -> Tree:
    """Raises CompileError."""
    parser = _Parser(source)
    tree = parser.expression()
    if parser.here.kind != "end":
        raise parser.unexpected("<EOF>")
    if _is_too_deep(tree):
        raise CompileError(f"expression recursion limit exceeded: {DEEPEST}", source, tree.at)
    return tree


def _is_too_deep(tree: Tree) -> bool:
    level: list[Tree] = [tree]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in children(outer)]
        if not level:
            return False
    return True


def children(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case Literal() | Ident():
            return ()
        case Select():
            return (tree.operand,)
        case Index():
            return (tree.operand, tree.index)
        case Call():
            return tree.args if tree.target is None else (tree.target, *tree.args)
        case Logic():
            return tree.args
        case Choice():
            return (tree.condition, tree.yes, tree.no)
        case ListForm():
            return tree.items
        case MapForm():
            return tuple(part for entry in tree.entries for part in entry)
        case Macro():
            return (tree.operand, *tree.parts)
    assert_never(tree)


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = list(tokens(source))
        self._place = 0
        self._depth = 0

    @property
    def here(self) -> Token:
        return self._tokens[self._place]

    def error(self, reason: str, at: int) -> CompileError:
        return CompileError(reason, self._source, at)

    def unexpected(self, expected: str) -> CompileError:
        here = self.here
        return self.error(f"Syntax error: mismatched input '{here.text}' expecting {expected}", here.at)

    def _is(self, *signs: str) -> bool:
        here = self.here
        return here.kind in ("sign", "word") and here.text in signs

    def _take(self) -> Token:
        found = self._tokens[self._place]
        self._place += 1
        return found

    def _expect(self, sign: str) -> Token:
        if not self._is(sign):
            raise self.unexpected(f"'{sign}'")
        return self._take()

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self.error(f"expression recursion limit exceeded: {DEEPEST}", self.here.at)

    # --- operators

    def expression(self) -> Tree:
        self._deeper()
        left = self._chain("||")
        if self._is("?"):
            at = self._take().at
            yes = self._chain("||")
            self._expect(":")
            left = Choice(at=at, condition=left, yes=yes, no=self.expression())
        self._depth -= 1
        return left

    def _chain(self, sign: str) -> Tree:
        first = self._chain("&&") if sign == "||" else self._binary(3)
        parts, at = [first], self.here.at
        while self._is(sign):
            self._take()
            parts.append(self._chain("&&") if sign == "||" else self._binary(3))
        return first if len(parts) == 1 else Logic(at=at, is_and=sign == "&&", args=tuple(parts))

    def _binary(self, level: int) -> Tree:
        left = self._unary()
        while self.here.kind in ("sign", "word") and _BINARY.get(self.here.text, 0) >= level:
            token = self._take()
            right = self._binary(_BINARY[token.text] + 1)
            left = Call(at=token.at, function=_OPERATORS[token.text], target=None, args=(left, right))
        return left

    def _unary(self) -> Tree:
        if not self._is("!", "-"):
            return self._member(self._primary())
        token = self._take()
        if token.text == "-" and self.here.kind in ("whole", "double"):
            return self._member(self._number(self._take(), token.at, -1))
        self._deeper()
        operand = self._unary()
        self._depth -= 1
        return Call(at=token.at, function="!_" if token.text == "!" else "-_", target=None, args=(operand,))

    # --- members

    def _member(self, tree: Tree) -> Tree:
        while self._is(".", "["):
            token = self._take()
            is_optional = self._is("?") and bool(self._take())
            if token.text == "[":
                index = self.expression()
                self._expect("]")
                tree = Index(at=token.at, operand=tree, index=index, is_optional=is_optional)
                continue
            name = self.here
            if name.kind != "name":
                raise self.unexpected("IDENTIFIER")
            self._take()
            if self._is("(") and not is_optional:
                tree = self._call(tree, name, self._take().at)
            else:
                tree = Select(at=token.at, operand=tree, field=name.text, is_optional=is_optional)
        return tree

    def _call(self, target: Tree | None, name: Token, at: int) -> Tree:
        args = self._arguments(")")
        if target is None and name.text == "has":
            if len(args) != 1 or not isinstance(args[0], Select) or args[0].is_optional:
                raise self.error("invalid argument to has() macro", at)
            return Select(at=at, operand=args[0].operand, field=args[0].field, is_test=True)
        if name.text == "bind" and isinstance(target, Ident) and target.name == "cel" and len(args) == 3:
            if not isinstance(args[0], Ident):
                raise self.error("cel.bind() variable names must be simple identifiers", args[0].at)
            return Macro(at=target.at, name="bind", operand=args[1], names=(args[0].name,), parts=(args[2],))
        names = _MACROS.get((name.text, len(args))) if target is not None else None
        if target is None or names is None:
            return Call(at=at, function=name.text, target=target, args=tuple(args))
        variables = []
        for each in args[:names]:
            if not isinstance(each, Ident):
                raise self.error("argument must be a simple name", each.at)
            variables.append(each.name)
        if len(set(variables)) < names:
            raise self.error("the names of the variables have to differ", at)
        macro = "existsOne" if name.text == "exists_one" else name.text
        return Macro(at=at, name=macro, operand=target, names=tuple(variables), parts=tuple(args[names:]))

    def _arguments(self, closing: str) -> list[Tree]:
        found: list[Tree] = []
        while not self._is(closing):
            found.append(self.expression())
            if not self._is(closing):
                self._expect(",")
                if closing == ")" and self._is(closing):
                    raise self.unexpected("an expression")
        self._take()
        return found

    # --- what stands for itself

    def _primary(self) -> Tree:
        here = self._take()
        if here.kind in ("text", "bytes"):
            return Literal(at=here.at, value=here.value)
        if here.kind in ("whole", "double", "unsigned"):
            return self._number(here, here.at, 1)
        if here.kind == "word" and here.text != "in":
            return Literal(at=here.at, value={"true": True, "false": False, "null": None}[here.text])
        if here.kind == "name":
            if here.text in RESERVED:
                raise self.error(f"reserved identifier: {here.text}", here.at)
            return self._call(None, here, self._take().at) if self._is("(") else Ident(at=here.at, name=here.text)
        if here.kind == "sign":
            match here.text:
                case "(":
                    tree = self.expression()
                    self._expect(")")
                    return tree
                case "[":
                    return self._list(here.at)
                case "{":
                    return self._map(here.at)
                case ".":  # a name that starts at the root
                    return self._primary()
        self._place -= 1
        raise self.unexpected("an expression")

    def _number(self, token: Token, at: int, sign: int) -> Tree:
        if token.kind == "double":
            return Literal(at=at, value=sign * token.value)
        value = sign * token.value
        if token.kind == "unsigned":
            if value > UINT_MAX:
                raise self.error("invalid uint literal", at)
            return Literal(at=at, value=Uint(value))
        if not -INT_MAX - 1 <= value <= INT_MAX:
            raise self.error("invalid int literal", at)
        return Literal(at=at, value=value)

    def _list(self, at: int) -> Tree:
        items: list[Tree] = []
        optional: set[int] = set()
        while not self._is("]"):
            if self._is("?"):
                self._take()
                optional.add(len(items))
            items.append(self.expression())
            if not self._is("]"):
                self._expect(",")
        self._take()
        return ListForm(at=at, items=tuple(items), optional=frozenset(optional))

    def _map(self, at: int) -> Tree:
        entries: list[tuple[Tree, Tree]] = []
        optional: set[int] = set()
        while not self._is("}"):
            if self._is("?"):
                self._take()
                optional.add(len(entries))
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
            if not self._is("}"):
                self._expect(",")
        self._take()
        return MapForm(at=at, entries=tuple(entries), optional=frozenset(optional))

"""The functions that expressions may call: the table, and the way in which the libraries enter theirs."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from pykubelet.apiserver.cel.types import Signature, signature
from pykubelet.apiserver.cel.values import CelError, Value

Run = TypeVar("Run", bound=Callable[..., Any])
Cost = Callable[[Sequence[Value]], int]


class Function(msgspec.Struct, frozen=True, eq=False):
    signature: Signature
    run: Callable[..., Any]
    cost: Cost
    """What a call takes from the budget, asked before it is made: so nothing large is ever begun."""
    literal: "Callable[[Value], str] | None" = None
    """What is wrong with the first argument after the receiver, where it is written out in the expression."""


FUNCTIONS: Final[dict[str, list[Function]]] = {}


def by_size(args: Sequence[Value]) -> int:
    """One for ten characters, one for each item."""
    total = 1
    for each in args:
        if isinstance(each, str | bytes):
            total += len(each) // 10
        elif isinstance(each, list | dict):
            total += len(each)
    return total


def function(*texts: str, cost: Cost = by_size, literal: Callable[[Value], str] | None = None) -> Callable[[Run], Run]:
    """Have a function called by a name: `size(list<A>): int`."""
    return _entered(texts, False, cost, literal)


def member(*texts: str, cost: Cost = by_size, literal: Callable[[Value], str] | None = None) -> Callable[[Run], Run]:
    """Have it called on a value: `string.contains(string): bool`."""
    return _entered(texts, True, cost, literal)


def _entered(
    texts: tuple[str, ...], is_member: bool, cost: Cost, literal: Callable[[Value], str] | None
) -> Callable[[Run], Run]:
    def entered(run: Run) -> Run:
        for text in texts:
            name, types = signature(text, is_member=is_member)
            FUNCTIONS.setdefault(name, []).append(Function(types, run, cost, literal))
        return run

    return entered


def reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether a text is one that `read` makes something of."""

    def does(text: str) -> bool:
        try:
            read(text)
        except CelError:
            return False
        return True

    return does

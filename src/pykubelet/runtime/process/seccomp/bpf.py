"""A filter as the kernel runs it: a program in classic BPF that finds a system call's number by halving."""

import struct
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

from pykubelet.runtime.process.seccomp.numbers import X32_BIT, Architecture

Code = list[tuple[int, int, int, int]]
"""(operation, steps to skip if so, steps to skip if not, value)"""

LOAD: Final = 0x20
AND: Final = 0x54
JUMP: Final = 0x05
IF_EQUAL: Final = 0x15
IF_GREATER: Final = 0x25
IF_GREATER_OR_EQUAL: Final = 0x35
RETURN: Final = 0x06

_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16
_X86_64: Final = 0xC000_003E
_KILL_PROCESS: Final = 0x8000_0000
_FARTHEST: Final = 255
_MOST: Final = 4096  # the kernel's own limit
_PRIVATE: Final = 0xF0000  # where numbers of arm begin that are not in order
_WORD: Final = 0xFFFF_FFFF


class Condition(Struct, frozen=True, kw_only=True):
    index: int
    operator: str
    """NE, LT, LE, EQ, GE, GT; or MASKED_EQ: what `value` leaves of the argument is `other`."""
    value: int
    other: int = 0


class Rule(Struct, frozen=True, kw_only=True):
    action: int
    conditions: tuple[Condition, ...] = ()


class Filter(Struct, frozen=True, kw_only=True):
    """Of the rules that match a call, the strictest counts; if there is none, the default. Programs of architectures
    that have no table are killed: their numbers mean something else."""

    default: int
    unknown: int
    """For calls that are newer than all that have rules: programs are used to kernels that do not know them yet."""
    tables: Mapping[Architecture, Mapping[int, Sequence[Rule]]]


class TooLong(ValueError):
    """The kernel takes no programs of that length."""


def compiled(wanted: Filter) -> bytes:
    """For seccomp(2). Raises TooLong."""
    code: Code = [(LOAD, 0, 0, _ARCHITECTURE)]
    by_token = groupby(sorted(wanted.tables, key=lambda each: (each.token, each.bit)), key=lambda each: each.token)
    for token, architectures in by_token:
        block = _block({each.bit: _table(wanted, each) for each in architectures}, shared=token == _X86_64)
        code += _when(IF_EQUAL, token, block)
    code.append((RETURN, 0, 0, _KILL_PROCESS))
    if len(code) > _MOST:
        raise TooLong(f"the filter has {len(code)} steps, and the kernel takes at most {_MOST}")
    return b"".join(struct.pack("=HBBI", *step) for step in code)


def strictness(action: int) -> int:
    """Least first: as the kernel orders the answers of several filters."""
    kind = action & 0xFFFF_0000
    return kind - (1 << 32) if kind & 0x8000_0000 else kind


def _when(operation: int, value: int, then: Code) -> Code:
    if len(then) <= _FARTHEST:
        return [(operation, 0, len(then), value), *then]
    return [(operation, 1, 0, value), (JUMP, 0, 0, len(then)), *then]


def _block(tables: dict[int, list[tuple[int, Code]]], *, shared: bool) -> Code:
    """x86_64 and x32 are one architecture to the kernel, and tell their calls apart by a bit of the number."""
    code: Code = [(LOAD, 0, 0, _NUMBER)]
    if shared:
        other: Code = _tree(tables[X32_BIT]) if X32_BIT in tables else [(RETURN, 0, 0, _KILL_PROCESS)]
        code += _when(IF_GREATER_OR_EQUAL, X32_BIT, other)
    return code + _tree(tables[0])


def _table(wanted: Filter, architecture: Architecture) -> list[tuple[int, Code]]:
    """(first number, what to do from there on), in order, with no two neighbours alike."""
    rules = wanted.tables[architecture]
    starts: list[tuple[int, Code]] = [(0, [(RETURN, 0, 0, wanted.default)])]
    for number in sorted(rules):
        starts.append((number, _decision(rules[number], wanted.default)))
        starts.append((number + 1, [(RETURN, 0, 0, wanted.default)]))
    known = max((each for each in rules if each - architecture.bit < _PRIVATE), default=None)
    if known is not None:
        position = max(i for i, (first, _) in enumerate(starts) if first == known + 1)
        starts[position] = (known + 1, [(RETURN, 0, 0, wanted.unknown)])
        if position + 1 < len(starts):
            starts.insert(position + 1, (architecture.bit | _PRIVATE, [(RETURN, 0, 0, wanted.default)]))
    whole = dict(starts)
    return [next(same) for _, same in groupby(sorted(whole.items()), key=lambda each: each[1])]


def _tree(table: list[tuple[int, Code]]) -> Code:
    if len(table) == 1:
        return table[0][1]
    middle = len(table) // 2
    low, high = _tree(table[:middle]), _tree(table[middle:])
    first = table[middle][0]
    if len(low) <= _FARTHEST:
        return [(IF_GREATER_OR_EQUAL, len(low), 0, first), *low, *high]
    return [(IF_GREATER_OR_EQUAL, 0, 1, first), (JUMP, 0, 0, len(low)), *low, *high]


def _decision(rules: Sequence[Rule], default: int) -> Code:
    code: Code = []
    for rule in sorted(rules, key=lambda each: strictness(each.action)):
        test: Code = [(RETURN, 0, 0, rule.action)]
        for condition in reversed(rule.conditions):
            test = [*_test(condition, len(test)), *test]
        code += test
        if not rule.conditions:
            return code
    return [*code, (RETURN, 0, 0, default)]


def _test(condition: Condition, fail: int) -> Code:
    """Goes on where the condition holds, and skips `fail` more steps where not. Both halves of the 64 bits count."""
    low = (LOAD, 0, 0, _ARGUMENTS + 8 * condition.index)
    high = (LOAD, 0, 0, _ARGUMENTS + 8 * condition.index + 4)
    upper, lower = condition.value >> 32, condition.value & _WORD
    match condition.operator:
        case "EQ":
            return [high, (IF_EQUAL, 0, fail + 2, upper), low, (IF_EQUAL, 0, fail, lower)]
        case "NE":
            return [high, (IF_EQUAL, 0, 2, upper), low, (IF_EQUAL, fail, 0, lower)]
        case "GE" | "GT":
            last = IF_GREATER_OR_EQUAL if condition.operator == "GE" else IF_GREATER
            return [high, (IF_GREATER, 3, 0, upper), (IF_EQUAL, 0, fail + 2, upper), low, (last, 0, fail, lower)]
        case "LT" | "LE":
            last = IF_GREATER_OR_EQUAL if condition.operator == "LT" else IF_GREATER
            return [high, (IF_GREATER, fail + 3, 0, upper), (IF_EQUAL, 0, 2, upper), low, (last, fail, 0, lower)]
        case "MASKED_EQ":
            halves = [(IF_EQUAL, 0, fail + 3, condition.other >> 32), (IF_EQUAL, 0, fail, condition.other & _WORD)]
            return [high, (AND, 0, 0, upper), halves[0], low, (AND, 0, 0, lower), halves[1]]
        case other:
            raise ValueError(f"there is no operator {other}")

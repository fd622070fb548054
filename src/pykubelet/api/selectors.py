"""Label and field selectors: the questions that select objects, from text or from structs.

A selector is a tuple of requirements that all have to hold; the empty one selects everything.
"""

import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api.codec import convert
from pykubelet.api.meta import LabelSelector

Operator = Literal["=", "!=", "in", "notin", "exists", "!", "gt", "lt"]


class Requirement(Struct, frozen=True, gc=False):
    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "=" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "gt" | "lt":
                return value is not None and _compare(self.operator, value, self.values[0])

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case "gt":
                return f"{self.key}>{self.values[0]}"
            case "lt":
                return f"{self.key}<{self.values[0]}"
            case operator:
                return f"{self.key}{operator}{self.values[0]}"


Selector = tuple[Requirement, ...]

MOST_REQUIREMENTS: Final = 1_000
_MOST_WORDS: Final = 10_000
"""Of a selector: each object is asked all of it, for as long as somebody watches."""
_WORD: Final = re.compile(r"\s*(=>|==|=|!=|!|,|\(|\)|<|>|[^\s=!,()<>]+|$)")
_FIELD: Final = re.compile(r"([^=!\\]+)(==|!=|=)((?:[^=\\,]|\\.)*)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_STRUCT_OPERATORS: Final[Mapping[str, Operator]] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
    "Gt": "gt",
    "Lt": "lt",
}
_PUNCTUATION: Final = frozenset(["=", "==", "!=", "!", ",", "(", ")", "<", ">", ""])


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    return all(requirement.holds(labels) for requirement in selector)


def parse_labels(text: str) -> Selector:
    """`app=web,tier in (front,back),!legacy`. Raises ValueError with a sentence for the person who wrote it."""
    return _Parser(text).selector()


def parse_fields(text: str, supported: Callable[[str], bool] = lambda field: True) -> Selector:
    """`spec.nodeName=n1,status.phase!=Failed`: only equality, on fields that are `supported`. A backslash escapes."""
    requirements = []
    for part in _split_unescaped(text):
        if not part.strip():
            continue
        match = _FIELD.fullmatch(part.lstrip())
        if match is None:
            raise ValueError(f"{part[:100]!r} is not a field selector: write field=value or field!=value")
        field, operator, value = match.groups()
        if not supported(field):
            raise ValueError(f"field {field!r} cannot be selected by")
        plain = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
        requirements.append(Requirement(field, "!=" if operator == "!=" else "=", (plain,)))
        if len(requirements) > MOST_REQUIREMENTS:
            raise ValueError(f"a field selector may have at most {MOST_REQUIREMENTS:,} requirements")
    return tuple(requirements)


def from_json(given: object) -> Selector:
    """Of a label selector as it stands in an object; absent or empty: everything. Raises ValueError."""
    return from_struct(convert(LabelSelector, given or {})) or ()


def from_struct(selector: LabelSelector | None) -> Selector | None:
    """The selector of a spec. None selects nothing, which is what an absent one means; an empty one selects all."""
    if selector is None:
        return None
    equal = tuple(Requirement(key, "=", (value,)) for key, value in sorted(selector.match_labels.items()))
    return equal + tuple(requirement(e.key, e.operator, e.values) for e in selector.match_expressions)


def requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """One expression of a label or node selector. Raises ValueError when it makes no sense."""
    known = _STRUCT_OPERATORS.get(operator)
    if known is None:
        raise ValueError(f"{operator!r} is not an operator: use {', '.join(_STRUCT_OPERATORS)}")
    wanted = {"in": "at least one value", "notin": "at least one value", "gt": "one number", "lt": "one number"}
    fits = len(values) == 1 if known in ("gt", "lt") else bool(values) == (known in wanted)
    if not fits:
        raise ValueError(f"operator {operator} of {key!r} takes {wanted.get(known, 'no values')}")
    return Requirement(key, known, values)


def _compare(operator: Operator, value: str, bound: str) -> bool:
    """Numbers only: text that is none is neither greater nor less."""
    if not (_NUMBER.fullmatch(value) and _NUMBER.fullmatch(bound)):
        return False
    left, right = int(value), int(bound)
    return left > right if operator == "gt" else left < right


def _split_unescaped(text: str) -> list[str]:
    return re.findall(r"(?:[^,\\]|\\.)+", text, re.DOTALL)


class _Parser:
    """A few words of look-ahead over the text of a label selector."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = [found[1] for found in islice(_WORD.finditer(text), _MOST_WORDS + 1)]
        if len(self._words) > _MOST_WORDS:
            raise self._fault(f"has more than {_MOST_WORDS:,} words")
        self._next = 0

    def selector(self) -> Selector:
        requirements: list[Requirement] = []
        if self._peek() == "":
            return ()
        while True:
            requirements.append(self._requirement())
            if len(requirements) > MOST_REQUIREMENTS:
                raise self._fault(f"has more than {MOST_REQUIREMENTS:,} requirements")
            word = self._take()
            if word == "":
                return tuple(requirements)
            if word != ",":
                raise self._fault(f"expected a comma, found {word!r}")
            if self._peek() == "":
                raise self._fault("ends with a comma")

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._name(), "!")
        key = self._name()
        match self._peek():
            case "" | ",":
                return Requirement(key, "exists")
            case "=" | "==":
                self._take()
                return Requirement(key, "=", (self._value(),))
            case "!=":
                self._take()
                return Requirement(key, "!=", (self._value(),))
            case "<" | ">" as sign:
                self._take()
                return Requirement(key, "gt" if sign == ">" else "lt", (self._number(),))
            case "in" | "notin" as word:
                self._take()
                return Requirement(key, "in" if word == "in" else "notin", self._values())
            case other:
                raise self._fault(f"expected an operator after {key!r}, found {other!r}")

    def _values(self) -> tuple[str, ...]:
        if self._take() != "(":
            raise self._fault("expected ( after in or notin")
        values = []
        while True:
            values.append(self._value())
            match self._take():
                case ")":
                    return tuple(sorted(set(values)))
                case ",":
                    continue
                case other:
                    raise self._fault(f"expected , or ) in a list of values, found {other!r}")

    def _name(self) -> str:
        word = self._take()
        if word in _PUNCTUATION:
            raise self._fault(f"expected the key of a label, found {word!r}" if word else "ends where a key should be")
        return word

    def _value(self) -> str:
        """A value may be empty."""
        return "" if self._peek() in _PUNCTUATION else self._take()

    def _number(self) -> str:
        word = self._take()
        if not _NUMBER.fullmatch(word):
            raise self._fault(f"expected a whole number, found {word!r}")
        return word

    def _peek(self) -> str:
        return self._words[self._next] if self._next < len(self._words) else ""

    def _take(self) -> str:
        word = self._peek()
        self._next += 1
        return word

    def _fault(self, reason: str) -> ValueError:
        return ValueError(f"label selector {self._text[:100]!r} {reason}")

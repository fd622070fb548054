"""JSONPath as printer columns have it: where values of an object stand, with indices, slices, stars and filters."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"""\.\.(?P<deep>[A-Za-z_][\w-]*)
    |\.(?P<name>(?:[^.\[\]{}()'"\s*?@\\]|\\.)+)
    |\.?(?P<star>\*)
    |\[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]
    |\[(?P<all>\*)\]
    |\[(?P<index>-?\d{1,9})\]
    |\[(?P<slice>(?:-?\d{1,9})?:(?:-?\d{1,9})?)\]
    |\[\?\((?P<filter>@[^)]*)\)\]""",
    re.VERBOSE | re.ASCII,
)
_FILTER: Final = re.compile(
    r"""@((?:\.(?:[^.\[\]{}()'"\s*?@=!<>\\]|\\.)+)+)\s*(?:(==|!=|<=|>=|<|>)\s*('[^']*'|"[^"]*"|-?[\d.]+|true|false))?""",
    re.ASCII,
)
_LONGEST: Final = 1000
_MOST: Final = 10_000
"""Values that are looked at for one cell."""

Step = Callable[[Any], Iterator[Any]]


class BadJsonPath(ValueError):
    """The message says why."""


@lru_cache(maxsize=4096)
def parsed(text: str) -> tuple[Step, ...]:
    """Raises BadJsonPath."""
    if len(text) > _LONGEST:
        raise BadJsonPath(f"it is longer than {_LONGEST} characters")
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    inner = inner.removeprefix("$")
    steps: list[Step] = []
    place = 0
    while place < len(inner):
        found = _TOKEN.match(inner, place)
        if found is None:
            raise BadJsonPath(f"{text!r} cannot be read as a path from {inner[place : place + 20]!r} on")
        steps.append(_step(found))
        place = found.end()
    if not steps:
        raise BadJsonPath("it names nothing")
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    kind, text = found.lastgroup or "", found[found.lastgroup or 0]
    match kind:
        case "name":
            return _named(re.sub(r"\\(.)", r"\1", text))
        case "quoted":
            return _named(re.sub(r"\\(.)", r"\1", text[1:-1]))
        case "deep":
            return _deep(text)
        case "index":
            return _sliced(int(text), int(text) + 1 if int(text) != -1 else None)
        case "slice":
            first, _, last = text.partition(":")
            return _sliced(int(first) if first else None, int(last) if last else None)
        case "filter":
            return _filtered(text)
    return _inside


def _named(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield from value.values() if isinstance(value, dict) else value


def _deep(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        waiting = [value]
        while waiting:
            outer = waiting.pop()
            if isinstance(outer, dict) and name in outer:
                yield outer[name]
            waiting += [each for each in _inside(outer) if isinstance(each, dict | list)]

    return step


def _sliced(first: int | None, last: int | None) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[first:last]

    return step


def _filtered(text: str) -> Step:
    found = _FILTER.fullmatch(text.strip())
    if found is None:
        raise BadJsonPath(f"the filter {text!r} is not supported")
    way = [re.sub(r"\\(.)", r"\1", each) for each in re.findall(r"\.((?:[^.\\]|\\.)+)", found[1])]
    operator, wanted = found[2], _literal(found[3]) if found[3] else None

    def step(value: Any) -> Iterator[Any]:
        for each in _inside(value):
            inner = each
            for name in way:
                inner = inner.get(name) if isinstance(inner, dict) else None
            if inner is not None and (operator is None or _holds(inner, operator, wanted)):
                yield each

    return step


def _literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        raise BadJsonPath(f"{text!r} is not a number") from None


def _holds(value: Any, operator: str, wanted: Any) -> bool:
    try:
        match operator:
            case "==":
                return bool(value == wanted)
            case "!=":
                return bool(value != wanted)
            case "<":
                return bool(value < wanted)
            case "<=":
                return bool(value <= wanted)
            case ">":
                return bool(value > wanted)
            case _:
                return bool(value >= wanted)
    except TypeError:
        return False


def found_at(obj: Any, text: str) -> list[Any]:
    """What stands at a path: nothing, a value, or many. What another server took for a path may lead nowhere here."""
    values = [obj]
    try:
        steps = parsed(text)
    except BadJsonPath:
        return []
    for step in steps:
        after: list[Any] = []
        for value in values:
            for each in step(value):
                after.append(each)
                if len(after) >= _MOST:
                    return after
        values = after
    return values

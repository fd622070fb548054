"""The simple paths that columns of custom resources are written in: `.spec.items[0].name`, with filters and `[*]`."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]\s()'"?*@]+)          # .name
      | \[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]   # ['name']
      | \[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]   # ["name"]
      | \[\s*(?P<index>-?\d+)\s*\]              # [0]
      | (?P<all>\[\s*\*\s*\]|\.\*)              # [*]
      | \[\?\(\s*@(?P<path>[^=!<>\s)]+)\s*(?:(?P<operator>==|!=)\s*(?P<value>'[^']*'|"[^"]*"|[^\s)]+)\s*)?\)\]
    """,
    re.VERBOSE,
)


class Step(NamedTuple):
    name: str | None = None
    number: int | None = None
    path: tuple["Step", ...] | None = None
    operator: str = ""
    value: str = ""


@lru_cache(maxsize=4096)
def parsed(text: str) -> tuple[Step, ...]:
    """Raises ValueError for what is no such path."""
    rest = text.strip()
    if rest.startswith("{") and rest.endswith("}"):
        rest = rest[1:-1]
    rest = rest.removeprefix("$")
    steps: list[Step] = []
    place = 0
    while place < len(rest):
        found = _STEP.match(rest, place)
        if found is None:
            raise ValueError(f"{text!r} cannot be read as a path from {rest[place : place + 20]!r} on")
        steps.append(_step(found))
        place = found.end()
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    given = found.groupdict()
    name = given["name"] or given["single"] or given["double"]
    if name is not None:
        return Step(name=re.sub(r"\\(.)", r"\1", name))
    if given["index"] is not None:
        return Step(number=int(given["index"]))
    if given["path"] is not None:
        return Step(
            path=parsed(given["path"]), operator=given["operator"] or "", value=(given["value"] or "").strip("'\"")
        )
    return Step()


def found_at(value: Any, text: str) -> list[Any]:
    """All that a path leads to; nothing where the way is missing."""
    here = [value]
    for step in parsed(text):
        here = [inner for each in here for inner in _within(each, step)]
    return here


def _within(value: Any, step: Step) -> Iterator[Any]:
    if step.name is not None:
        if isinstance(value, dict) and step.name in value:
            yield value[step.name]
        return
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if step.number is not None:
        if isinstance(value, list) and -len(value) <= step.number < len(value):
            yield value[step.number]
    elif step.path is None:
        yield from items
    else:
        yield from (each for each in items if _holds(each, step))


def _holds(value: Any, step: Step) -> bool:
    here = [value]
    for each in step.path or ():
        here = [inner for outer in here for inner in _within(outer, each)]
    if not step.operator:
        return bool(here)
    texts = [str(each).lower() if isinstance(each, bool) else str(each) for each in here]
    return (step.value in texts) == (step.operator == "==")

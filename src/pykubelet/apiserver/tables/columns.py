"""What the printed tables of all kinds have in common: how columns are written down, and the cells that recur."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from pykubelet.api.durations import ago
from pykubelet.api.selectors import from_json
from pykubelet.apiserver.objects import Object, at

NONE: Final = "<none>"
UNSET: Final = "<unset>"
_KINDS: Final = {"#": "integer", "?": "boolean", "@": "date"}
Columns: TypeAlias = tuple[dict[str, Any], ...]
Cells: TypeAlias = Callable[[Object, datetime], list[Any]]
Printer: TypeAlias = tuple[Columns, Cells]
Printers: TypeAlias = Mapping[tuple[str, str], Printer]
"""By group and kind."""


def columns(text: str) -> Columns:
    """`Name, Ready, IP*`: a star marks what is shown only when the output is wide, `#` a number, `?` yes or no,
    `@` a time, `!` a name."""
    found = []
    for index, part in enumerate(each.strip() for each in text.split(",")):
        label = part.rstrip("*#?@!")
        is_name = (index == 0 and label == "Name") or "!" in part
        found.append(
            {
                "name": label,
                "type": next((kind for mark, kind in _KINDS.items() if mark in part), "string"),
                "format": "name" if is_name else "",
                "description": "",
                "priority": 1 if "*" in part else 0,
            }
        )
    return tuple(found)


def plain(text: str, *between: Callable[[Object], Any]) -> Printer:
    """A kind with some cells between its name and its age."""
    return columns(text), lambda obj, now: [name(obj), *(cell(obj) for cell in between), age(obj, now)]


def name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def age(obj: Object, now: datetime) -> str:
    return ago(obj["metadata"].get("creationTimestamp"), now)


def some(found: Sequence[str], otherwise: str, most: int = 3, between: str = ",") -> str:
    more = f" + {len(found) - most} more..." if len(found) > most else ""
    return between.join(found[:most]) + more if found else otherwise


def labels(given: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((given or {}).items())) or NONE


def selector(given: Any, otherwise: str = NONE) -> str:
    """A label selector as text."""
    try:
        found = from_json(given)
    except ValueError:
        return "<error>"
    return ",".join(str(each) for each in sorted(found, key=lambda each: each.key)) or otherwise


def containers(template: Object) -> list[str]:
    """The names of the containers of a template, and their images."""
    every = at(template, "spec.containers", ())
    return [",".join(str(each.get(part, "")) for each in every) for part in ("name", "image")]

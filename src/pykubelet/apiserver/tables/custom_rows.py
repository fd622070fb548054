"""The rows of resources that were defined at runtime, by the columns that came with them."""

from datetime import datetime
from typing import Any, Final

import msgspec

from pykubelet.api.durations import ago
from pykubelet.apiserver.custom.json_paths import found_at
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.schema.resources import Column, Resource
from pykubelet.apiserver.tables.columns import Columns, Printer, columns, name

_USUAL: Final = (Column("Age", "date", ".metadata.creationTimestamp"),)


def custom_printer(resource: Resource) -> Printer:
    given = resource.columns or _USUAL
    heads: Columns = (
        *columns("Name"),
        *(
            {
                "name": each.name,
                "type": each.type,
                "format": each.format,
                "description": each.description,
                "priority": each.priority,
            }
            for each in given
        ),
    )
    return heads, lambda obj, now: [name(obj), *(_cell(obj, each, now) for each in given)]


def _cell(obj: Object, column: Column, now: datetime) -> Any:
    found = found_at(obj, column.json_path)
    value = found[0] if found else None
    if value is None:
        return None
    match column.type:
        case "integer" if isinstance(value, int | float):
            return int(value)
        case "number" if isinstance(value, int | float):
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return ago(value, now)
        case "string":
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return None

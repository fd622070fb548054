"""Columns that come with a resource, and the paths that they are written in."""

from datetime import UTC, datetime
from typing import Any

from pykubelet.apiserver.schema.resources import Column, Resource
from pykubelet.apiserver.tables.tables import table

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OBJ: dict[str, Any] = {
    "metadata": {"name": "w", "creationTimestamp": "2026-01-01T11:59:30Z", "annotations": {"a.b/c": "x"}},
    "spec": {"size": 3, "on": True, "list": ["a", "b"], "map": {"k": "v"}, "ratio": 1.5},
    "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
}


def row(*columns: Column) -> list[Any]:
    resource = Resource(group="e.com", kind="Pod", plural="pods", is_custom=True, columns=columns)
    made = table(resource, [OBJ], {}, "v1", "None", NOW)
    assert len(made["columnDefinitions"]) == len(made["rows"][0]["cells"])
    found: list[Any] = made["rows"][0]["cells"]
    return found


def test_a_resource_without_columns_shows_its_age_whatever_its_kind_is_called() -> None:
    assert row() == ["w", "30s"]


def test_cells_are_of_the_type_of_their_column() -> None:
    assert row(
        Column("Size", "integer", ".spec.size"),
        Column("Ratio", "number", ".spec.ratio"),
        Column("On", "boolean", ".spec.on"),
        Column("Text", "string", ".spec.map.k"),
        Column("Map", "string", ".spec.map"),
        Column("Wrong", "integer", ".spec.map"),
        Column("None", "string", ".spec.none"),
        Column("Since", "date", ".metadata.creationTimestamp", priority=1),
    ) == ["w", 3, 1.5, True, "v", '{"k":"v"}', None, None, "30s"]

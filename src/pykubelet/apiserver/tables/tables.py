"""Objects as rows: the columns that kubectl shows for each kind, computed here so that every client shows the same."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.tables import cluster_rows, core_rows, workload_rows
from pykubelet.apiserver.tables.columns import Printer, Printers, columns, name
from pykubelet.apiserver.tables.pod_rows import pod_conditions

_PRINTERS: Final[Printers] = {**core_rows.PRINTERS, **workload_rows.PRINTERS, **cluster_rows.PRINTERS}
_GENERIC: Final[Printer] = (
    columns("Name, Created At@"),
    lambda obj, now: [name(obj), obj["metadata"].get("creationTimestamp")],
)


def table(
    resource: Resource, objects: Sequence[Object], metadata: dict[str, Any], version: str, include: str, now: datetime
) -> Object:
    if resource.is_custom:
        from pykubelet.apiserver.tables.custom_rows import custom_printer  # for who has custom resources

        heads, cells = custom_printer(resource)
    else:
        heads, cells = _PRINTERS.get((resource.group, resource.kind), _GENERIC)
    rows = []
    for obj in objects:
        row: dict[str, Any] = {"cells": cells(obj, now)}
        if resource.path == ("", "v1", "pods") and (conditions := pod_conditions(obj)):
            row["conditions"] = conditions
        if include == "Object":
            row["object"] = obj
        elif include == "Metadata":
            row["object"] = partial_metadata(obj, version)
        rows.append(row)
    head = {"kind": "Table", "apiVersion": f"meta.k8s.io/{version}"}
    return {**head, "metadata": metadata, "columnDefinitions": list(heads), "rows": rows}


def partial_metadata(obj: Object, version: str) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}


def wanted_objects(query: Mapping[str, str]) -> str:
    include = query.get("includeObject", "") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise status.bad_request(f"unrecognized includeObject value: {include!r}: use None, Metadata or Object")
    return include

"""What is found in one go for the many that create has to come out as it would the long way."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings

from kit.any_objects import values
from kit.apiserver_process import plain_pod
from pykubelet.apiserver.patch import server_side_apply as apply
from pykubelet.apiserver.patch.created import created_fields
from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.field_managers import UPDATE, Manager
from pykubelet.apiserver.patch.server_side_apply import track_update
from pykubelet.apiserver.schema.catalogue import schema_of
from pykubelet.apiserver.schema.schema import copied

POD = schema_of("v1", "Pod")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@settings(max_examples=100, deadline=None)
@given(obj=values(POD))
def test_who_creates_an_object_owns_what_a_comparison_with_an_empty_one_says(obj: dict[str, Any]) -> None:
    obj = {"apiVersion": "v1", "kind": "Pod", **obj}
    obj["metadata"] = obj.get("metadata") or {}
    quick = track_update(None, copied(obj), manager="m", kind="Pod", api_version="v1", schema=POD, now=NOW)
    here = apply._situation("Pod", "v1", POD, "", NOW)
    try:
        owners = apply._updated(apply._empty(POD), copied(obj), {}, Manager("m", UPDATE, "v1"), here)
    except PatchRefused:
        assert "managedFields" not in quick["metadata"]
        return
    assert quick == apply._with_managers(copied(obj), owners)


@pytest.mark.parametrize("subresource", ["", "status"])
def test_who_creates_a_plain_pod_owns_what_it_says(subresource: str) -> None:
    pod = track_update(
        None, plain_pod("a"), manager="m", kind="Pod", api_version="v1", schema=POD, subresource=subresource, now=NOW
    )
    (entry,) = pod["metadata"]["managedFields"]
    assert list(entry["fieldsV1"]) == (["f:metadata"] if subresource else ["f:metadata", "f:spec"])
    assert entry["fieldsV1"]["f:metadata"] == {
        "f:annotations": {".": {}, "f:about": {}},
        "f:labels": {".": {}, "f:app": {}, "f:tier": {}},
    }


CONTAINERS: dict[str, Any] = {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("value", "excluded", "unowned", "fields"),
    [
        ({}, (), frozenset(), {}),
        ({"spec": {}}, (), frozenset(), {}),
        ({"spec": {"hostname": "h"}}, (), frozenset(), {"f:spec": {"f:hostname": {}}}),
        (
            {"spec": {"hostname": "h"}, "status": {"phase": "x"}},
            (("f:spec",),),
            frozenset(),
            {"f:status": {"f:phase": {}}},
        ),
        (
            {"metadata": {"name": "p", "labels": {"a": "1"}}},
            (),
            frozenset({("f:metadata", "f:name"), ("f:metadata", "f:labels")}),
            {"f:metadata": {"f:labels": {"f:a": {}}}},
        ),
        ({"spec": {"nodeSelector": {"a": "b"}}}, (), frozenset(), {"f:spec": {"f:nodeSelector": {}}}),
        (
            {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}},
            (),
            frozenset(),
            {"f:spec": {"f:containers": {'k:{"name":"a"}': {}}}},
        ),
        (
            {"spec": CONTAINERS},
            (),
            frozenset(),
            {
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"a"}': {
                            ".": {},
                            "f:name": {},
                            "f:ports": {
                                ".": {},
                                'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
                            },
                        },
                        'k:{"name":"b"}': {".": {}, "f:name": {}},
                    }
                }
            },
        ),
    ],
)
def test_the_fields_of_a_new_object(value: Any, excluded: Any, unowned: Any, fields: Any) -> None:
    start: dict[str, Any] = {"metadata": {}, "spec": {"containers": None}, "status": {}}
    assert created_fields(start, value, POD, excluded, unowned) == fields


def test_a_list_whose_items_cannot_be_told_apart_has_no_fields() -> None:
    with pytest.raises(PatchRefused, match="omits all key fields"):
        created_fields({}, {"spec": {"containers": [{"image": "x"}]}}, POD, (), frozenset())

"""What is done quickly for the many has to come out as it would the long way."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.apiserver_process import plain_pod
from pykubelet.apiserver.patch import server_side_apply as apply
from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.managers import UPDATE, Manager
from pykubelet.apiserver.patch.server_side_apply import track_update
from pykubelet.apiserver.schema.catalogue import catalogue, schema_of
from pykubelet.apiserver.schema.schema import (
    Json,
    ListOf,
    MapOf,
    Record,
    Scalar,
    Schema,
    copied,
    empty,
    same,
    unknown_fields,
)
from pykubelet.apiserver.schema.shapes import fits
from pykubelet.apiserver.verbs.bodies import _misfits, _without_loss

POD = schema_of("v1", "Pod")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_SCALARS = {
    "string": st.sampled_from(["a", "b", ""]),
    "integer": st.integers(0, 5),
    "number": st.floats(0, 1),
    "boolean": st.booleans(),
}
_FORMATS = {
    "quantity": st.sampled_from(["1", "250m", 2]),
    "date-time": st.just("2026-01-01T00:00:00Z"),
    "int-or-string": st.sampled_from([80, "http"]),
}
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([1.0, "1", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name"]), inner, max_size=3),
    max_leaves=6,
)


def values(schema: Schema, depth: int = 4) -> st.SearchStrategy[Json]:
    """Objects of a type, with a few of its fields."""
    match schema:
        case Scalar():
            return _FORMATS.get(schema.format, _SCALARS[schema.kind])
        case ListOf():
            return st.lists(values(schema.items, depth - 1), max_size=2 if depth > 0 else 0)
        case MapOf():
            return st.dictionaries(st.sampled_from(["x", "y/z"]), values(schema.items, depth - 1), max_size=2)
        case Record() if depth > 0:
            names = sorted(set(schema.fields) - {"managedFields"})

            def some(chosen: list[str]) -> st.SearchStrategy[Json]:
                keys = {key for key in ("name", "key", "type", "ip", "uid", "mountPath") if key in schema.fields}
                return st.fixed_dictionaries(
                    {name: values(schema.fields[name].type, depth - 1) for name in {*chosen, *keys}}
                )

            return st.lists(st.sampled_from(names), max_size=3).flatmap(some) if names else st.just({})
    return st.just({})


@settings(max_examples=100, deadline=None)
@given(obj=values(POD))
def test_who_creates_an_object_owns_what_a_comparison_with_an_empty_one_says(obj: dict[str, Any]) -> None:
    obj = {"apiVersion": "v1", "kind": "Pod", **obj}
    obj["metadata"] = obj.get("metadata") or {}
    quick = track_update(None, copied(obj), manager="m", kind="Pod", api_version="v1", now=NOW)
    here = apply._situation("Pod", "v1", "", NOW)
    try:
        owners = apply._updated(apply._empty(POD), copied(obj), {}, Manager("m", UPDATE, "v1"), here)
    except PatchRefused:
        assert "managedFields" not in quick["metadata"]
        return
    assert quick == apply._with_managers(copied(obj), owners)


@pytest.mark.parametrize("subresource", ["", "status"])
def test_who_creates_a_plain_pod_owns_what_it_says(subresource: str) -> None:
    pod = track_update(
        None, plain_pod("a"), manager="m", kind="Pod", api_version="v1", subresource=subresource, now=NOW
    )
    (entry,) = pod["metadata"]["managedFields"]
    assert list(entry["fieldsV1"]) == (["f:metadata"] if subresource else ["f:metadata", "f:spec"])
    assert entry["fieldsV1"]["f:metadata"] == {
        "f:annotations": {".": {}, "f:about": {}},
        "f:labels": {".": {}, "f:app": {}, "f:tier": {}},
    }


@settings(max_examples=300, deadline=None)
@given(obj=values(POD), change=st.tuples(st.sampled_from(["metadata", "spec", "status", "bogus"]), ANY))
def test_a_quick_yes_is_given_only_to_what_is_right(obj: dict[str, Any], change: tuple[str, Json]) -> None:
    obj[change[0]] = change[1]
    if fits(obj, POD):
        assert list(_misfits(obj, POD, "")) == []
        assert list(unknown_fields(obj, POD)) == []


@settings(max_examples=100, deadline=None)
@given(obj=values(POD))
def test_a_quick_yes_is_given_to_whatever_is_right(obj: dict[str, Any]) -> None:
    assert fits(obj, POD)


def test_every_type_has_a_shape() -> None:
    for record in catalogue().values():
        assert fits({}, record)
        assert not fits({"bogus": 1}, record)
        assert not fits([], record)
        assert fits(dict.fromkeys(record.fields), record), "nulls are of any form"
        assert isinstance(empty(record), dict)


@given(one=ANY, other=ANY)
def test_values_are_the_same_if_their_texts_are(one: Json, other: Json) -> None:
    def text(value: Json) -> str:
        return json.dumps(value, sort_keys=True).replace("1.0", "1")

    assert same(one, other) == (text(one) == text(other))
    assert same(one, copied(one))


@pytest.mark.parametrize(
    ("text", "is_sure"),
    [
        ('{"a": 1, "b": [true, null, "\\u00e9", 1.5]}', False),
        ('{"a": 1, "b": [true, null, "é", 1.5]}', True),
        ('{"a": 1, "a": 1}', False),
        ('{"x": {"a": 1, "a": {}}}', False),
        ('{"a": 1e2}', False),
        ('{"a": ', False),
    ],
)
def test_a_text_is_taken_quickly_only_if_nothing_is_there_twice(text: str, is_sure: bool) -> None:
    assert _without_loss(text.encode()) == json.loads(text) if is_sure else _without_loss(text.encode()) is None

"""What a schema leaves of an object, and what it puts in."""

from typing import Any

import pytest

from pykubelet.apiserver.custom.pruning import Room, TooMuch, defaulter, pruned

TEXT = {"type": "string"}
KEEPS = {"x-kubernetes-preserve-unknown-fields": True}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def put(obj: dict[str, Any], schema: dict[str, Any]) -> None:
    made = defaulter(schema)
    assert made is not None
    made(obj, Room())


@pytest.mark.parametrize(
    ("schema", "obj", "left", "told"),
    [
        (of(a=TEXT), {"a": "1", "b": 2}, {"a": "1"}, ["b"]),
        (of(a=of(b=TEXT)), {"a": {"b": "1", "c": {"d": 1}}}, {"a": {"b": "1"}}, ["a.c"]),
        (of(a={"type": "array", "items": of(b=TEXT)}), {"a": [{"b": "1", "c": 2}]}, {"a": [{"b": "1"}]}, ["a[0].c"]),
        (
            of(a={"type": "object", "additionalProperties": of(b=TEXT)}),
            {"a": {"x": {"b": "1", "c": 2}}},
            {"a": {"x": {"b": "1"}}},
            ["a.x.c"],
        ),
        (
            of(a={**of(b=of(c=TEXT)), **KEEPS}),
            {"a": {"b": {"x": 1}, "y": {"z": 1}}},
            {"a": {"b": {}, "y": {"z": 1}}},
            ["a.b.x"],
        ),
        (of(a={"type": "object", **KEEPS}), {"a": {"x": [{"y": 1}]}}, {"a": {"x": [{"y": 1}]}}, []),
        (of(a=TEXT, b={**TEXT, "nullable": True}), {"a": None, "b": None}, {"b": None}, []),
        (of(a={"type": "object", "additionalProperties": TEXT}), {"a": {"x": None, "y": "1"}}, {"a": {"y": "1"}}, []),
        (of(a=KEEPS), {"a": [{"x": 1}]}, {"a": [{"x": 1}]}, []),
        (
            of(a={"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": of(b=TEXT)}}),
            {"a": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "z": 1}, "spec": {"b": "1", "c": 1}}},
            {"a": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "z": 1}, "spec": {"b": "1"}}},
            ["a.spec.c"],
        ),
        (
            of(),
            {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "x": 1},
            {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}},
            ["x"],
        ),
    ],
)
def test_unknown_fields_go(schema: dict[str, Any], obj: dict[str, Any], left: Any, told: list[str]) -> None:
    unknown: list[str] = []

    assert pruned(obj, schema, unknown) == left
    assert unknown == told


@pytest.mark.parametrize(
    ("schema", "obj", "then"),
    [
        (of(a={**TEXT, "default": "x"}), {}, {"a": "x"}),
        (of(a={**TEXT, "default": "x"}), {"a": ""}, {"a": ""}),
        (of(a={**TEXT, "default": "x"}), {"a": None}, {"a": "x"}),
        (of(a={**TEXT, "default": "x", "nullable": True}), {"a": None}, {"a": None}),
        (of(a=of(b={**TEXT, "default": "x"})), {}, {}),
        (of(a={**of(b={**TEXT, "default": "x"}), "default": {}}), {}, {"a": {"b": "x"}}),
        (
            of(a={"type": "array", "items": of(b={**TEXT, "default": "x"})}),
            {"a": [{}, {"b": "y"}]},
            {"a": [{"b": "x"}, {"b": "y"}]},
        ),
        (
            of(a={"type": "object", "additionalProperties": of(b={"default": 0})}),
            {"a": {"k": {}}},
            {"a": {"k": {"b": 0}}},
        ),
        (of(a={"type": "boolean", "default": False}), {}, {"a": False}),
    ],
)
def test_what_was_left_out_is_put_in(schema: dict[str, Any], obj: dict[str, Any], then: Any) -> None:
    put(obj, schema)

    assert obj == then


def test_objects_do_not_share_a_default() -> None:
    schema = of(a={"type": "array", "default": []})
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}

    put(one, schema)
    put(other, schema)
    one["a"].append(1)

    assert other == {"a": []}


def test_a_schema_tells_whether_it_has_defaults_anywhere() -> None:
    assert defaulter(of(a={"type": "array", "items": of(b={"default": 1})})) is not None
    assert defaulter(of(a={"type": "array", "items": of(b={})})) is None


def test_defaults_do_not_make_a_small_object_a_large_one() -> None:
    schema = of(a={"type": "array", "items": of(b={**TEXT, "default": "x" * 100_000})})

    with pytest.raises(TooMuch):
        put({"a": [{}] * 50 + [{} for _ in range(10_000)]}, schema)

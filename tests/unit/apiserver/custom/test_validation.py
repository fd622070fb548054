"""Objects against the words of a schema."""

import time
from typing import Any

import pytest

from pykubelet.apiserver.custom.validation import checker, faults

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (TEXT, ["", "x"], [1, None, True, [], {}]),
        (WHOLE, [0, -5, 2.0], [1.5, "1", True]),
        ({"type": "number"}, [0, 1.5], ["1", True]),
        ({"type": "boolean"}, [True], [0, "true"]),
        ({"type": "array", "items": WHOLE}, [[], [1]], [["x"], {}]),
        ({"type": "object"}, [{}], [[], "x"]),
        ({**TEXT, "nullable": True}, [None, "x"], [1]),
        ({"x-kubernetes-int-or-string": True}, [1, "x"], [1.5, True, []]),
        ({"x-kubernetes-preserve-unknown-fields": True}, [1, "x", [], {}], []),
        ({**TEXT, "enum": ["a", "b"]}, ["a"], ["c", ""]),
        ({**WHOLE, "enum": [1, 2]}, [1], [3]),
        ({**TEXT, "pattern": "^a+$"}, ["aa"], ["ab", ""]),
        ({**TEXT, "pattern": "b"}, ["abc"], ["ac"]),
        ({**TEXT, "minLength": 2, "maxLength": 3}, ["äö", "abc"], ["a", "abcd"]),
        ({**WHOLE, "minimum": 1, "maximum": 3}, [1, 3], [0, 4]),
        ({**WHOLE, "minimum": 1, "exclusiveMinimum": True, "maximum": 3, "exclusiveMaximum": True}, [2], [1, 3]),
        ({"type": "number", "multipleOf": 0.1}, [0.3, 2], [0.35]),
        ({**WHOLE, "multipleOf": 3}, [9], [10]),
        ({**WHOLE, "format": "int32"}, [2**31 - 1], [2**31]),
        ({**TEXT, "format": "date-time"}, ["2024-01-01T00:00:00Z"], ["yesterday"]),
        ({**TEXT, "format": "duration"}, ["1h30m"], ["soon"]),
        ({**TEXT, "format": "ipv4"}, ["10.0.0.1"], ["10.0.0", "::1"]),
        ({**TEXT, "format": "ipv6"}, ["::1"], ["10.0.0.1"]),
        ({**TEXT, "format": "cidr"}, ["10.0.0.0/8"], ["10.0.0.1"]),
        ({**TEXT, "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"], ["x"]),
        ({**TEXT, "format": "uri"}, ["https://x.io/a"], ["x"]),
        ({**TEXT, "format": "email"}, ["me@x.io"], ["me"]),
        ({**TEXT, "format": "byte"}, ["YQ=="], ["a!"]),
        ({**TEXT, "format": "date"}, ["2024-02-29"], ["2023-02-29"]),
        ({**TEXT, "format": "hostname"}, ["a.b-c.io"], ["-a"]),
        ({**TEXT, "format": "something-else"}, ["x"], []),
        ({"type": "array", "items": WHOLE, "minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
        ({"type": "object", "minProperties": 1, "maxProperties": 1}, [{"x": 1}], [{}, {"x": 1, "y": 2}]),
        ({"type": "object", "required": ["x"]}, [{"x": None}, {"x": 1}], [{}]),
        ({"type": "object", "additionalProperties": WHOLE}, [{"x": 1}], [{"x": "1"}]),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
            [{"apiVersion": "v1", "kind": "Pod"}],
            [{}, {"kind": "Pod"}, {"apiVersion": "v1", "kind": 1}],
        ),
        ({"type": "object", "additionalProperties": False}, [{}], [{"x": 1}]),
        ({**WHOLE, "allOf": [{"minimum": 1}, {"maximum": 3}]}, [2], [0, 4]),
        ({**WHOLE, "anyOf": [{"minimum": 5}, {"maximum": 3}]}, [6, 2], [4]),
        ({**WHOLE, "oneOf": [{"minimum": 5}, {"maximum": 7}]}, [8, 4], [6]),
        ({**WHOLE, "not": {"enum": [4]}}, [3], [4]),
        ({"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}]}, [{"x": 1}], [{}, {"x": 1, "y": 1}]),
        ({"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}, [["a", "b"]], [["a", "a"]]),
        (
            {
                "type": "array",
                "items": {"type": "object"},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
            [[{"k": 1, "v": 1}, {"k": "1", "v": 1}]],
            [[{"k": 1, "v": 1}, {"k": 1, "v": 2}]],
        ),
    ],
)
def test_words(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    check = checker(of(schema))

    assert [faults(check, {"a": value}) for value in good] == [[]] * len(good)
    assert [value for value in bad if not faults(check, {"a": value})] == []


@pytest.mark.parametrize(
    ("schema", "value", "kind", "place", "said"),
    [
        (WHOLE, "x", "FieldValueTypeInvalid", "a", 'must be of type integer: "string"'),
        ({"type": "object", "required": ["x", "y"]}, {"y": 1}, "FieldValueRequired", "a.x", ""),
        ({**TEXT, "enum": ["p", "q"]}, "r", "FieldValueNotSupported", "a", "must be one of p, q"),
        ({**TEXT, "maxLength": 1}, "ab", "FieldValueTooLong", "a", "may not be more than 1 bytes"),
        ({"type": "array", "maxItems": 1}, [1, 2], "FieldValueTooMany", "a", "must have at most 1 items"),
        (
            {"type": "array", "items": {**WHOLE, "minimum": 3}},
            [3, 2],
            "FieldValueInvalid",
            "a[1]",
            "should be greater than or equal to 3",
        ),
        (
            {"type": "object", "additionalProperties": TEXT},
            {"k": 1},
            "FieldValueTypeInvalid",
            "a.k",
            'must be of type string: "integer"',
        ),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            ["x", "x"],
            "FieldValueDuplicate",
            "a[1]",
            "is used more than once",
        ),
    ],
)
def test_faults_name_their_place(schema: dict[str, Any], value: Any, kind: str, place: str, said: str) -> None:
    (fault,) = faults(checker(of(schema)), {"a": value})

    assert (fault.type, fault.field, fault.detail) == (kind, place, said)


@pytest.mark.parametrize(
    ("new", "count"),
    [
        ({"a": "bad", "b": 1}, 0),
        ({"a": "worse", "b": 0}, 1),
        ({"a": "bad", "b": 0, "l": [{"k": "x", "v": "bad"}, {"k": "y", "v": "GOOD"}]}, 0),
        ({"a": "bad", "b": 0, "l": [{"k": "y", "v": "bad"}]}, 1),
    ],
)
def test_what_an_update_leaves_as_it_was_is_not_looked_at(new: Any, count: int) -> None:
    good = {**TEXT, "pattern": "^[A-Z]+$"}
    item = {"type": "object", "properties": {"k": TEXT, "v": good}}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    schema = {"type": "object", "properties": {"a": good, "b": WHOLE, "l": keyed}}
    old = {"a": "bad", "b": 0, "l": [{"k": "x", "v": "bad"}]}

    assert len(faults(checker(schema), new, old)) == count


def test_a_hostile_pattern_and_hostile_alternatives_end() -> None:
    begun = time.process_time()
    pattern = checker(of({**TEXT, "pattern": "^(a+)+$"}))
    assert faults(pattern, {"a": "a" * 50_000 + "!"})

    wide = checker(of({"type": "array", "items": {**WHOLE, "anyOf": [{"minimum": 5}] * 1000}}))
    (fault,) = faults(wide, {"a": [1] * 10_000})
    assert "too many steps" in fault.detail

    names = [f"n{number}" for number in range(2_000)]
    many = checker(of({"type": "array", "items": {"type": "object", "required": names}}))
    assert len(faults(many, {"a": [{} for _ in range(5_000)]})) == 100

    assert time.process_time() - begun < 5


def test_a_large_object_may_take_more_looks_than_a_small_one() -> None:
    item = {"type": "object", "properties": {name: {**TEXT, "maxLength": 9, "pattern": "^x"} for name in "abcd"}}
    obj = {"a": [dict.fromkeys("abcd", "x") for _ in range(20_000)]}

    assert faults(checker(of({"type": "array", "items": item})), obj) == []


def test_an_alternative_with_very_many_faults_is_one_that_does_not_hold() -> None:
    strict = {"properties": {"l": {"items": {"minimum": 5}}}}
    inner = {"type": "object", "properties": {"l": {"type": "array", "items": WHOLE}}}

    check = checker(of({**inner, "anyOf": [strict]}))
    assert [each.field for each in faults(check, {"a": {"l": [1] * 5_000}})] == ["a"]
    check = checker(of({**inner, "not": strict}))
    assert faults(check, {"a": {"l": [1] * 5_000}}) == []

"""Rules of a schema: where they stand, what they see, what they say, and what may stay as it was."""

from typing import Any

import pytest

from pykubelet.apiserver.cel.program import Budget, CompileError, TooExpensive
from pykubelet.apiserver.custom.rules import rule_faults, rule_tree

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def ruled(schema: dict[str, Any], *rules: str | dict[str, Any]) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": each} if isinstance(each, str) else each for each in rules]}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def faults(schema: dict[str, Any], obj: Any, old: Any = None) -> list[tuple[str, str, str]]:
    tree = rule_tree(schema)
    assert tree is not None
    return [(each.type, each.field, each.detail) for each in rule_faults(tree, obj, old, Budget())]


def test_a_schema_without_rules_costs_nothing() -> None:
    assert rule_tree(an_object(a=TEXT)) is None


@pytest.mark.parametrize(
    ("schema", "obj", "place"),
    [
        (an_object(spec=ruled(an_object(a=WHOLE), "self.a > 1")), {"spec": {"a": 1}}, "spec"),
        (an_object(a=ruled(WHOLE, "self > 1")), {"a": 1}, "a"),
        (an_object(a={"type": "array", "items": ruled(WHOLE, "self > 1")}), {"a": [2, 1]}, "a[1]"),
        (
            an_object(m={"type": "object", "additionalProperties": ruled(WHOLE, "self > 1")}),
            {"m": {"x": 2, "y": 1}},
            "m[y]",
        ),
        (ruled(an_object(a=TEXT), "self.metadata.name == self.a"), {"metadata": {"name": "x"}, "a": "y"}, ""),
        ({**an_object(a=WHOLE), "allOf": [an_object(a=ruled({}, "self > 1"))]}, {"a": 1}, "a"),
    ],
)
def test_a_rule_speaks_of_the_place_where_it_is_written(schema: dict[str, Any], obj: Any, place: str) -> None:
    ((kind, field, detail),) = faults(schema, obj)

    assert (kind, field) == ("FieldValueInvalid", place)
    assert detail.startswith("failed rule: ")


def test_values_have_the_types_of_their_formats() -> None:
    schema = ruled(
        an_object(
            at={"type": "string", "format": "date-time"},
            for_={"type": "string", "format": "duration"},
            bytes_={"type": "string", "format": "byte"},
            day={"type": "string", "format": "date"},
            part={"type": "number"},
            port={"x-kubernetes-int-or-string": True},
            tags={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        ),
        "self.at + self.for_ == timestamp('2024-01-01T01:00:00Z')",
        "self.bytes_ == b'AB' && self.day.getFullYear() == 2024 && self.part / 2.0 == 0.5",
        "type(self.port) == int && self.port == 80",
        "self.tags == ['b', 'a']",
    )
    obj = {
        "at": "2024-01-01T00:00:00Z",
        "for_": "1h",
        "bytes_": "QUI=",
        "day": "2024-05-06",
        "part": 1,
        "port": 80,
        "tags": ["a", "b"],
    }

    assert faults(schema, obj) == []


def test_a_rule_says_what_it_was_told_to_say() -> None:
    schema = an_object(
        spec=ruled(
            an_object(least=WHOLE, most=WHOLE),
            {
                "rule": "self.least <= self.most",
                "message": "least is too large",
                "messageExpression": "'%d is more than %d'.format([self.least, self.most])",
                "reason": "FieldValueForbidden",
                "fieldPath": ".least",
            },
            {"rule": "self.least > 100", "message": " plain ", "messageExpression": "'two\\nlines'"},
        )
    )

    assert faults(schema, {"spec": {"least": 3, "most": 2}}) == [
        ("FieldValueForbidden", "spec.least", "3 is more than 2"),
        ("FieldValueInvalid", "spec", "plain"),
    ]


def test_a_transition_rule_needs_something_to_compare_with() -> None:
    schema = an_object(a=ruled(TEXT, "self == oldSelf"))

    assert faults(schema, {"a": "x"}) == []
    assert faults(schema, {"a": "x"}, {}) == []
    assert faults(schema, {"a": "x"}, {"a": "x"}) == []
    assert len(faults(schema, {"a": "x"}, {"a": "y"})) == 1


def test_an_optional_old_value_is_seen_in_every_write() -> None:
    rule = {"rule": "oldSelf.hasValue() ? self == oldSelf.value() : self == 'first'", "optionalOldSelf": True}
    schema = an_object(a=ruled(TEXT, rule))

    assert faults(schema, {"a": "first"}) == []
    assert len(faults(schema, {"a": "second"})) == 1
    assert len(faults(schema, {"a": "second"}, {"a": "first"})) == 1


def test_items_are_compared_with_those_of_the_same_keys() -> None:
    item = ruled(an_object(k=TEXT, v=TEXT), "self.v == oldSelf.v")
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    old = {"l": [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]}

    assert faults(an_object(l=keyed), {"l": [{"k": "b", "v": "2"}, {"k": "c", "v": "9"}]}, old) == []
    ((_, place, _),) = faults(an_object(l=keyed), {"l": [{"k": "c", "v": "9"}, {"k": "b", "v": "3"}]}, old)
    assert place == "l[1]"


@pytest.mark.parametrize(
    ("obj", "old", "count"),
    [
        ({"a": "bad", "b": "new"}, {"a": "bad", "b": "old"}, 0),
        ({"a": "worse"}, {"a": "bad"}, 1),
        ({"a": "bad"}, None, 1),
        ({"l": ["bad"], "b": "new"}, {"l": ["bad"], "b": "old"}, 0),
        ({"l": ["bad", "good"]}, {"l": ["bad"]}, 1),
    ],
)
def test_what_was_there_before_may_stay(obj: Any, old: Any, count: int) -> None:
    good = ruled(TEXT, "self.startsWith('good')")
    inner = {"type": "array", "items": good, "x-kubernetes-validations": [{"rule": "true"}]}

    assert len(faults(an_object(a=good, b=TEXT, l=inner), obj, old)) == count


def test_a_rule_that_cannot_be_compiled_is_an_error() -> None:
    with pytest.raises(CompileError, match="undefined field"):
        rule_tree(an_object(spec=ruled(an_object(a=TEXT), "self.b == ''")))


def test_rules_on_many_items_end_with_their_budget() -> None:
    schema = an_object(l={"type": "array", "items": ruled(WHOLE, "lists.range(1000).all(x, x >= 0)")})
    tree = rule_tree(schema)
    assert tree is not None

    with pytest.raises(TooExpensive):
        rule_faults(tree, {"l": list(range(1000))}, None, Budget(100_000))

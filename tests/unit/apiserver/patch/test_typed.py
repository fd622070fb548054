"""Objects along their schema: compared, merged, pruned and checked."""

from typing import Any

import pytest
from hypothesis import given, settings

from kit.any_objects import values
from pykubelet.apiserver.patch import typed
from pykubelet.apiserver.patch.errors import INTERNAL, PatchRefused
from pykubelet.apiserver.patch.fields import Fields, shown
from pykubelet.apiserver.schema.catalogue import schema_of
from pykubelet.apiserver.schema.schema import same

POD = schema_of("v1", "Pod")


def names(fields: Fields) -> set[str]:
    return set(map(shown, fields))


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def containers(*names_: str, **fields: Any) -> dict[str, Any]:
    return spec(containers=[{"name": name, **fields} for name in names_])


ITEM = {'.spec.containers[name="a"]'}


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({}, set()),
        (spec(hostname="h"), {".spec.hostname"}),
        (spec(hostname=None), {".spec.hostname"}),
        ({"metadata": {"labels": {}}}, {".metadata.labels"}),
        ({"metadata": {"labels": {"a": "1"}}}, {".metadata.labels.a"}),
        (spec(nodeSelector={"a": "1"}), {".spec.nodeSelector"}),
        (spec(tolerations=[{"key": "k"}]), {".spec.tolerations"}),
        ({"metadata": {"finalizers": ["f"]}}, {'.metadata.finalizers[="f"]'}),
        (containers("a"), {'.spec.containers[name="a"]', '.spec.containers[name="a"].name'}),
        (containers("a", "a"), {'.spec.containers[name="a"]'}),
        ({"future": {"x": [1]}}, {".future", ".future.x"}),
    ],
)
def test_the_fields_that_an_object_gives_a_value_to(value: Any, fields: set[str]) -> None:
    assert names(typed.field_set(value, POD)) == fields


@pytest.mark.parametrize(
    ("one", "other", "removed", "modified", "added"),
    [
        (spec(hostname="h"), spec(hostname="h"), set(), set(), set()),
        (spec(hostname="h"), spec(hostname="i"), set(), {".spec.hostname"}, set()),
        (spec(hostname="h"), spec(), {".spec.hostname"}, set(), set()),
        (spec(), spec(hostname="h"), set(), set(), {".spec.hostname"}),
        (containers("a", image="1"), containers("a", image="2"), set(), {'.spec.containers[name="a"].image'}, set()),
        (
            containers("a", "b"),
            containers("b"),
            {'.spec.containers[name="a"]', '.spec.containers[name="a"].name'},
            set(),
            set(),
        ),
        (containers("a", "b"), containers("b", "a"), set(), set(), set()),
        (containers("a", "a"), containers("a"), ITEM, set(), ITEM | {'.spec.containers[name="a"].name'}),
        (containers("a", "a"), containers("a", "a", image="i"), set(), ITEM, set()),
        (spec(nodeSelector={"a": "1"}), spec(nodeSelector={"b": "1"}), set(), {".spec.nodeSelector"}, set()),
        ({"x": {"y": 1}}, {"x": 2}, {".x.y"}, {".x"}, set()),
    ],
)
def test_what_makes_one_object_the_other(
    one: Any, other: Any, removed: set[str], modified: set[str], added: set[str]
) -> None:
    change = typed.compared(one, other, POD)
    assert (names(change.removed), names(change.modified), names(change.added)) == (removed, modified, added)


@pytest.mark.parametrize(
    ("live", "applied", "result"),
    [
        (containers("a"), containers("b"), containers("a", "b")),
        (containers("a", "b", "c"), containers("c", "a"), containers("b", "c", "a")),
        (containers("a", image="1"), containers("a"), containers("a", image="1")),
        (spec(nodeSelector={"a": "1"}), spec(nodeSelector={"b": "1"}), spec(nodeSelector={"b": "1"})),
        (spec(hostname="h"), spec(hostname=None), spec(hostname=None)),
        ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": None}}, {"metadata": {"labels": {"a": "1"}}}),
        ({"future": {"a": [1]}}, {"future": {"b": 1}}, {"future": {"a": [1], "b": 1}}),
    ],
)
def test_the_live_object_with_all_that_is_applied(live: Any, applied: Any, result: Any) -> None:
    assert typed.merged(live, applied, POD) == result


def test_fields_are_taken_out_and_what_that_leaves_empty_stays() -> None:
    value = {"metadata": {"labels": {"a": "1"}}, **containers("a", "b", image="i")}
    some = typed.field_set({"metadata": {"labels": {"a": "1"}}, **containers("a")}, POD)
    assert typed.removed(value, some, POD) == {"metadata": {"labels": {}}, **containers("b", image="i")}
    image: Fields = frozenset({("f:spec", "f:containers", 'k:{"name":"a"}', "f:image")})
    assert typed.removed(containers("a", image="i"), image, POD) == containers("a")


def test_the_structs_that_fields_are_in_are_named_with_them_but_not_lists_and_maps() -> None:
    some = typed.field_set({"metadata": {"labels": {"a": "1"}}, **containers("a")}, POD)
    assert names(typed.with_named_fields(some, POD) - some) == {
        ".metadata",
        ".metadata.labels",
        ".spec",
        ".spec.containers",
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"bogus": 1}, r"\.bogus: field not declared in schema"),
        (spec(containers={}), r"\.spec\.containers: expected list, got a map"),
        (spec(containers=["a"]), r"\.spec\.containers: element 0: .* may not have non-map elements"),
        ({"spec": "x"}, r"\.spec: expected map, got a string"),
        (spec(hostNetwork="yes"), r"\.spec\.hostNetwork: expected boolean, got a string"),
        (spec(terminationGracePeriodSeconds=True), r"expected integer, got a boolean"),
        (spec(hostname=["h"]), r"\.spec\.hostname: expected string, got a list"),
        (containers("a", "a"), r'\.spec\.containers: duplicate entries for key \[name="a"\]'),
        ({"metadata": {"finalizers": [{}]}}, r"has an element that is not a plain value"),
        (containers("a", image=1), r'\.spec\.containers\[name="a"\]\.image: expected string, got a number'),
    ],
)
def test_what_does_not_fit_its_type_is_refused_with_the_place(value: Any, message: str) -> None:
    with pytest.raises(PatchRefused, match=message) as caught:
        typed.check(value, POD)
    assert caught.value.code == INTERNAL


@pytest.mark.parametrize("value", [None, {}, spec(hostname=None), containers("a", "b"), spec(overhead={"cpu": 1})])
def test_what_fits_its_type_is_taken(value: Any) -> None:
    typed.check(value, POD)


@settings(max_examples=100, deadline=None)
@given(one=values(POD), other=values(POD))
def test_a_comparison_is_empty_for_equals_and_mirrored_when_turned_around(one: Any, other: Any) -> None:
    try:
        there, back = typed.compared(one, other, POD), typed.compared(other, one, POD)
    except PatchRefused:
        return
    assert not any(typed.compared(one, one, POD))
    assert there.modified == back.modified
    if same(one, other):
        assert not any(there)


@settings(max_examples=100, deadline=None)
@given(live=values(POD), applied=values(POD))
def test_what_was_merged_holds_all_that_was_applied_and_merging_again_changes_nothing(live: Any, applied: Any) -> None:
    try:
        typed.check(live, POD)
        typed.check(applied, POD)
        merged = typed.merged(live, applied, POD)
    except PatchRefused:
        return
    assert same(typed.merged(merged, applied, POD), merged)
    change = typed.compared(applied, merged, POD)
    assert not change.removed
    assert not change.modified

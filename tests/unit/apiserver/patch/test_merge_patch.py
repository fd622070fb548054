"""Merge patches: the table of RFC 7396, and the laws that follow from it."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.any_objects import ANY
from kit.nested import nested
from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.merge_patch import apply_merge_patch
from pykubelet.apiserver.schema.schema import Json

OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "name"]), ANY, max_size=3)


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": {"e": None}}}, {"a": {"c": 2, "d": {}}}),
        ({"a": "text"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": 1}, {"b": [None]}, {"a": 1, "b": [None]}),
    ],
)
def test_a_merge_patch_looks_like_the_change(original: Any, patch: Any, result: Any) -> None:
    given_ = copy.deepcopy((original, patch))
    assert apply_merge_patch(original, patch) == result
    assert (original, patch) == given_


def test_a_merge_patch_must_be_an_object() -> None:
    with pytest.raises(PatchRefused, match="Invalid JSON Patch"):
        apply_merge_patch({}, [])


def test_a_merge_patch_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(PatchRefused, match="nested too deeply"):
        apply_merge_patch({}, nested(50_000))


def without_nulls(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}


@given(original=ANY, patch=OBJECTS)
def test_the_same_patch_twice_is_the_same_as_once(original: Json, patch: Json) -> None:
    once = apply_merge_patch(original, patch)
    assert apply_merge_patch(once, patch) == once


@given(patch=OBJECTS)
def test_a_patch_of_nothing_is_the_patch_without_its_nulls(patch: Json) -> None:
    assert apply_merge_patch({}, patch) == without_nulls(patch)
    assert apply_merge_patch(patch, {}) == patch


@given(original=OBJECTS, patch=OBJECTS)
def test_a_patch_decides_about_the_members_that_it_names_and_no_others(original: Json, patch: Json) -> None:
    before = copy.deepcopy((original, patch))
    result = apply_merge_patch(original, patch)
    assert (original, patch) == before
    assert {key: result[key] for key in result if key not in patch} == {
        key: original[key] for key in original if key not in patch
    }
    for key, wanted in patch.items():
        if wanted is None:
            assert key not in result
        elif isinstance(wanted, dict):
            assert result[key] == apply_merge_patch(original.get(key), wanted)
        else:
            assert result[key] == wanted

"""Strategic merge patches: what they do, and what they refuse."""

import copy
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.any_objects import values
from kit.nested import nested
from pykubelet.apiserver.patch import typed
from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.strategic_merge import apply_strategic_merge_patch
from pykubelet.apiserver.schema.catalogue import schema_of
from pykubelet.apiserver.schema.schema import ANYTHING

POD = schema_of("v1", "Pod")


def merged(original: Any, patch: Any) -> Any:
    return apply_strategic_merge_patch(original, patch, POD)


def test_containers_are_merged_by_name_and_tolerations_replaced() -> None:
    original = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "tolerations": [{"key": "k"}]}}
    patch = {"spec": {"containers": [{"name": "a", "image": "2"}, {"name": "c"}], "tolerations": [{"key": "l"}]}}
    assert merged(original, patch)["spec"] == {
        "containers": [{"name": "a", "image": "2"}, {"name": "c"}, {"name": "b"}],
        "tolerations": [{"key": "l"}],
    }


def test_directives_replace_and_delete() -> None:
    original = {
        "metadata": {"labels": {"a": "1"}},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "hostname": "h"},
    }
    assert merged(original, {"metadata": {"labels": {"$patch": "replace", "b": "2"}}})["metadata"]["labels"] == {
        "b": "2"
    }
    assert merged(original, {"metadata": {"labels": {"$patch": "delete"}}})["metadata"]["labels"] == {}
    gone = merged(original, {"spec": {"containers": [{"$patch": "delete", "name": "a"}]}})
    assert gone["spec"]["containers"] == [{"name": "b"}]
    new = merged(original, {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}})
    assert new["spec"]["containers"] == [{"name": "c"}]


def test_plain_values_are_added_deleted_and_ordered() -> None:
    original = {"metadata": {"finalizers": ["a", "b"]}}
    added = merged(original, {"metadata": {"finalizers": ["c", "a"]}})
    assert sorted(added["metadata"]["finalizers"]) == ["a", "b", "c"]
    deleted = merged(original, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}})
    assert deleted["metadata"]["finalizers"] == ["b"]
    ordered = merged(original, {"metadata": {"$setElementOrder/finalizers": ["b", "a"]}})
    assert ordered["metadata"]["finalizers"] == ["b", "a"]


def test_retained_keys_are_the_only_ones_that_stay() -> None:
    original = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {"spec": {"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/"}}]}}
    assert merged(original, patch)["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/"}}]


def test_fields_that_no_type_knows_are_merged_and_kept() -> None:
    original = {"spec": {"future": {"a": [1], "b": 2}}, "more": 1}
    assert merged(original, {"spec": {"future": {"b": None, "c": {}}}}) == {
        "spec": {"future": {"a": [1], "c": {}}},
        "more": 1,
    }


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ([], "invalid JSON document"),
        ({"metadata": {"labels": {"$patch": "steal"}}}, "unknown patch type: steal"),
        ({"spec": {"containers": [{"image": "x"}]}}, "does not contain declared merge key: name"),
        ({"spec": {"containers": [{"$patch": "delete"}]}}, "does not contain declared merge key: name"),
        ({"spec": {"containers": [{"$patch": "merge", "name": "a"}]}}, "merging lists cannot yet be specified"),
        ({"spec": {"containers": ["a"]}}, "list element types are not identical"),
        ({"spec": {"$setElementOrder/containers": 1}}, "invalid patch format of setElementOrder list"),
        ({"spec": {"$setElementOrder/containers": [{"name": "z"}], "containers": [{"name": "a"}]}}, "doesn't match"),
        ({"spec": {"$retainKeys": 1}}, "invalid patch format of retainKeys"),
        ({"spec": {"$deleteFromPrimitiveList": ["a"]}}, "invalid patch format of primitive list"),
    ],
)
def test_a_strategic_merge_patch_that_contradicts_itself_is_refused(patch: Any, message: str) -> None:
    original = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "a"}]}}
    with pytest.raises(PatchRefused) as caught:
        merged(original, patch)
    assert message in str(caught.value)


def test_kinds_without_a_type_take_no_strategic_merge_patch() -> None:
    with pytest.raises(PatchRefused, match="strategic merge patch format is not supported"):
        apply_strategic_merge_patch({}, {}, ANYTHING)


def test_a_patch_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(PatchRefused, match="nested too deeply"):
        merged({}, nested(50_000))


def test_long_lists_take_no_longer_than_they_must() -> None:
    names = [f"example.com/{number}" for number in range(20_000)]
    started = time.monotonic()
    result = merged({"metadata": {"finalizers": names}}, {"metadata": {"finalizers": names[::-1]}})
    assert len(result["metadata"]["finalizers"]) == len(names)
    assert time.monotonic() - started < 20, "comparing each with each would take minutes"


_KEYS = st.sampled_from(
    ["spec", "metadata", "containers", "name", "labels", "finalizers", "$patch", "$retainKeys", "volumes"]
    + [
        f"${directive}/{name}"
        for directive in ("setElementOrder", "deleteFromPrimitiveList")
        for name in ("containers", "finalizers")
    ]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "b", "delete", "replace", "name"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=4), st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_any_strategic_merge_patch_is_done_or_refused(original: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((original, patch))
    with suppress(PatchRefused):
        merged(original, patch)
    assert (original, patch) == before


@settings(max_examples=100, deadline=None)
@given(original=values(POD), patch=values(POD))
def test_what_a_patch_sets_is_there_afterwards_and_the_same_patch_again_changes_nothing(
    original: dict[str, Any], patch: dict[str, Any]
) -> None:
    try:
        typed.check(patch, POD)  # or it would name the items of a list twice
        once = merged(original, patch)
        again = merged(once, patch)
    except PatchRefused:
        return
    assert again == once
    for name, value in patch.items():
        if not isinstance(value, dict | list):
            assert once[name] == value
    assert all(once[name] == value for name, value in original.items() if name not in patch)

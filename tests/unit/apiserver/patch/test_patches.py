"""JSON patches, merge patches and strategic merge patches: what they do, and what they refuse."""

import copy
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.json_patch import apply_json_patch
from pykubelet.apiserver.patch.merge_patch import apply_merge_patch
from pykubelet.apiserver.patch.strategic_merge import apply_strategic_merge_patch
from pykubelet.apiserver.schema.catalogue import schema_of
from pykubelet.apiserver.schema.schema import ANYTHING

POD = schema_of("v1", "Pod")


def operation(op: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "path": path, **more}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


# --- JSON patches


@pytest.mark.parametrize(
    ("original", "operations", "result"),
    [
        ({}, [operation("add", "/a", value=1)], {"a": 1}),
        ({"a": [1, 3]}, [operation("add", "/a/1", value=2)], {"a": [1, 2, 3]}),
        ({"a": [1]}, [operation("add", "/a/-", value=2)], {"a": [1, 2]}),
        ({"a": [1]}, [operation("add", "/a/1", value=2)], {"a": [1, 2]}),
        ({"a": [1, 2]}, [operation("remove", "/a/-1")], {"a": [1]}),
        ({"a/b": {"m~n": 1}}, [operation("remove", "/a~1b/m~0n")], {"a/b": {}}),
        ({"~1": 1}, [operation("remove", "/~01")], {}),
        ({"a": {"b": 1}}, [operation("replace", "/a/b", value=None)], {"a": {"b": None}}),
        ({"a": 1}, [operation("replace", "", value={"b": 2})], {"b": 2}),
        ({"a": {"b": 1}}, [operation("move", "/c", **{"from": "/a/b"})], {"a": {}, "c": 1}),
        (
            {"a": [1]},
            [operation("copy", "/b", **{"from": "/a"}), operation("add", "/b/-", value=2)],
            {"a": [1], "b": [1, 2]},
        ),
        ({"a": 1}, [operation("test", "/a", value=1), operation("test", "/b", value=None)], {"a": 1}),
    ],
)
def test_operations_do_what_the_standard_says(original: Any, operations: list[Any], result: Any) -> None:
    given_ = copy.deepcopy((original, operations))
    assert apply_json_patch(original, operations) == result
    assert (original, operations) == given_


@pytest.mark.parametrize(
    ("original", "operations", "code", "message"),
    [
        ({}, {"op": "add"}, 400, "a JSON patch is a list of operations"),
        ({}, [1], 400, "a JSON patch is a list of operations"),
        ({}, [operation("bogus", "/a")], 422, "Unexpected kind: bogus"),
        ({}, [{"path": "/a"}], 422, "Unexpected kind: unknown"),
        ({}, [{"op": "remove"}], 422, "remove operation failed to decode path: missing value"),
        ({}, [operation("add", "/a")], 422, "missing value field"),
        ({}, [operation("remove", "/a")], 422, "error in remove for path: '/a': Unable to remove nonexistent key: a"),
        ({}, [operation("add", "/a/b", value=1)], 422, 'add operation does not apply: doc is missing path: "/a/b"'),
        ({}, [operation("replace", "/a", value=1)], 422, "replace operation does not apply: doc is missing key: /a"),
        ({"a": [1]}, [operation("add", "/a/2", value=1)], 422, "Unable to access invalid index: 2"),
        ({"a": [1]}, [operation("remove", "/a/x")], 422, "value was not a proper array index: 'x'"),
        ({"a": True}, [operation("test", "/a", value=1)], 422, "testing value /a failed: test failed"),
        ({"a": {}}, [operation("move", "/a/b", **{"from": "/a"})], 422, "lies inside of"),
        ({}, [operation("remove", "a")], 422, "doc is missing path"),
    ],
)
def test_an_operation_that_cannot_be_done_is_refused(original: Any, operations: Any, code: int, message: str) -> None:
    with pytest.raises(PatchRefused) as caught:
        apply_json_patch(original, operations)
    assert message in str(caught.value)
    assert caught.value.code == code


def test_a_patch_is_done_as_a_whole_or_not_at_all() -> None:
    original = {"a": 1}
    with pytest.raises(PatchRefused):
        apply_json_patch(original, [operation("remove", "/a"), operation("test", "/a", value=1)])
    assert original == {"a": 1}


def test_too_many_operations_are_too_large() -> None:
    with pytest.raises(PatchRefused, match="maximum operations in a JSON patch is 10000, got 10001") as caught:
        apply_json_patch({}, [operation("add", "/a", value=1)] * 10_001)
    assert caught.value.code == 413


def test_copies_cannot_grow_an_object_without_end() -> None:
    double = [operation("copy", "/a/-", **{"from": "/a"})] * 60
    with pytest.raises(PatchRefused, match="exceeding the limit 3145728"):
        apply_json_patch({"a": ["x" * 100]}, double)


# --- merge patches


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": None}, {}),
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


# --- strategic merge patches


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
    deep = nested(50_000)
    with pytest.raises(PatchRefused, match="nested too deeply"):
        merged({}, deep)
    with pytest.raises(PatchRefused, match="nested too deeply"):
        apply_merge_patch({}, deep)
    with pytest.raises(PatchRefused, match="nested too deeply"):
        apply_json_patch({}, [operation("add", "/a", value=deep)])


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

"""JSON patches: what they do, what they refuse, and that they do what the `jsonpatch` library does."""

import copy
import time
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.any_objects import ANY
from kit.nested import nested
from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.json_patch import apply_json_patch
from pykubelet.apiserver.schema.schema import Json, same


def operation(op: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "path": path, **more}


@pytest.mark.parametrize(
    ("original", "operations", "result"),
    [
        ({}, [operation("add", "/a", value=1)], {"a": 1}),
        ({"a": [1, 3]}, [operation("add", "/a/1", value=2)], {"a": [1, 2, 3]}),
        ({"a": [1]}, [operation("add", "/a/-", value=2)], {"a": [1, 2]}),
        ({"a": [1]}, [operation("add", "/a/1", value=2)], {"a": [1, 2]}),
        ({"a": [1, 2]}, [operation("remove", "/a/-1")], {"a": [1]}),
        ({"a": [1, 3]}, [operation("add", "/a/-2", value=2)], {"a": [1, 2, 3]}),
        ({"a": [1, 2]}, [operation("replace", "/a/-2", value=0)], {"a": [0, 2]}),
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
        ({"a": 1}, [operation("test", "", value={"a": 1.0})], {"a": 1}),
        ({"a": [1, 2, 3]}, [operation("move", "/a/2", **{"from": "/a/0"})], {"a": [2, 3, 1]}),
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
        ({}, [operation("bogus", "/a")], 422, "'bogus' is no operation"),
        ({}, [{"path": "/a"}], 422, "None is no operation"),
        ({}, [{"op": ["add"], "path": "/a", "value": 1}], 422, "['add'] is no operation"),
        ({}, [{"op": "remove"}], 422, "'remove' is no operation, or lacks something that it needs"),
        ({}, [{"op": "remove", "path": 1}], 422, "'remove' is no operation, or lacks something that it needs"),
        ({}, [operation("add", "/a")], 422, "'add' is no operation, or lacks something that it needs"),
        ({"a": 1}, [operation("copy", "/b")], 422, "'copy' is no operation, or lacks something that it needs"),
        ({}, [operation("remove", "/a")], 422, "there is no /a"),
        ({}, [operation("add", "/a/b", value=1)], 422, "there is no place '/a/b'"),
        ({"a": "text"}, [operation("add", "/a/0", value=1)], 422, "there is no place '/a/0'"),
        ({}, [operation("replace", "/a", value=1)], 422, "there is no /a"),
        ({}, [operation("replace", "", value=1)], 422, "there is no place ''"),
        ({}, [operation("add", "", value={})], 422, "there is no place ''"),
        ({"a": 1}, [operation("remove", "")], 422, "there is no place ''"),
        ({"a": [1]}, [operation("add", "/a/2", value=1)], 422, "there is no item 2 among 2"),
        ({"a": [1]}, [operation("add", "/a/-3", value=1)], 422, "there is no item -3 among 2"),
        ({"a": [1]}, [operation("remove", "/a/-")], 422, "'-' is no index of a list"),
        ({"a": [1]}, [operation("remove", "/a/x")], 422, "'x' is no index of a list"),
        ({"a": [1]}, [operation("test", "/a/1", value=None)], 422, "there is no item 1 among 1"),
        ({"a": True}, [operation("test", "/a", value=1)], 422, "/a is something else: test failed"),
        ({}, [operation("test", "/a/b", value=None)], 422, "there is no place '/a/b'"),
        ({"a": {}}, [operation("move", "/a/b", **{"from": "/a"})], 422, "lies inside of"),
        ({}, [operation("move", "/b", **{"from": "/a"})], 422, "there is no /a"),
        ({}, [operation("remove", "a")], 422, "there is no place 'a'"),
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


def test_a_patch_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(PatchRefused, match="nested too deeply"):
        apply_json_patch({}, [operation("add", "/a", value=nested(50_000))])


def test_moves_that_nest_an_object_without_end_are_refused() -> None:
    names: Json = {f"n{number}": {} for number in range(300)}
    into_each_other = [operation("move", f"/n{number + 1}/x", **{"from": f"/n{number}"}) for number in range(299)]
    with pytest.raises(PatchRefused, match="leaves an object that is nested too deeply"):
        apply_json_patch(names, into_each_other)


def test_as_many_insertions_into_a_long_list_as_there_may_be_take_no_longer_than_they_must() -> None:
    started = time.monotonic()
    result = apply_json_patch({"a": [0] * 100_000}, [operation("add", "/a/-1", value=1)] * 10_000)
    assert len(result["a"]) == 110_000
    assert time.monotonic() - started < 5, "copying the list for each would take longer"


_PARTS = st.sampled_from(["a", "b", "name", "0", "1", "2", "-"])
_PATHS = st.lists(_PARTS, min_size=1, max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts))
_OPERATIONS = st.one_of(
    st.fixed_dictionaries({"op": st.sampled_from(["add", "replace"]), "path": _PATHS, "value": ANY}),
    st.fixed_dictionaries(
        {"op": st.just("test"), "path": _PATHS, "value": ANY.filter(lambda value: value is not None)}
    ),
    st.fixed_dictionaries({"op": st.just("remove"), "path": _PATHS}),
    st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "from": _PATHS, "path": _PATHS}),
)
"""Without what is ours alone: the whole document as a place, and a test for null of what is not there."""
_OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "name"]), ANY, max_size=3)


@settings(max_examples=200, deadline=None)
@given(document=_OBJECTS, operations=st.lists(_OPERATIONS, min_size=1, max_size=6))
def test_an_operation_is_done_or_refused_as_the_library_does_or_refuses_it(
    document: Json, operations: list[Any]
) -> None:
    for each in operations:
        before = copy.deepcopy((document, each))
        try:
            expected = jsonpatch.apply_patch(document, [each])
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
            with pytest.raises(PatchRefused):
                apply_json_patch(document, [each])
            expected = document
        else:
            assert same(apply_json_patch(document, [each]), expected)
        assert (document, each) == before
        document = expected

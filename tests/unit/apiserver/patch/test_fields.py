"""Sets of fields: how they are spelled, read and put in order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.patch import fields
from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.fields import Path


@pytest.mark.parametrize(
    ("paths", "tree"),
    [
        (set(), {}),
        ({("f:spec",)}, {"f:spec": {}}),
        ({("f:spec", "f:a")}, {"f:spec": {"f:a": {}}}),
        ({("f:spec",), ("f:spec", "f:a")}, {"f:spec": {".": {}, "f:a": {}}}),
        (
            {("f:list", 'k:{"name":"a"}'), ("f:list", 'k:{"name":"a"}', "f:name"), ("f:list", 'v:"x"')},
            {"f:list": {'k:{"name":"a"}': {".": {}, "f:name": {}}, 'v:"x"': {}}},
        ),
    ],
)
def test_a_set_of_fields_is_written_as_a_tree_and_read_again(paths: set[Path], tree: dict[str, Any]) -> None:
    assert fields.encoded(frozenset(paths)) == tree
    assert fields.decoded(tree) == paths


def test_in_a_tree_fields_come_first_then_items_by_key_by_value_and_by_index() -> None:
    mixed = frozenset({("i:0",), ("v:1",), ('k:{"b":1}',), ('k:{"a":1}',), ("f:z",), ("f:a",)})
    assert list(fields.encoded(mixed)) == ["f:a", "f:z", 'k:{"a":1}', 'k:{"b":1}', "v:1", "i:0"]


@pytest.mark.parametrize(
    ("element", "spelled"),
    [
        ('k:{"protocol":"TCP", "containerPort":80}', 'k:{"containerPort":80,"protocol":"TCP"}'),
        ('k:{"name": "a"}', 'k:{"name":"a"}'),
        ('v: "x"', 'v:"x"'),
        ('v:"<&>"', 'v:"\\u003c\\u0026\\u003e"'),
        ("f:any thing", "f:any thing"),
        ("i:3", "i:3"),
    ],
)
def test_equal_elements_are_spelled_alike_whoever_wrote_them(element: str, spelled: str) -> None:
    assert fields.decoded({element: {}}) == {(spelled,)}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"f:a": 1}, "must be a tree of objects"),
        ([], "must be a tree of objects"),
        ({"spec": {}}, "must begin with f:, k:, v: or i:"),
        ({"k:name": {}}, "needs JSON after the colon"),
        ({"k:1": {}}, "needs JSON after the colon"),
        ({"v:": {}}, "needs JSON after the colon"),
    ],
)
def test_what_is_no_set_of_fields_is_refused(tree: Any, message: str) -> None:
    with pytest.raises(PatchRefused, match=message):
        fields.decoded(tree)


def test_what_is_given_out_is_nobody_elses() -> None:
    mine = fields.encoded(frozenset({("f:a", "f:b")}))
    mine["f:a"]["f:c"] = {}
    assert fields.encoded(frozenset({("f:a", "f:b")})) == {"f:a": {"f:b": {}}}


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (("f:spec", "f:containers", 'k:{"name":"web"}', "f:image"), '.spec.containers[name="web"].image'),
        (("f:ports", 'k:{"containerPort":80,"protocol":"TCP"}'), '.ports[containerPort=80,protocol="TCP"]'),
        (("f:finalizers", 'v:"a"'), '.finalizers[="a"]'),
        (("f:list", "i:3"), ".list[3]"),
    ],
)
def test_a_field_as_a_person_reads_it(path: Path, shown: str) -> None:
    assert fields.shown(path) == shown


_ELEMENTS = st.one_of(
    st.sampled_from("abc").map(fields.field),
    st.dictionaries(st.sampled_from("kl"), st.sampled_from(["<", 1, True]), min_size=1).map(fields.keys),
    st.sampled_from(["x", 2, False]).map(fields.value),
)
_SETS = st.frozensets(st.lists(_ELEMENTS, min_size=1, max_size=4).map(tuple), max_size=8)


@given(some=_SETS)
def test_any_set_is_the_same_after_it_was_written_and_read(some: frozenset[Path]) -> None:
    assert fields.decoded(fields.encoded(some)) == some


@given(some=_SETS)
def test_in_order_outer_fields_come_before_what_is_in_them(some: frozenset[Path]) -> None:
    found = fields.in_order(some)
    assert len(found) == len(some)
    for place, path in enumerate(found):
        assert not any(later == path[: len(later)] for later in found[place + 1 :])

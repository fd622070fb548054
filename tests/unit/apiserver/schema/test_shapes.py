"""A quick yes for what fits its type has to be the answer that a thorough look would give."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.any_objects import ANY, values
from pykubelet.apiserver.schema.catalogue import catalogue, schema_of
from pykubelet.apiserver.schema.misfits import misfits
from pykubelet.apiserver.schema.schema import Json, empty, unknown_fields
from pykubelet.apiserver.schema.shapes import fits

POD = schema_of("v1", "Pod")


@settings(max_examples=300, deadline=None)
@given(obj=values(POD), change=st.tuples(st.sampled_from(["metadata", "spec", "status", "bogus"]), ANY))
def test_a_quick_yes_is_given_only_to_what_is_right(obj: dict[str, Any], change: tuple[str, Json]) -> None:
    obj[change[0]] = change[1]
    if fits(obj, POD):
        assert list(misfits(obj, POD, "")) == []
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

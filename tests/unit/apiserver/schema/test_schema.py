import json

from hypothesis import given

from kit.any_objects import ANY
from pykubelet.apiserver.schema.schema import Json, copied, same


@given(one=ANY, other=ANY)
def test_values_are_the_same_if_their_texts_are(one: Json, other: Json) -> None:
    def text(value: Json) -> str:
        return json.dumps(value, sort_keys=True).replace("1.0", "1")

    assert same(one, other) == (text(one) == text(other))
    assert same(one, copied(one))

import json

import pytest

from pykubelet.apiserver.requests.surrogates import whole


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (rb'{"a":"plain"}', "plain"),
        (rb'{"a":"\ud83d\ude00"}', "\U0001f600"),
        (rb'{"a":"\ud800"}', "\ufffd"),
        (rb'{"a":"\udc00x"}', "\ufffdx"),
        (rb'{"a":"\ud800\ud83d\ude00"}', "\ufffd\U0001f600"),
        (rb'{"a":"\\ud800"}', r"\ud800"),
        (rb'{"a":"\\\ud800"}', "\\\ufffd"),
        (rb'{"a":"\uDBFF\n\uDFFF"}', "\ufffd\n\ufffd"),
        (rb'{"a":"\u00e9"}', "é"),
    ],
)
def test_halves_of_characters_are_replaced_and_whole_ones_are_kept(given: bytes, wanted: str) -> None:
    assert json.loads(whole(given)) == {"a": wanted}


def test_what_holds_none_is_the_same_bytes() -> None:
    data = rb'{"a":"\u00e9\\"}'
    assert whole(data) is data

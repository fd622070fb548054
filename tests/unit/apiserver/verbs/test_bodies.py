import json

import pytest

from pykubelet.apiserver.verbs.bodies import _without_loss


@pytest.mark.parametrize(
    ("text", "is_sure"),
    [
        ('{"a": 1, "b": [true, null, "\\u00e9", 1.5]}', False),
        ('{"a": 1, "b": [true, null, "é", 1.5]}', True),
        ('{"a": 1, "a": 1}', False),
        ('{"x": {"a": 1, "a": {}}}', False),
        ('{"a": 1e2}', False),
        ('{"a": ', False),
    ],
)
def test_a_text_is_taken_quickly_only_if_nothing_is_there_twice(text: str, is_sure: bool) -> None:
    assert _without_loss(text.encode()) == json.loads(text) if is_sure else _without_loss(text.encode()) is None

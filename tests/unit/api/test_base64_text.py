"""Base64 as people wrap it, and as they get it wrong."""

from typing import Any

import pytest

from pykubelet.api.base64_text import with_canonical_bytes
from pykubelet.api.codec import DecodeError


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ""),
        ("YWJjZGVm", "YWJjZGVm"),
        ("YWJj\nZGVm\n", "YWJjZGVm"),
        ("YW\r\nJjZA=\n=\n", "YWJjZA=="),
        ("YWJjZB==", "YWJjZA=="),  # what is left over of the last digit says nothing
    ],
)
def test_lines_may_break_anywhere_and_one_form_is_kept(text: str, kept: str) -> None:
    given = {"kind": "Secret", "data": {"k": text, "null": None}}
    assert with_canonical_bytes(given, "data") == {"kind": "Secret", "data": {"k": kept, "null": None}}
    assert given["data"] == {"k": text, "null": None}


@pytest.mark.parametrize(
    ("text", "byte"),
    [
        ("top!secret", 3),
        ("YWJj ZGVm", 4),  # a break of a line is none of a word
        ("YWJj\tZGVm", 4),
        ("YWJjZA", 4),
        ("YWJj\nZA", 5),
        ("YWJj-_==", 4),
        ("YQ==YQ==", 2),
        ("é", 0),
    ],
)
def test_what_is_none_names_its_key_and_place(text: str, byte: int) -> None:
    with pytest.raises(DecodeError) as caught:
        with_canonical_bytes({"data": {"good": "YQ==", ".dockercfg": text}}, "data")
    assert str(caught.value) == f"data[.dockercfg]: illegal base64 data at input byte {byte}"


@pytest.mark.parametrize("data", [None, [], "text", {"k": 1}])
def test_what_is_no_map_of_texts_is_left_to_others(data: Any) -> None:
    assert with_canonical_bytes({"data": data}, "data") == {"data": data}

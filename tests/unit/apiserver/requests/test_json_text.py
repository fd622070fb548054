"""JSON within bounds."""

import json

import msgspec
import pytest

from pykubelet.apiserver.requests.json_text import MOST_NESTS, check_amount, is_hard, read_json


def test_the_patient_reader_reads_what_the_quick_one_reads() -> None:
    value = {"a": [1, -2, 3.5, 1e300, True, None, 'é\n"\\'], "b": {"c": []}, "n": [1.25e-7] * 1000}
    data = json.dumps(value).encode()
    assert is_hard(data)
    assert read_json(data) == msgspec.json.decode(data) == value


@pytest.mark.parametrize("nest", ["[]", "{}", '{"a":1}'])
def test_more_lists_and_maps_than_can_be_borne_are_refused_unread(nest: str) -> None:
    check_amount(b"[" + b",".join([nest.encode()] * (MOST_NESTS - 1)) + b"]")
    with pytest.raises(ValueError, match="more than 100,000 lists and maps"):
        check_amount(b"[" + b",".join([nest.encode()] * MOST_NESTS) + b"]")


def test_brackets_in_texts_do_not_count() -> None:
    data = json.dumps({"a": '["' * MOST_NESTS}).encode()
    assert read_json(data) == {"a": '["' * MOST_NESTS}


@pytest.mark.parametrize(
    ("number", "why"),
    [("9" * 4000, "too long"), ("1e999", "too large"), ("NaN", "no number"), ("-Infinity", "no number")],
)
def test_what_is_no_number_is_refused_among_hard_ones_too(number: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_json(f"[{'1e300,' * 1000}{number}]".encode())
    with pytest.raises(ValueError, match="invalid"):
        read_json(b"[NaN]")


def test_far_exponents_take_no_longer_than_other_text() -> None:
    data = b"[" + b",".join([b"1e308"] * 50_000) + b"]"
    assert is_hard(data)
    assert read_json(data) == [1e308] * 50_000

"""The parameters of lists and writes."""

import pytest

from pykubelet.apiserver.requests.options import continue_token, list_options, parse_token, write_options
from pykubelet.apiserver.status import ApiError


@pytest.mark.parametrize(
    ("query", "verb", "field"),
    [
        ({"resourceVersionMatch": "Exact"}, "list", "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "list", "resourceVersionMatch"),
        ({"resourceVersionMatch": "Roughly", "resourceVersion": "5"}, "list", "resourceVersionMatch"),
        ({"sendInitialEvents": "true"}, "list", "sendInitialEvents"),
        ({"sendInitialEvents": "true"}, "watch", "resourceVersionMatch"),
        ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"}, "watch", "resourceVersionMatch"),
    ],
)
def test_options_that_contradict_each_other_are_refused(query: dict[str, str], verb: str, field: str) -> None:
    with pytest.raises(ApiError) as raised:
        list_options(query, verb)
    assert raised.value.code == 422
    assert field in [cause["field"] for cause in (raised.value.details or {})["causes"]]


def test_a_token_says_where_the_next_page_begins() -> None:
    token = parse_token(continue_token(12, "default/web\0"))
    assert (token.rv, token.start) == (12, "default/web\0")


@pytest.mark.parametrize("text", ["!", "abc", "e30", continue_token(0, "a"), continue_token(1, "/etc")])
def test_a_token_that_was_not_given_out_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as raised:
        parse_token(text)
    assert raised.value.code == 400


def test_the_owner_of_a_change_is_whom_the_client_names_or_the_client_itself() -> None:
    assert write_options({}, (), "create", "kubectl/v1.32 (linux)").manager == "kubectl"
    assert write_options({"fieldManager": "me"}, (), "create", "kubectl/v1.32").manager == "me"
    with pytest.raises(ApiError):
        write_options({"fieldManager": "a\nb"}, (), "create", "")

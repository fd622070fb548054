"""Names, numbers, and what the status says in the middle of things."""

import pytest

from pykubelet.apiserver.controllers.workloads.stateful_set_rules import parent_and_ordinal


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web-0", ("web", 0)),
        ("a-b-12", ("a-b", 12)),
        ("web", ("", -1)),
        ("web-", ("", -1)),
        ("web-x", ("", -1)),
        ("web-2147483647", ("web", 2**31 - 1)),
        ("web-2147483648", ("", -1)),
        ("web-99999999999", ("", -1)),
        ("web-٣", ("", -1)),
    ],
)
def test_a_name_says_whose_pod_it_is_and_which(name: str, expected: tuple[str, int]) -> None:
    assert parent_and_ordinal(name) == expected

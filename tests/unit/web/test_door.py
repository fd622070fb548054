"""Who counts as one at the door."""

import pytest

from pykubelet.web.door import neighbourhood


@pytest.mark.parametrize(
    ("one", "another", "are_one"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:0:0:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
    ],
)
def test_addresses_that_one_may_have_count_as_one(one: str, another: str, are_one: bool) -> None:
    assert (neighbourhood(one) == neighbourhood(another)) is are_one

import pytest

from pykubelet.apiserver.store.port import Entry, Listing, prefix_end


@pytest.mark.parametrize(
    ("prefix", "end"),
    [("/a/", "/a0"), ("", ""), ("a\U0010ffff", "b"), ("\U0010ffff", ""), ("\ud7ff", "\ue000")],
)
def test_the_end_of_a_prefix(prefix: str, end: str) -> None:
    assert prefix_end(prefix) == end


def test_what_readers_keep_with_an_entry_makes_it_no_other() -> None:
    one, other = Entry("k", b"v", 2, 1), Entry("k", b"v", 2, 1)
    one.cache["json"] = b"{}"
    assert one == other
    assert hash(one) == hash(other)
    assert one != Entry("k", b"v", 3, 1)
    assert other.cache == {}
    assert Listing((one,), 5, more=True).next_key == "k\0"

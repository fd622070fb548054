import pytest

from pykubelet.apiserver.store.port import Entry, Event, Listing, prefix_end
from pykubelet.apiserver.store.window import Window


def event(revision: int, size: int = 0) -> Event:
    return Event("put", f"/registry/{revision}", b"x" * size, None, revision, revision)


def revisions(window: Window, after: int) -> list[int]:
    return [each.revision for each in window.after(after)]


def test_a_window_knows_what_came_after_any_of_its_revisions() -> None:
    window = Window(4)
    for revision in (5, 7, 7, 9):
        window.append(event(revision))
    assert window.since == 4
    assert revisions(window, 4) == [5, 7, 7, 9]
    assert revisions(window, 6) == [7, 7, 9]
    assert revisions(window, 7) == [9]
    assert revisions(window, 9) == []


def test_a_full_window_forgets_the_oldest_and_says_since_when_it_knows() -> None:
    window = Window(0, most=10)
    for revision in range(1, 1_001):
        window.append(event(revision))
        assert len(window) <= 10
    assert window.since == 990
    assert revisions(window, 990) == list(range(991, 1_001))


def test_changes_of_one_revision_are_forgotten_together() -> None:
    window = Window(0, most=3)
    for revision in (1, 1, 1, 2):
        window.append(event(revision))
    assert (window.since, revisions(window, 1)) == (1, [2])


def test_a_window_is_bounded_in_bytes_too_but_keeps_the_newest() -> None:
    window = Window(0, most_bytes=10_000)
    for revision in range(1, 50):
        window.append(event(revision, 2_000))
    assert len(window) == 4
    window.append(event(50, 20_000))
    assert revisions(window, window.since) == [50]


def test_a_window_can_be_told_to_forget() -> None:
    window = Window(0)
    for revision in range(1, 6):
        window.append(event(revision))
    window.forget(3)
    window.forget(2)
    assert (window.since, revisions(window, 3)) == (3, [4, 5])
    window.forget(9)
    assert (window.since, len(window)) == (9, 0)


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

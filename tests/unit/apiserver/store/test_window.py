import pytest

from pykubelet.apiserver.store.port import Event, Expired
from pykubelet.apiserver.store.window import Window


def event(revision: int, size: int = 0) -> Event:
    return Event("put", f"/registry/{revision}", b"x" * size, None, revision, revision)


def window_of(since: int, most: int = 100, most_bytes: int = 1 << 20) -> Window:
    return Window(since, most=most, most_bytes=most_bytes)


def revisions(window: Window, after: int) -> list[int]:
    return [each.revision for each in window.after(after)]


def test_a_window_knows_what_came_after_any_of_its_revisions() -> None:
    window = window_of(4)
    for revision in (5, 7, 7, 9):
        window.append(event(revision))
    assert window.since == 4
    assert revisions(window, 4) == [5, 7, 7, 9]
    assert revisions(window, 6) == [7, 7, 9]
    assert revisions(window, 7) == [9]
    assert revisions(window, 9) == []


def test_a_full_window_forgets_the_oldest_and_says_since_when_it_knows() -> None:
    window = window_of(0, most=10)
    for revision in range(1, 1_001):
        window.append(event(revision))
        assert len(window) <= 10
    assert window.since == 990
    assert revisions(window, 990) == list(range(991, 1_001))


def test_changes_of_one_revision_are_forgotten_together() -> None:
    window = window_of(0, most=3)
    for revision in (1, 1, 1, 2):
        window.append(event(revision))
    assert (window.since, revisions(window, 1)) == (1, [2])


def test_a_window_is_bounded_in_bytes_too_but_keeps_the_newest() -> None:
    window = window_of(0, most_bytes=10_000)
    for revision in range(1, 50):
        window.append(event(revision, 2_000))
    assert len(window) == 4
    window.append(event(50, 20_000))
    assert revisions(window, window.since) == [50]


def test_what_is_old_is_forgotten_but_for_the_last() -> None:
    window = window_of(0)
    for revision in (1, 2, 2, 3, 4, 5):
        window.append(event(revision))
    window.age(2, least=1)
    assert (window.since, revisions(window, 2)) == (2, [3, 4, 5])
    window.age(99, least=2)
    assert (window.since, revisions(window, 3)) == (3, [4, 5])
    for _ in range(2):
        window.age(99, least=0)
        assert (window.since, len(window)) == (5, 0)
    window.append(event(6))
    assert revisions(window, 5) == [6]


def test_what_is_forgotten_is_let_go_and_so_is_what_was_made_of_it() -> None:
    window = window_of(0, most=400)
    for revision in range(1, 3_001):
        made = event(revision)
        made.cache["line"] = "as it was sent"
        window.append(made)
        assert len(window._events) < 470
    assert sum("line" in each.cache for each in window.after(window.since)) == 256


@pytest.mark.parametrize(("revision", "is_too_old"), [(3, True), (4, False), (7, False), (99, False)])
def test_a_revision_before_the_window_is_too_old_and_gone(revision: int, is_too_old: bool) -> None:
    window = window_of(2, most=3)
    for each in (4, 5, 6, 7):
        window.append(event(each))
    assert window.is_too_old(revision) is is_too_old
    if is_too_old:
        with pytest.raises(Expired, match="revision 3 is too old: changes are known after 4; list again"):
            window.after(revision)
    else:
        assert revisions(window, revision) == [each for each in (5, 6, 7) if each > revision]

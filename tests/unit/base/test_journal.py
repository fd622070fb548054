import logging
from datetime import UTC, datetime, timedelta

import pytest

from pykubelet.base.journal import Journal, Moment

T0 = datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC)


class Ticking:
    """A clock that is one second later whenever it is looked at."""

    def __init__(self) -> None:
        self._looks = -1

    def __call__(self) -> datetime:
        self._looks += 1
        return T0 + timedelta(seconds=self._looks)


def stages(moments: tuple[Moment, ...]) -> list[str]:
    return [moment.stage for moment in moments]


def test_a_pods_moments_are_told_oldest_first() -> None:
    journal = Journal(now=Ticking())
    journal.note("u1", "default/web", "added", "by source api")
    journal.note("u2", "default/db", "added")
    journal.note("u1", "default/web", "started")
    assert journal.of("u1") == (
        Moment("u1", "default/web", "added", "by source api", T0),
        Moment("u1", "default/web", "started", "", T0 + timedelta(seconds=2)),
    )


def test_an_unknown_pod_has_no_moments() -> None:
    assert Journal().of("nobody") == ()
    assert Journal().named("default/nobody") == ()


def test_a_moment_may_have_been_earlier() -> None:
    journal = Journal(now=Ticking())
    journal.note("u1", "default/web", "created", at=T0 - timedelta(days=1))
    assert journal.of("u1")[0].at == T0 - timedelta(days=1)


def test_times_have_a_zone() -> None:
    journal = Journal()
    journal.note("u1", "default/web", "added")
    assert journal.of("u1")[0].at.tzinfo is UTC


def test_only_the_last_moments_of_a_pod_are_kept() -> None:
    journal = Journal(per_pod=3)
    for number in range(10):
        journal.note("u1", "default/web", str(number))
    assert stages(journal.of("u1")) == ["7", "8", "9"]


def test_the_longest_silent_pod_is_forgotten_first() -> None:
    journal = Journal(pods=2)
    journal.note("old", "default/old", "added")
    journal.note("older", "default/older", "added")
    journal.note("old", "default/old", "updated")
    journal.note("new", "default/new", "added")
    assert len(journal) == 2
    assert journal.of("older") == ()
    assert stages(journal.of("old")) == ["added", "updated"]


def test_a_name_tells_of_every_pod_that_had_it_in_the_order_of_time() -> None:
    journal = Journal(now=Ticking())
    journal.note("first", "default/web", "added")
    journal.note("second", "default/web", "added")
    journal.note("first", "default/web", "removed")
    journal.note("other", "default/db", "added")
    assert [(moment.uid, moment.stage) for moment in journal.named("default/web")] == [
        ("first", "added"),
        ("second", "added"),
        ("first", "removed"),
    ]


def test_note_first_writes_a_stage_once_per_pod() -> None:
    journal = Journal()
    for uid in ("u1", "u1", "u2"):
        journal.note_first(uid, f"default/{uid}", "watched")
    assert [(moment.uid, moment.stage) for moment in journal] == [("u1", "watched"), ("u2", "watched")]


def test_readers_are_shown_every_moment_at_once_and_in_order() -> None:
    journal = Journal()
    journal.note("u1", "default/web", "before")
    one: list[Moment] = []
    two: list[Moment] = []
    journal.read_by(one.append)
    journal.read_by(two.append)
    journal.note("u1", "default/web", "added")
    assert stages(tuple(one)) == ["added"]
    journal.note("u1", "default/web", "started")
    assert one == two == list(journal.of("u1"))[1:]


def test_a_reader_that_fails_harms_neither_the_pod_nor_the_other_readers(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: Moment) -> None:
        raise ValueError("no more paper")

    journal = Journal()
    seen: list[Moment] = []
    journal.read_by(broken)
    journal.read_by(seen.append)
    journal.note("u1", "default/web", "added")
    assert stages(journal.of("u1")) == stages(tuple(seen)) == ["added"]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, "a reader of the journal failed at added")
    ]


def test_notes_may_be_taken_while_somebody_reads_them_all() -> None:
    journal = Journal(pods=2)
    journal.note("u1", "default/u1", "added")
    journal.note("u2", "default/u2", "added")
    for moment in journal:
        journal.note(f"{moment.uid}-next", "default/next", "added")
    assert len(journal) == 2

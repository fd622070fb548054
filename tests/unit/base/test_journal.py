import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pykubelet.base.journal import About, Journal, Noted, Rule, work_for

T0 = datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC)
WEB = About("u1", "default", "web")
DB = About("u2", "default", "db")


class Ticking:
    """A clock that is one second later whenever it is looked at."""

    def __init__(self) -> None:
        self._looks = -1

    def __call__(self) -> datetime:
        self._looks += 1
        return T0 + timedelta(seconds=self._looks)


def said(noted: tuple[Noted[str], ...]) -> list[str]:
    return [each.moment for each in noted]


def by_words(text: str) -> Rule:
    """`a=1` speaks of a and says 1; `a?` opens it; `-a` is not kept; `gone` is the end; anything else is a moment of
    its own."""
    if text == "gone":
        return Rule(ends=True)
    if text.endswith("?"):
        return Rule(text[:-1], opens=True)
    if text.startswith("-"):
        return Rule(text[1:], keep=False)
    about, is_about, says = text.partition("=")
    return Rule(about, says) if is_about else Rule()


def test_a_pods_moments_are_kept_in_order() -> None:
    journal: Journal[str] = Journal(now=Ticking())
    journal.note("added", WEB)
    journal.note("added", DB)
    journal.note("started", WEB)
    assert journal.of("u1") == (
        Noted(T0, WEB, "added"),
        Noted(T0 + timedelta(seconds=2), WEB, "started"),
    )
    assert journal.of("nobody") == ()
    assert str(WEB) == "default/web"


def test_a_moment_may_be_written_down_later_than_it_was() -> None:
    journal: Journal[str] = Journal(now=Ticking())
    journal.note("created", WEB, at=T0 - timedelta(days=1))
    assert journal.of("u1")[0].at == T0 - timedelta(days=1)


def test_times_know_their_zone() -> None:
    journal: Journal[str] = Journal()
    journal.note("added", WEB)
    assert journal.of("u1")[0].at.tzinfo is UTC


# --- bounds


def test_of_each_pod_the_first_and_the_last_moments_are_kept() -> None:
    journal: Journal[str] = Journal(first=2, last=3)
    for number in range(10):
        journal.note(str(number), WEB)
    assert said(journal.of("u1")) == ["0", "1", "7", "8", "9"]


def test_the_longest_silent_pod_is_forgotten_first() -> None:
    journal: Journal[str] = Journal(pods=2)
    old, older, new = (About(uid, "default", uid) for uid in ("old", "older", "new"))
    for about in (old, older, old, new):
        journal.note("added", about)
    assert journal.of("older") == ()
    assert len(journal.of("old")) == 2
    assert len(journal.of("new")) == 1


def test_of_pods_that_are_gone_only_the_last_are_kept_unless_they_come_again() -> None:
    journal: Journal[str] = Journal(by_words, pods=10, gone=2)
    pods = {uid: About(uid, "default", uid) for uid in ("stays", "returns", "a", "b", "c", "d")}
    journal.note("added", pods["stays"])
    for uid in ("returns", "a", "b"):
        journal.note("added", pods[uid])
        journal.note("gone", pods[uid])
        journal.note("-late", pods[uid])
        if uid == "returns":
            journal.note("added", pods[uid])
    assert [uid for uid in pods if journal.of(uid)] == ["stays", "returns", "a", "b"]
    for uid in ("c", "d"):
        journal.note("gone", pods[uid])
    for uid in ("a", "b"):
        journal.note("-late", pods[uid])
    assert [uid for uid in pods if journal.of(uid)] == ["stays", "returns", "c", "d"]
    assert len(journal._pods) == 4, "nothing is begun for what is not kept"
    for number in range(30):
        journal.note("added", About(str(number), "default", "new"))
    assert journal._gone.keys() <= journal._pods.keys(), "who was forgotten is not forgotten twice"


@given(some.lists(some.sampled_from(["a", "x=1", "x=2", "y=1", "x?", "-x", "-y", "y?"]), max_size=300))
def test_whatever_comes_no_pod_has_more_than_its_share_and_nothing_that_was_said_is_lost(texts: list[str]) -> None:
    journal: Journal[str] = Journal(by_words, first=3, last=5, now=Ticking())
    for text in texts:
        journal.note(text, WEB)
    kept = journal.of("u1")
    opened = [each for each in kept if each.moment.endswith("?")]
    assert len(kept) - len(opened) <= 8
    assert len(opened) <= 2  # one for each thing that can go on
    assert list(kept) == sorted(kept, key=lambda each: each.at)
    spoken = [text for text in texts if not text.endswith("?") and not text.startswith("-")]
    if spoken:
        assert spoken[-1] in said(kept)


# --- what is not kept one by one


def test_what_says_the_same_of_the_same_thing_is_counted() -> None:
    journal: Journal[str] = Journal(by_words, now=Ticking())
    for text in ("probe=good", "other", "probe=good", "probe=good", "probe=bad", "probe=good"):
        journal.note(text, WEB)
    first, *others = journal.of("u1")
    assert (first.moment, first.times, first.at, first.until) == ("probe=good", 3, T0, T0 + timedelta(seconds=3))
    assert [(each.moment, each.times) for each in others] == [("other", 1), ("probe=bad", 1), ("probe=good", 1)]


def test_something_unkept_between_makes_it_another_time() -> None:
    journal: Journal[str] = Journal(by_words)
    for text in ("step=failed", "step=failed", "-step", "step=failed"):
        journal.note(text, WEB)
    assert [(each.moment, each.times) for each in journal.of("u1")] == [("step=failed", 2), ("step=failed", 1)]


def test_what_goes_on_is_there_until_it_is_over() -> None:
    journal: Journal[str] = Journal(by_words)
    journal.note("pull?", WEB)
    journal.note("other", WEB)
    assert said(journal.of("u1")) == ["pull?", "other"]
    journal.note("-pull", WEB)
    assert said(journal.of("u1")) == ["other"]
    journal.note("pull?", WEB)
    journal.note("pull=failed", WEB)
    assert said(journal.of("u1")) == ["other", "pull=failed"]


def test_a_month_of_routine_takes_nothing_away() -> None:
    journal: Journal[str] = Journal(by_words, first=2, last=3)
    journal.note("added", WEB)
    journal.note("started", WEB)
    journal.note("trouble", WEB)
    for _ in range(10_000):
        journal.note("sync?", WEB)
        journal.note("probe=good", WEB)
        journal.note("-sync", WEB)
    assert said(journal.of("u1")) == ["added", "started", "trouble", "probe=good"]


# --- readers


def test_readers_are_shown_every_moment_at_once() -> None:
    journal: Journal[str] = Journal(by_words)
    journal.note("before", WEB)
    one: list[Noted[str]] = []
    two: list[Noted[str]] = []
    journal.read_by(one.append)
    journal.read_by(two.append)
    for text in ("a=1", "a=1", "-a", "b?"):
        journal.note(text, WEB)
    assert one == two
    assert said(tuple(one)) == ["a=1", "a=1", "-a", "b?"]
    assert {each.times for each in one} == {1}


def test_a_reader_that_fails_harms_neither_the_pod_nor_the_other_readers(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: Noted[str]) -> None:
        raise ValueError("no more paper")

    journal: Journal[str] = Journal()
    seen: list[Noted[str]] = []
    journal.read_by(broken)
    journal.read_by(seen.append)
    journal.note("added", WEB)
    assert said(journal.of("u1")) == said(tuple(seen)) == ["added"]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, "a reader of the journal failed at str")
    ]


@given(some.lists(some.sampled_from(["a", "x=1", "x?", "-x"])), some.lists(some.booleans(), min_size=1, max_size=4))
def test_no_readers_failure_reaches_the_writer(texts: list[str], failing: list[bool]) -> None:
    journal: Journal[str] = Journal(by_words)
    shown: list[list[str]] = [[] for _ in failing]

    def reader(number: int) -> None:
        def read(noted: Noted[str]) -> None:
            shown[number].append(noted.moment)
            if failing[number]:
                raise RuntimeError(noted.moment)

        journal.read_by(read)

    for number in range(len(failing)):
        reader(number)
    logging.disable()
    try:
        for text in texts:
            journal.note(text, WEB)
    finally:
        logging.disable(logging.NOTSET)
    assert shown == [texts] * len(failing)


# --- whose


async def test_a_task_may_work_for_a_pod_and_so_do_those_that_it_starts() -> None:
    journal: Journal[str] = Journal()

    async def work() -> None:
        work_for(WEB)
        journal.note("mine")
        await asyncio.create_task(deeper())
        journal.note("another's", DB)

    async def deeper() -> None:
        journal.note("deeper")

    await asyncio.create_task(work())
    journal.note("the node's")
    assert said(journal.of("u1")) == ["mine", "deeper"]
    assert said(journal.of("u2")) == ["another's"]
    assert said(journal.of("")) == ["the node's"]


def test_a_note_costs_microseconds() -> None:
    journal: Journal[str] = Journal(by_words)
    journal.read_by(lambda noted: None)
    began = time.perf_counter()
    for number in range(20_000):
        journal.note(f"probe={number % 7}", WEB)
    assert (time.perf_counter() - began) / 20_000 < 100e-6  # it is about 4; the machine may be busy


def test_what_has_begun_is_under_way_until_it_ends() -> None:
    journal: Journal[str] = Journal(now=Ticking())
    one, other = journal.begin("call", "RunPodSandbox", WEB), journal.begin("call", "RunPodSandbox", DB)
    assert [(each.what, each.about, each.since) for each in journal.under_way()] == [
        ("RunPodSandbox", WEB, T0),
        ("RunPodSandbox", DB, T0 + timedelta(seconds=1)),
    ]
    journal.end(one)
    assert [each.about for each in journal.under_way()] == [DB]
    journal.end(other)
    assert journal.under_way() == ()
    assert journal.of("u1") == (), "nothing of it is kept"

"""A one-time token becomes a session, once; a session is a cookie and a key, and does not last."""

from pykubelet.pod.ports.server import Identity
from pykubelet.server.page.sessions import KEY_PREFIX, TOKEN_SECONDS, Entry, Sessions

ANNA = Identity(name="anna")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def entered(sessions: Sessions) -> Entry:
    entry = sessions.enter(sessions.invite(ANNA))
    assert entry is not None
    return entry


def test_a_token_works_once() -> None:
    sessions = Sessions(Clock())
    token = sessions.invite(ANNA)
    assert sessions.enter(token) is not None
    assert sessions.enter(token) is None


def test_a_token_that_nobody_gave_does_not_work() -> None:
    sessions = Sessions(Clock())
    sessions.invite(ANNA)
    for guess in ("", "x", "0" * 43, "\udcff", "x" * 100_000):
        assert sessions.enter(guess) is None


def test_a_token_is_for_soon() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    token = sessions.invite(ANNA)
    clock.now += TOKEN_SECONDS
    assert sessions.enter(token) is None


def test_whoever_asks_for_many_tokens_makes_the_oldest_worthless() -> None:
    sessions = Sessions(Clock())
    tokens = [sessions.invite(ANNA) for _ in range(17)]
    assert sessions.enter(tokens[0]) is None
    assert sessions.enter(tokens[-1]) is not None


def test_cookie_and_key_belong_together() -> None:
    sessions = Sessions(Clock())
    one, other = entered(sessions), entered(sessions)
    assert sessions.whose(one.cookie, one.key) == ANNA
    assert sessions.whose(one.cookie, other.key) is None
    assert sessions.whose(one.cookie, KEY_PREFIX) is None
    assert sessions.whose(other.key, one.cookie) is None
    assert sessions.whose("", one.key) is None
    assert sessions.whose(one.cookie, None) == ANNA, "for files the cookie will do"


def test_a_session_of_another_process_is_nobodys() -> None:
    entry = entered(Sessions(Clock()))
    assert Sessions(Clock()).whose(entry.cookie, entry.key) is None


def test_a_session_ends_an_hour_after_its_last_use() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    entry = entered(sessions)
    for _ in range(3):
        clock.now += 3599
        assert sessions.whose(entry.cookie, entry.key) == ANNA
    clock.now += 3600
    assert sessions.whose(entry.cookie, entry.key) is None


def test_a_session_ends_however_much_it_is_used() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    entry = entered(sessions)
    for _ in range(23):
        clock.now += 1800
        assert sessions.whose(entry.cookie, entry.key) == ANNA
    clock.now += 1800
    assert sessions.whose(entry.cookie, entry.key) is None


def test_who_leaves_has_left() -> None:
    sessions = Sessions(Clock())
    entry = entered(sessions)
    sessions.leave(entry.cookie)
    assert sessions.whose(entry.cookie, entry.key) is None


def test_there_are_never_more_than_a_few_sessions() -> None:
    sessions = Sessions(Clock())
    entries = [entered(sessions) for _ in range(65)]
    assert sessions.whose(entries[0].cookie, entries[0].key) is None
    assert sessions.whose(entries[-1].cookie, entries[-1].key) == ANNA

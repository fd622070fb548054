"""How long a pod waits for an image that could not be pulled."""

from datetime import UTC, datetime, timedelta

from pykubelet.pod.images.image_backoff import ImageBackoff

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_each_failure_doubles_the_wait_of_that_image_alone() -> None:
    backoff, waits, now = ImageBackoff(), [], NOW
    for _ in range(7):
        backoff = backoff.failed("a", "away", now)
        waits.append(backoff.wait("a", now))
        now += timedelta(seconds=waits[-1])
        assert backoff.wait("a", now) == 0
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    assert backoff.length("a") == 300
    assert backoff.wait("b", now) == 0
    assert backoff.failures["a"].why == "away"


def test_an_image_that_was_pulled_does_not_wait_but_goes_on_from_there_when_it_fails_again() -> None:
    backoff = ImageBackoff().failed("a", "away", NOW).failed("b", "away", NOW).pulled("a")
    assert backoff.wait("a", NOW) == 0
    assert set(backoff.failures) == {"b"}
    assert backoff.failed("a", "away again", NOW).wait("a", NOW) == 20

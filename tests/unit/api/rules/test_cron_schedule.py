"""Schedules of cron jobs, where upstream cannot be asked."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from pykubelet.api.rules.cron_schedule import following, parsed

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("text", [", * * * *", "* , * * *", "* * * , *", "59 23 31 2 *"])
def test_a_schedule_that_never_comes_is_found_out_at_once(text: str) -> None:
    assert following(parsed(text), NOW, UTC) is None


def test_a_day_that_a_place_left_out_holds_nobody_up() -> None:
    """Apia went from the 29th to the 31st of December 2011."""
    schedule, before = parsed("0 9 * * sat"), datetime(2011, 12, 29, 20, tzinfo=UTC)
    assert following(schedule, before, ZoneInfo("Pacific/Apia")) == datetime(2011, 12, 30, 19, tzinfo=UTC)


@pytest.mark.parametrize(("text", "seconds"), [("@every 90s", 90), ("@every 10ms", 1), ("@every 1h30m", 5400)])
def test_every_so_often_is_counted_in_whole_seconds(text: str, seconds: int) -> None:
    found = following(parsed(text), NOW, UTC)
    assert found is not None
    assert (found - NOW).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "@every", "@every x", "@every 1h 2m"])
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parsed(text)

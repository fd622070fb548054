import pytest

from pykubelet.api.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1, "1s"),
        (1.5, "1.5s"),
        (90, "1m30s"),
        (120, "2m0s"),
        (14400, "4h0m0s"),
        (3661.25, "1h1m1.25s"),
        (0.1, "100ms"),
        (0.0015, "1.5ms"),
        (0.000002, "2µs"),
        (3e-9, "3ns"),
        (-60, "-1m0s"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert parse_duration(text) == pytest.approx(seconds)

"""What somebody who asks for a log gets to see of its lines."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.pod.container.logs import BadQuery, LogOptions, Unprocessable, log_options
from pykubelet.server.logs.log_lines import Lines

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
FILE = (
    b"2026-01-01T11:59:01.1Z stdout F one\n"
    b"2026-01-01T11:59:02.22Z stderr F oh no\n"
    b"2026-01-01T11:59:03Z stdout P tw\n"
    b"2026-01-01T11:59:03.000001Z stdout F o\n"
    b"not a line of a log\n"
    b"2026-01-01T11:59:04Z stdout F \n"
    b"2026-01-01T11:59:05Z stdout F last  words\n"
)


def shown(options: LogOptions, file: bytes = FILE) -> bytes:
    lines = Lines(options)
    return lines.feed(file) + lines.end()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (LogOptions(), b"one\noh no\ntwo\n\nlast  words\n"),
        (LogOptions(stream=b"stdout"), b"one\ntwo\n\nlast  words\n"),
        (LogOptions(stream=b"stderr"), b"oh no\n"),
        (
            LogOptions(timestamps=True),
            b"2026-01-01T11:59:01.1Z one\n2026-01-01T11:59:02.22Z oh no\n2026-01-01T11:59:03Z two\n"
            b"2026-01-01T11:59:04Z \n2026-01-01T11:59:05Z last  words\n",
        ),
        (LogOptions(since=datetime(2026, 1, 1, 11, 59, 4, tzinfo=UTC)), b"\nlast  words\n"),
        (LogOptions(since=datetime(2027, 1, 1, tzinfo=UTC)), b""),
        (LogOptions(limit=6), b"one\noh"),
        (LogOptions(limit=10**6), b"one\noh no\ntwo\n\nlast  words\n"),
    ],
)
def test_what_is_asked_for_is_shown(options: LogOptions, text: bytes) -> None:
    assert shown(options) == text


def test_a_line_that_was_never_ended_is_shown_at_the_end() -> None:
    assert shown(LogOptions(), b"2026-01-01T11:59:01Z stdout F one\n2026-01-01T11:59:01Z stdout P tw") == b"one\ntw"


@given(
    st.lists(st.integers(1, len(FILE))),
    st.booleans(),
    st.sampled_from([b"", b"stdout", b"stderr"]),
    st.one_of(st.none(), st.integers(1, 60)),
)
def test_it_does_not_matter_how_the_file_is_cut(
    cuts: list[int], timestamps: bool, stream: bytes, limit: int | None
) -> None:
    options = LogOptions(timestamps=timestamps, stream=stream, limit=limit)
    lines, places = Lines(options), [0, *sorted(cuts), len(FILE)]
    parts = [lines.feed(FILE[start:end]) for start, end in pairwise(places)]
    assert b"".join(parts) + lines.end() == shown(options)


@given(st.binary(max_size=300))
def test_no_file_is_too_strange(file: bytes) -> None:
    for options in (LogOptions(), LogOptions(timestamps=True, since=NOW, stream=b"stdout", limit=5)):
        shown(options, file)


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ({}, LogOptions()),
        ({"follow": "true", "previous": "false", "timestamps": ""}, LogOptions(follow=True, timestamps=True)),
        ({"tailLines": "0", "limitBytes": "1"}, LogOptions(tail=0, limit=1)),
        ({"tail": "all", "tailLines": "3"}, LogOptions()),
        ({"tail": "7"}, LogOptions(tail=7)),
        ({"sinceSeconds": "60"}, LogOptions(since=datetime(2026, 1, 1, 11, 59, tzinfo=UTC))),
        ({"sinceTime": "2026-01-01T11:59:00Z"}, LogOptions(since=datetime(2026, 1, 1, 11, 59, tzinfo=UTC))),
        ({"stream": "Stderr"}, LogOptions(stream=b"stderr")),
    ],
)
def test_a_query_is_read_as_the_api_server_writes_it(query: dict[str, str], options: LogOptions) -> None:
    assert log_options(query, NOW) == options


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"tailLines": "many"}, BadQuery),
        ({"tailLines": "1e3"}, BadQuery),
        ({"tailLines": "9" * 30}, BadQuery),
        ({"sinceTime": "yesterday"}, BadQuery),
        ({"sinceTime": "2026-01-01T11:59:00"}, BadQuery),
        ({"tailLines": "-1"}, Unprocessable),
        ({"limitBytes": "0"}, Unprocessable),
        ({"sinceSeconds": "0"}, Unprocessable),
        ({"sinceSeconds": "5", "sinceTime": "2026-01-01T11:59:00Z"}, Unprocessable),
        ({"stream": "Stdin"}, Unprocessable),
        ({"stream": "Stdout", "tailLines": "5"}, Unprocessable),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(query: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        log_options(query, NOW)

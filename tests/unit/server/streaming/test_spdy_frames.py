"""SPDY's frames: what one end says the other one hears, and nothing that anybody sends does harm."""

import struct
import zlib
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.server.streaming.spdy_frames import (
    DICTIONARY,
    Data,
    Event,
    Framing,
    GoAway,
    Opened,
    Ping,
    ProtocolError,
    Replied,
    Reset,
    Told,
    data_frame,
    empty_settings_frame,
    go_away_frame,
    ping_frame,
    reset_frame,
)

ids = st.integers(1, 0x7FFFFFFF)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
names = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20)
headers = st.dictionaries(names, texts, max_size=8)


def control(kind: int, body: bytes, flags: int = 0, version: int = 3) -> bytes:
    return struct.pack(">II", (0x8000 | version) << 16 | kind, flags << 24 | len(body)) + body


def merged(events: list[Event]) -> list[Event]:
    """Parts of one data frame count as one."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, Data) and isinstance(last, Data) and last.stream_id == event.stream_id:
            found[-1] = Data(event.stream_id, last.data + event.data, event.is_ended)
        else:
            found.append(event)
    return found


def test_the_dictionary_is_the_one_of_the_protocol_to_the_byte() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2  # each packed stream of headers begins with it


def test_headers_packed_by_the_go_library_can_be_read() -> None:
    """A SYN_STREAM as kubectl sends it: a zlib head that names the dictionary, and blocks that are flushed."""
    packer = zlib.compressobj(9, zdict=DICTIONARY)
    block = struct.pack(">I", 1) + b"".join(struct.pack(">I", len(t)) + t for t in (b"streamtype", b"error"))
    packed = packer.compress(block) + packer.flush(zlib.Z_SYNC_FLUSH)
    frame = control(1, struct.pack(">IIH", 1, 0, 0) + packed)
    assert list(Framing().feed(frame)) == [Opened(1, {"streamtype": "error"})]


@given(st.lists(st.tuples(ids, headers, st.booleans()), max_size=6))
def test_what_one_end_says_the_other_hears(said: list[tuple[int, dict[str, str], bool]]) -> None:
    here, there = Framing(), Framing()
    for stream_id, fields, ended in said:
        assert list(there.feed(here.open(stream_id, fields, ended=ended))) == [Opened(stream_id, fields, ended)]
        assert list(there.feed(here.reply(stream_id))) == [Replied(stream_id, {})]
        assert list(there.feed(here.headers(stream_id, fields, ended=ended))) == [Told(stream_id, fields, ended)]


@given(ids, st.binary(max_size=300), st.booleans())
def test_data_resets_pings_and_farewells_arrive(stream_id: int, data: bytes, ended: bool) -> None:
    frames = data_frame(stream_id, data, ended=ended) + reset_frame(stream_id, 5) + ping_frame(7) + go_away_frame(3)
    expected = [Data(stream_id, data, ended), Reset(stream_id, 5), Ping(7), GoAway(3)]
    assert list(Framing().feed(frames + empty_settings_frame())) == expected


@given(st.lists(st.tuples(ids, st.binary(max_size=60), headers), min_size=1, max_size=5), st.data())
def test_it_does_not_matter_how_the_bytes_are_cut(
    said: list[tuple[int, bytes, dict[str, str]]], draw: st.DataObject
) -> None:
    here = Framing()
    stream = b"".join(
        here.open(i, fields) + data_frame(i, data, ended=True) + ping_frame(i) for i, data, fields in said
    )
    cuts = draw.draw(st.lists(st.integers(0, len(stream)), max_size=30))
    there = Framing()
    heard: list[Event] = []
    for begin, end in pairwise(sorted({0, len(stream), *cuts})):
        heard += there.feed(stream[begin:end])
    assert merged(heard) == list(Framing().feed(stream))


@given(st.lists(st.binary(max_size=200), max_size=10))
def test_bytes_by_chance_are_refused_or_read_but_never_break_anything(pieces: list[bytes]) -> None:
    framing = Framing()
    with suppress(ProtocolError):
        for piece in pieces:
            list(framing.feed(piece))


@given(st.sampled_from([1, 2, 3, 4, 6, 7, 8, 9, 10]), st.binary(max_size=100), st.integers(0, 255))
def test_control_frames_with_any_content_are_refused_or_read(kind: int, body: bytes, flags: int) -> None:
    with suppress(ProtocolError):
        list(Framing().feed(control(kind, body, flags)))


@given(st.binary(max_size=200))
def test_headers_with_any_content_are_refused_or_read(block: bytes) -> None:
    packer = zlib.compressobj(zdict=DICTIONARY)
    packed = packer.compress(block) + packer.flush(zlib.Z_SYNC_FLUSH)
    with suppress(ProtocolError):
        list(Framing().feed(control(1, struct.pack(">IIH", 1, 0, 0) + packed)))


def test_a_data_frame_is_told_as_it_comes_and_never_held() -> None:
    framing = Framing()
    assert list(framing.feed(struct.pack(">II", 5, 1 << 24 | 0xFFFFFF))) == []
    part = bytes(1 << 20)
    for _ in range(15):
        assert list(framing.feed(part)) == [Data(5, part)]
    assert list(framing.feed(part[:-1])) == [Data(5, part[:-1], True)]


def test_many_small_pieces_of_a_large_frame_cost_no_more_than_few() -> None:
    framing = Framing()
    list(framing.feed(struct.pack(">II", 0x80030001, 16 << 10)))
    for _ in range(16_000):
        assert list(framing.feed(b"a")) == []


def test_headers_that_unpack_to_more_than_a_few_lines_are_refused() -> None:
    packer = zlib.compressobj(9, zdict=DICTIONARY)
    packed = packer.compress(bytes(4 << 20)) + packer.flush(zlib.Z_SYNC_FLUSH)
    assert len(packed) < 16 << 10
    with pytest.raises(ProtocolError, match="more than 16384 bytes"):
        list(Framing().feed(control(1, struct.pack(">IIH", 1, 0, 0) + packed)))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (struct.pack(">II", 0x80030001, 0xFFFFFF), "a control frame has 16777215 bytes"),
        (control(1, bytes(10), version=2), "SPDY version 2"),
        (control(5, bytes(10)), "no control frame of type 5"),
        (control(3, bytes(4)), "has only 4 bytes"),
        (control(3, bytes(8)), "about stream 0"),
        (struct.pack(">II", 0, 4) + b"data", "stream 0"),
        (control(1, struct.pack(">IIH", 1, 0, 0) + b"not packed"), "cannot be unpacked"),
    ],
)
def test_what_is_not_spdy_is_refused_with_a_reason(frame: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        list(Framing().feed(frame))


def test_of_several_values_of_a_header_the_first_counts() -> None:
    here = Framing()
    frame = here.open(1, {"port": "80\x0090"})
    assert list(Framing().feed(frame)) == [Opened(1, {"port": "80"})]

"""The wire of D-Bus: what is written can be read, and what cannot be read is refused, whatever it is."""

import os
import random
import socket
import struct
from contextlib import suppress

import pytest

from pykubelet.base.errors import Retry
from pykubelet.host import dbus
from pykubelet.host.dbus import Bus, Unreadable, call_bytes, parsed, size_of

WHERE = ("org.example", "/org/example", "org.example.Manager")


def message(signature: bytes, body: bytes, order: str = "<") -> bytes:
    """An answer whose only field is what it is made of."""
    field = struct.pack("BB", 8, 1) + b"g\0" + struct.pack("B", len(signature)) + signature + b"\0"
    mark = b"l" if order == "<" else b"B"
    whole = struct.pack(f"{order}cBBBIII", mark, 2, 0, 1, len(body), 7, len(field)) + field
    return whole + bytes(-len(whole) % 8) + body


def test_what_is_written_can_be_read() -> None:
    data = call_bytes(9, WHERE, "Do", "ssib", ("", "ä" * 100, -1, True))
    assert size_of(data[:16]) == len(data)
    found = parsed(data)
    assert (found.kind, found.serial, found.body) == (1, 9, ("", "ä" * 100, -1, True))
    assert (found.fields[1], found.fields[2], found.fields[3], found.fields[6]) == (*WHERE[1:], "Do", WHERE[0])


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_orders_of_bytes_are_read(order: str) -> None:
    body = b"\1t\0" + bytes(5) + struct.pack(f"{order}Q", 5_000_000)
    assert parsed(message(b"v", body, order)).body == (5_000_000,)
    pairs = struct.pack(f"{order}I4xBxxxI", 8, 3, 9)
    assert parsed(message(b"a(yu)", pairs, order)).body == (((3, 9),),)


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        (b"s", struct.pack("<I", 1 << 31) + b"x\0"),
        (b"as", struct.pack("<I", 1 << 30)),
        (b"a()", struct.pack("<I", 64) + bytes(100)),
        (b"a" * 40 + b"y", struct.pack("<I", 300) * 100),
        (b"v", b"\1v\0" * 40),
        (b"v", b"\2yy\0\0\0"),
        (b"(", b""),
        (b"a", b""),
        (b"?", bytes(8)),
    ],
)
def test_what_makes_no_sense_is_refused(signature: bytes, body: bytes) -> None:
    with pytest.raises(Unreadable):
        parsed(message(signature, body))


def test_no_message_is_larger_than_what_it_is_about() -> None:
    with pytest.raises(Unreadable, match="more than 65536"):
        size_of(struct.pack("<cBBBIII", b"l", 2, 0, 1, 1 << 26, 7, 0))


def test_whatever_comes_is_read_or_refused() -> None:
    chance = random.Random(11)
    good = [
        call_bytes(1, WHERE, "Do", "sit", ("x", 1, 2)),
        message(b"a(yv)", struct.pack("<I4xB", 8, 1) + b"\1u\0" + struct.pack("<I", 9)),
        message(b"v", b"\2as\0" + struct.pack("<I", 7) + struct.pack("<I", 2) + b"ab\0"),
    ]
    read = 0
    for _ in range(20_000):
        data = bytearray(chance.choice(good))
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(Unreadable):
            parsed(bytes(data[: chance.choice([len(data), chance.randrange(len(data))])]))
            read += 1
    assert 0 < read < 20_000


async def test_files_that_nobody_asked_for_are_not_kept_open() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(dbus._MOST_FDS + 2):
            socket.send_fds(theirs, [b"l"], [0])
        await Bus(ours).read()
        assert len(os.listdir("/proc/self/fd")) <= before


async def test_a_bus_that_is_gone_is_no_surprise() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        ours.setblocking(False)
        bus = Bus(ours)
        await bus.read()
        with pytest.raises(Retry):
            await bus.call(WHERE, "Do")
        assert [each async for each in bus.signals()] == []

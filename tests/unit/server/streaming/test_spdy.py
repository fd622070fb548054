"""A SPDY connection: its streams, what may wait in them, and clients that do not keep to the rules."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.server.streaming.spdy import SpdyConnection, SpdyStream
from pykubelet.server.streaming.spdy_frames import (
    Data,
    Event,
    Framing,
    GoAway,
    Ping,
    Replied,
    Reset,
    data_frame,
    empty_settings_frame,
    go_away_frame,
    ping_frame,
    reset_frame,
)


class Wire:
    """A carrier in memory."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.client = Framing()
        self.heard: list[Event] = []
        self.raw: list[bytes] = []
        self.is_closed = False

    async def read(self) -> bytes:
        return await self.incoming.get()

    async def write(self, data: bytes) -> None:
        if self.is_closed:
            raise ConnectionResetError("closed")
        self.raw.append(data)
        self.heard += self.client.feed(data)

    async def close(self, patience: float) -> None:
        self.is_closed = True


class Server:
    def __init__(self) -> None:
        self.wire = Wire()
        self.streams: list[SpdyStream] = []
        self.is_welcome = True
        self.connection = SpdyConnection(self.wire, self.accept)

    def accept(self, stream: SpdyStream) -> bool:
        if self.is_welcome:
            self.streams.append(stream)
        return self.is_welcome

    def feed(self, *frames: bytes) -> None:
        self.wire.incoming.put_nowait(b"".join(frames))

    def open(self, stream_id: int, *, ended: bool = False) -> bytes:
        return self.wire.client.open(stream_id, {"streamtype": "data"}, ended=ended)

    async def settled(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def running() -> AsyncIterator[Server]:
    server = Server()
    task = asyncio.create_task(server.connection.run())
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_stream_is_answered_before_anything_is_said_on_it() -> None:
    async with running() as server:
        server.feed(server.open(1), data_frame(1, b"hello"), data_frame(1, b"", ended=True))
        await eventually(lambda: server.streams)
        stream = server.streams[0]
        assert stream.headers == {"streamtype": "data"}
        assert await stream.receive() == b"hello"
        assert await stream.receive() == b""
        await stream.send(b"good day")
        await stream.finish()
        await stream.finish()
        assert server.wire.heard == [Replied(1, {}), Data(1, b"good day"), Data(1, b"", True)]


async def test_nothing_is_said_on_a_stream_after_its_end() -> None:
    async with running() as server:
        server.feed(server.open(1))
        await eventually(lambda: server.streams)
        await server.streams[0].finish()
        with pytest.raises(ConnectionResetError):
            await server.streams[0].send(b"late")


async def test_a_stream_that_the_client_gives_up_breaks_off() -> None:
    async with running() as server:
        server.feed(server.open(1), data_frame(1, b"void"), reset_frame(1, 5))
        await eventually(lambda: server.streams)
        with pytest.raises(ConnectionResetError):
            await server.streams[0].receive()
        with pytest.raises(ConnectionResetError):
            await server.streams[0].send(b"late")


async def test_long_data_goes_out_in_frames_of_a_mebibyte() -> None:
    async with running() as server:
        server.feed(server.open(1))
        await eventually(lambda: server.streams)
        await server.streams[0].send(bytes(5 << 19))
        sizes = [len(event.data) for event in server.wire.heard if isinstance(event, Data)]
        assert sizes == [1 << 20, 1 << 20, 1 << 19]


async def test_pings_of_the_client_are_answered_and_other_frames_are_read_over() -> None:
    async with running() as server:
        server.feed(ping_frame(1), ping_frame(2), empty_settings_frame(), data_frame(99, b"to nobody"), ping_frame(3))
        await eventually(lambda: len(server.wire.heard) == 2)
        assert server.wire.heard == [Ping(1), Ping(3)]


async def test_ids_go_up_and_are_odd() -> None:
    async with running() as server:
        server.feed(*(server.open(stream_id) for stream_id in (3, 1, 3, 4, 5)))
        await eventually(lambda: len(server.wire.heard) == 5)
        assert server.wire.heard == [Replied(3, {}), Reset(1, 1), Reset(3, 1), Reset(4, 1), Replied(5, {})]


async def test_a_stream_that_is_not_welcome_is_refused() -> None:
    async with running() as server:
        server.is_welcome = False
        server.feed(server.open(1))
        await eventually(lambda: server.wire.heard)
        assert server.wire.heard == [Reset(1, 3)]


async def test_there_are_at_most_a_thousand_streams_at_once() -> None:
    async with running() as server:
        server.feed(*(server.open(2 * number + 1) for number in range(1001)))
        await eventually(lambda: len(server.wire.heard) == 1001)
        assert server.wire.heard[-1] == Reset(2001, 3)
        await server.streams[0].reset()
        server.feed(server.open(2003))
        await eventually(lambda: server.wire.heard[-1] == Replied(2003, {}))


async def test_streams_that_are_over_do_not_count() -> None:
    async with running() as server:
        for number in range(3000):
            server.feed(server.open(2 * number + 1, ended=True))
            await server.settled()
            assert len(server.streams) == number + 1
            await server.streams[-1].finish()
        assert not any(isinstance(event, Reset) for event in server.wire.heard)


async def test_no_more_is_read_while_too_much_waits_to_be_taken() -> None:
    async with running() as server:
        server.feed(server.open(1), server.open(3))
        for _ in range(64):
            server.feed(data_frame(1, bytes(64 << 10)))
        await server.settled()
        unread = server.wire.incoming.qsize()
        assert 44 < unread < 50  # a mebibyte was taken in
        await server.connection.nudge()
        assert server.wire.raw[-1] == empty_settings_frame()
        took = 0
        while took < 64 * (64 << 10):
            took += len(await server.streams[0].receive())
            await server.settled()
        assert server.wire.incoming.empty()
        said = len(server.wire.raw)
        await server.connection.nudge()
        assert len(server.wire.raw) == said


async def test_what_waits_in_a_stream_that_is_given_up_holds_nobody_up() -> None:
    async with running() as server:
        server.feed(server.open(1), server.open(3))
        for _ in range(64):
            server.feed(data_frame(1, bytes(64 << 10)))
        server.feed(data_frame(3, b"me, too"))
        await server.settled()
        await server.streams[0].reset()
        async with asyncio.timeout(10):
            assert await server.streams[1].receive() == b"me, too"


@pytest.mark.parametrize("end", [b"", go_away_frame(0), bytes.fromhex("8002000100000000")])
async def test_the_end_of_the_connection_is_the_end_of_its_streams(end: bytes) -> None:
    async with running() as server:
        server.feed(server.open(1))
        await eventually(lambda: server.streams)
        server.feed(end)
        with pytest.raises(ConnectionResetError):
            await server.streams[0].receive()
        with pytest.raises(ConnectionResetError):
            await server.streams[0].send(b"late")


async def test_good_bye_gives_up_what_is_open() -> None:
    async with running() as server:
        server.feed(server.open(1), server.open(3))
        await eventually(lambda: len(server.streams) == 2)
        await server.streams[0].finish()
        await server.connection.close(0.0)
        assert server.wire.heard[-3:] == [Reset(1, 5), Reset(3, 5), GoAway(3)]
        assert server.wire.is_closed


ids = st.integers(1, 9)
frames = st.one_of(
    st.tuples(st.just("open"), ids, st.booleans()),
    st.tuples(st.just("data"), ids, st.booleans()),
    st.tuples(st.just("reset"), ids, st.booleans()),
    st.tuples(st.just("headers"), ids, st.booleans()),
    st.tuples(st.just("ping"), ids, st.booleans()),
    st.tuples(st.just("noise"), ids, st.booleans()),
)


@given(st.lists(frames, max_size=30), st.binary(max_size=30))
def test_whatever_a_client_does_its_connection_comes_to_an_end(said: list[tuple[str, int, bool]], noise: bytes) -> None:
    async def play() -> None:
        server = Server()
        client = server.wire.client
        makers: dict[str, Callable[[int, bool], bytes]] = {
            "open": lambda stream_id, ended: client.open(stream_id, {"streamtype": "data"}, ended=ended),
            "data": lambda stream_id, ended: data_frame(stream_id, b"some", ended=ended),
            "reset": lambda stream_id, _: reset_frame(stream_id, 5),
            "headers": lambda stream_id, ended: client.headers(stream_id, {"a": "b"}, ended=ended),
            "ping": lambda ping_id, _: ping_frame(ping_id),
            "noise": lambda _, ended: noise if ended else b"",
        }
        server.feed(b"".join(makers[kind](number, flag) for kind, number, flag in said) or b"\0")
        server.feed(b"")
        await server.connection.run()
        for stream in server.streams:
            with suppress(ConnectionResetError):
                while await stream.receive():
                    pass
        await server.connection.close(0.0)
        assert server.wire.is_closed

    asyncio.run(play())


@virtual_time
async def test_a_client_that_takes_nothing_is_not_waited_for_at_the_end() -> None:
    class Stuck(Wire):
        async def write(self, data: bytes) -> None:
            await asyncio.Event().wait()

    wire = Stuck()
    connection = SpdyConnection(wire, lambda _: True)
    await connection.close(0.0)
    assert wire.is_closed
    assert asyncio.get_running_loop().time() <= 10

"""The machine's word on its shutdown, over a real bus of our own, from a stand-in for logind."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from kit.logind import StandIn, logind, private_bus, settled
from pykubelet.base.errors import NotFound, Retry
from pykubelet.host import dbus
from pykubelet.host.logind import Logind


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with private_bus(tmp_path) as found:
        yield found


@pytest.fixture
async def stand_in(address: str, tmp_path: Path) -> AsyncIterator[StandIn]:
    async with logind(address, tmp_path) as made:
        yield made


async def test_the_machine_is_held_until_we_let_go_and_says_when_it_goes_down(
    address: str, stand_in: StandIn, tmp_path: Path
) -> None:
    async with Logind(address=address, root=tmp_path).notices(5) as notices:
        assert stand_in.locks == 1
        why = "Kubelet needs time to handle node shutdown"
        assert stand_in.inhibited == [("shutdown", "kubelet", why, "delay")]
        told = notices.told()
        stand_in.say("b", True)
        assert await anext(told) is True
        notices.let_go()
        assert stand_in.locks == 0
        stand_in.say("b", False)
        assert await anext(told) is False
        await notices.hold()
        await notices.hold()
        assert stand_in.locks == 1
        await told.aclose()
    assert stand_in.locks == 0
    assert not (tmp_path / "etc").exists()


async def test_a_machine_that_waits_less_is_told_to_wait_longer(
    address: str, stand_in: StandIn, tmp_path: Path
) -> None:
    async with Logind(address=address, root=tmp_path).notices(30):
        assert stand_in.delay == 30_000_000
    override = tmp_path / "etc/systemd/logind.conf.d/99-kubelet.conf"
    assert override.read_text() == "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=30\n"


async def test_a_machine_that_does_not_want_to_wait_longer_is_told_of(
    address: str, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in.heeds = False
    with pytest.raises(Retry, match=r"unable to update logind InhibitDelayMaxSec to 30s .* \(5s\) is less than req"):
        async with Logind(address=address, root=tmp_path).notices(30):
            raise AssertionError
    assert stand_in.inhibited == []


async def test_where_the_override_cannot_be_written_that_is_told(
    address: str, stand_in: StandIn, tmp_path: Path
) -> None:
    (tmp_path / "etc").write_text("a file")
    with pytest.raises(Retry, match="unable to override inhibit delay by shutdown manager: failed writing logind"):
        async with Logind(address=address, root=tmp_path).notices(30):
            raise AssertionError


# --- a bus that is not well


async def test_a_machine_without_a_bus_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no D-Bus answers at"):
        async with Logind(address=f"unix:path={tmp_path}/nowhere").notices(5):
            raise AssertionError


async def test_a_bus_without_logind_says_so(address: str) -> None:
    with pytest.raises(Retry, match=r"Get is refused: org\.freedesktop\.DBus\.Error\.ServiceUnknown"):
        async with Logind(address=address).notices(5):
            raise AssertionError


async def test_logind_that_hangs_is_not_waited_for(
    address: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dbus, "_PATIENCE", 0.2)
    stand_in.is_mute = True
    with pytest.raises(Retry, match=r"org\.freedesktop\.login1 does not answer Get within 0\.2 s"):
        async with Logind(address=address).notices(5):
            raise AssertionError


async def test_logind_that_lies_is_not_believed(address: str, stand_in: StandIn) -> None:
    stand_in.delay = "long"
    with pytest.raises(Retry, match="InhibitDelayMaxUSec from logind is not a uint64 as expected"):
        async with Logind(address=address).notices(5):
            raise AssertionError
    stand_in.delay = 5_000_000
    async with Logind(address=address).notices(5) as notices:
        told = notices.told()
        stand_in.say("s", "now")
        stand_in.say("")
        stand_in.say("b", True)
        assert await anext(told) is True
        await told.aclose()


async def test_a_bus_that_goes_away_ends_what_is_told_and_lets_the_machine_go(
    tmp_path: Path,
) -> None:
    with private_bus(tmp_path) as address:
        async with logind(address, tmp_path) as stand_in:
            notices = Logind(address=address).notices(5)
            told = (await notices.__aenter__()).told()
            waiting = asyncio.ensure_future(anext(told, None))
            await settled(lambda: stand_in.locks == 1)
    assert await asyncio.wait_for(waiting, 10) is None
    await notices.__aexit__(None, None, None)


async def test_nobody_else_of_the_machine_ends_our_pods(address: str, stand_in: StandIn, tmp_path: Path) -> None:
    """A signal to one connection passes every rule of the bus: all of it is logind's but for who has sent it."""
    async with Logind(address=address, root=tmp_path).notices(5) as notices, dbus.connected(address) as bus:
        stranger, told = StandIn(bus, tmp_path), notices.told()
        for _ in range(200):
            stranger.say("b", True, to=stand_in.asked_by)
        next_word = asyncio.create_task(anext(told))
        await asyncio.sleep(0.3)
        assert not next_word.done()
        for _ in range(200):
            stranger.say("b", True, to=stand_in.asked_by)
        stand_in.say("b", False)
        assert await asyncio.wait_for(next_word, 5) is False, "logind is heard among all who shout"
        await told.aclose()


async def test_logind_that_was_started_again_is_heard(address: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as first:
        await first.enter_async_context(logind(address, tmp_path))
        async with Logind(address=address, root=tmp_path).notices(5) as notices:
            told = notices.told()
            await first.aclose()
            async with logind(address, tmp_path) as second:
                second.say("b", True)
                assert await asyncio.wait_for(anext(told), 5) is True
            await told.aclose()


async def test_a_flood_of_signals_ends_the_connection_and_not_the_agent(address: str, stand_in: StandIn) -> None:
    async with Logind(address=address).notices(5) as notices:
        for _ in range(200):
            stand_in.say("b", False)
        await asyncio.sleep(0.2)  # nobody reads meanwhile
        assert len([each async for each in notices.told()]) <= 16


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"OK 1234\r\nERROR\r\n",
        b"OK 1234\r\nAGREE_UNIX_FD\r\n" + b"\xff" * 64,
        b"OK 1234\r\nAGREE_UNIX_FD\r\nl\2\1\1" + b"\xff\xff\xff\x7f" * 3,
        b"OK 1234\r\nAGREE_UNIX_FD\r\nl\2\1\1\0\0\0\0\1\0\0\0\x10\0\0\0" + b"\x08\1g\0" + b"aaaaaaaaaaaa",
        b"O" * 10_000,
        b"",
    ],
)
async def test_whoever_speaks_another_language_is_told_of_and_left(said: bytes, tmp_path: Path) -> None:
    def stranger() -> None:
        with server, server.accept()[0] as connection, suppress(OSError):
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "bus"))
        server.listen()
        answering = asyncio.create_task(asyncio.to_thread(stranger))
        with pytest.raises(Retry):
            async with Logind(address=f"unix:path={tmp_path}/bus").notices(5):
                raise AssertionError
        await answering

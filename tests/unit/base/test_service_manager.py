"""What systemd is told, as it would hear it."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.virtual_time import virtual_time
from pykubelet.base.errors import Invalid
from pykubelet.base.service_manager import READY, keep_watchdog, notify, tell_ready, watchdog_period


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def heard(listener: socket.socket) -> list[bytes]:
    found = []
    while True:
        try:
            found.append(listener.recv(100))
        except BlockingIOError:
            return found


def test_the_word_comes_through_a_file_or_an_abstract_name(manager: socket.socket) -> None:
    assert notify(READY)
    assert heard(manager) == [b"READY=1"]
    name = f"pykubelet-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        assert notify(READY, {"NOTIFY_SOCKET": f"@{name}"})
        assert listener.recv(100) == b"READY=1"


def test_without_a_service_manager_nobody_is_told() -> None:
    assert not notify(READY, {})


def test_a_manager_that_does_not_listen_is_no_reason_to_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    tell_ready()
    assert "cannot be told that the agent has started: No such file or directory" in caplog.text


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, 0.0),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0.0),
    ],
)
def test_the_manager_says_how_often_it_wants_to_hear_of_us(environment: dict[str, str], seconds: float) -> None:
    assert watchdog_period(environment) == seconds


@pytest.mark.parametrize("text", ["0", "-1", "soon", "1000000"])
def test_a_period_that_cannot_be_kept_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="WATCHDOG_USEC: must be"):
        watchdog_period({"WATCHDOG_USEC": text})


@virtual_time
async def test_the_manager_hears_of_us_twice_in_each_period_for_as_long_as_we_are_well(manager: socket.socket) -> None:
    troubles = [""]
    watching = asyncio.create_task(keep_watchdog(10.0, lambda: troubles[0]))
    await asyncio.sleep(14.9)
    assert heard(manager) == [b"WATCHDOG=1"] * 3
    troubles[0] = "the sync loop is stuck"
    await asyncio.sleep(30.0)
    assert heard(manager) == []
    troubles[0] = ""
    await asyncio.sleep(5.0)
    assert heard(manager) == [b"WATCHDOG=1"]
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


@virtual_time
async def test_a_word_that_did_not_get_through_is_said_once_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "late"))
    watching = asyncio.create_task(keep_watchdog(10.0, lambda: ""))
    await asyncio.sleep(0.5)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "late"))
        listener.setblocking(False)
        await asyncio.sleep(1.0)
        assert heard(listener) == [b"WATCHDOG=1"]
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)

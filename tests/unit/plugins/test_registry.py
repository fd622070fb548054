"""Sockets come, go, hang and lie: who is behind them is taken in or told what is wrong, and keeps nobody waiting."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from kit.plugin_socket import Introduction
from kit.waiting import eventually
from pykubelet.base.errors import Invalid
from pykubelet.plugins._gen.registration_pb2 import PluginInfo
from pykubelet.plugins.registry import CSI, PluginRegistry, checked_endpoint, sockets


class Taken:
    """`now` is who is registered, with the endpoint."""

    def __init__(self) -> None:
        self.now: dict[str, str] = {}
        self.versions: tuple[str, ...] = ()
        self.refusal = ""

    async def register(self, name: str, endpoint: str, versions: tuple[str, ...]) -> None:
        if self.refusal:
            raise Invalid(self.refusal)
        self.now[name] = endpoint
        self.versions = versions

    async def deregister(self, name: str, endpoint: str) -> None:
        if self.now.get(name) == endpoint:
            del self.now[name]


@asynccontextmanager
async def watching(folder: Path, taken: Taken) -> AsyncIterator[None]:
    task = asyncio.create_task(PluginRegistry(str(folder), {CSI: taken}).run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def driver(name: str = "one.example.com", *, type: str = CSI, endpoint: str = "") -> PluginInfo:
    return PluginInfo(type=type, name=name, endpoint=endpoint, supported_versions=["1.0.0"])


async def test_a_plug_in_is_there_for_as_long_as_its_socket(tmp_path: Path) -> None:
    taken, folder = Taken(), tmp_path / "registry"
    async with watching(folder, taken):
        await eventually(folder.is_dir)
        (folder / "below").mkdir()
        plugin = Introduction(driver())
        async with plugin.at(folder / "below" / "one.sock"):
            await eventually(lambda: plugin.told == [""])
            assert taken.now == {"one.example.com": f"{folder}/below/one.sock"}
            assert taken.versions == ("1.0.0",)
        await eventually(lambda: not taken.now)
    assert plugin.asked == 1


async def test_one_that_was_there_before_is_found_and_is_let_go_at_the_end(tmp_path: Path) -> None:
    taken, plugin = Taken(), Introduction(driver(endpoint="/run/one/csi.sock"))
    async with plugin.at(tmp_path / "one.sock"):
        async with watching(tmp_path, taken):
            await eventually(lambda: taken.now == {"one.example.com": "/run/one/csi.sock"})
        assert not taken.now


async def test_another_socket_at_the_same_place_is_another_plug_in(tmp_path: Path) -> None:
    taken, first, second = Taken(), Introduction(driver("first")), Introduction(driver("second"))
    async with watching(tmp_path, taken):
        async with first.at(tmp_path / "p.sock"):
            await eventually(lambda: "first" in taken.now)
        async with second.at(tmp_path / "p.sock"):
            await eventually(lambda: list(taken.now) == ["second"])


async def test_who_cannot_be_taken_in_is_told_why_and_is_asked_again(tmp_path: Path) -> None:
    taken, plugin = Taken(), Introduction(driver())
    taken.refusal = "too old"
    async with watching(tmp_path, taken), plugin.at(tmp_path / "p.sock"):
        await eventually(lambda: plugin.told[:1] == ["RegisterPlugin error -- too old"])
        taken.refusal = ""
        await eventually(lambda: plugin.told[-1] == "")
        assert "one.example.com" in taken.now


@pytest.mark.parametrize(
    ("info", "told"),
    [
        (driver(type="DRAPlugin"), "no handler registered for plugin type: DRAPlugin"),
        (driver(type="Weird"), "no handler registered for plugin type: Weird"),
        (driver(endpoint="relative/p.sock"), "'relative/p.sock' is no socket"),
        (driver(endpoint="/" + "x" * 200), "at most 107 bytes"),
    ],
)
async def test_nonsense_is_refused(tmp_path: Path, info: PluginInfo, told: str) -> None:
    taken, plugin = Taken(), Introduction(info)
    async with watching(tmp_path, taken), plugin.at(tmp_path / "p.sock"):
        await eventually(lambda: plugin.told)
        assert told in plugin.told[0]
        assert not taken.now


async def test_one_that_hangs_and_one_that_does_not_listen_keep_nobody_waiting(tmp_path: Path) -> None:
    taken = Taken()
    hanging, deaf, well = (
        Introduction(driver("a"), hangs=True),
        Introduction(driver("b"), is_deaf=True),
        Introduction(driver("c")),
    )
    async with watching(tmp_path, taken), hanging.at(tmp_path / "a.sock"), deaf.at(tmp_path / "b.sock"):
        await eventually(lambda: hanging.asked == 1 and deaf.asked >= 1)
        async with well.at(tmp_path / "c.sock"):
            await eventually(lambda: "c" in taken.now)
            await eventually(lambda: deaf.asked >= 2)
            assert "a" not in taken.now


def test_what_is_no_socket_is_not_looked_at(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "registry"
    for each in (outside, folder, folder / ".hidden", folder / "below"):
        each.mkdir()
    for path in (
        outside / "o.sock",
        folder / "a.sock",
        folder / ".b.sock",
        folder / ".hidden" / "c.sock",
        folder / "below" / "d.sock",
    ):
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    (folder / "file").write_text("")
    (folder / "folder").symlink_to(outside)
    (folder / "link").symlink_to(outside / "o.sock")
    (folder / "nowhere").symlink_to(outside / "nothing")
    os.mkfifo(folder / "pipe")
    found = {os.path.relpath(path, folder) for path, _ in sockets(str(folder))}
    assert found == {"a.sock", "below/d.sock", "link"}


def test_only_so_many_are_looked_at(tmp_path: Path) -> None:
    for number in range(250):
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(tmp_path / f"{number}"))
    assert len(list(sockets(str(tmp_path)))) == 200


def test_an_endpoint_may_be_written_as_an_address() -> None:
    assert checked_endpoint("unix:///run/x.sock") == "/run/x.sock"

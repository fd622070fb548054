"""A private D-Bus, and on it a stand-in for systemd's logind that says what a test wants, well-behaved or not."""

import asyncio
import os
import re
import select
import shutil
import socket
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kit.waiting import wait_for
from pykubelet.host import dbus
from pykubelet.host.dbus import Bus, Message, connected

_CONFIGURATION = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="false"/><allow eavesdrop="false"/><allow own="*"/>
</policy></busconfig>
"""
PATH = "/org/freedesktop/login1"
MANAGER = "org.freedesktop.login1.Manager"


@contextmanager
def private_bus(folder: Path) -> Iterator[str]:
    """-> its address"""
    if shutil.which("dbus-daemon") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("dbus-daemon is not installed (tools/install_test_packages.sh installs it)")
        pytest.skip("needs dbus-daemon")
    path, configuration = folder / "bus", folder / "bus.conf"
    configuration.write_text(_CONFIGURATION.format(path=path))
    command = ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--nopidfile"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as daemon:
        try:
            wait_for(path.exists, seconds=10)
            yield f"unix:path={path}"
        finally:
            daemon.kill()


class StandIn:
    """`root` is where the machine's files are; what is configured there holds after a reload."""

    def __init__(self, bus: Bus, root: Path) -> None:
        self._bus = bus
        self._root = root
        self._ends: list[int] = []
        self.delay: Any = 5_000_000
        self.heeds = True
        """Whether it heeds what is configured."""
        self.is_mute = False
        self.inhibited: list[tuple[Any, ...]] = []
        self.asked_by = ""
        """Who has asked for a lock."""

    @property
    def locks(self) -> int:
        """How many hold the machine up."""
        gone = [end for end in self._ends if select.select([end], [], [], 0)[0]]
        return len(self._ends) - len(gone)

    def say(self, signature: str, *values: Any, to: str = "") -> None:
        """PrepareForShutdown, with anything for an argument, to all or to one."""
        fields = {1: ("o", PATH), 2: ("s", MANAGER), 3: ("s", "PrepareForShutdown")}
        self._send(4, {**fields, 6: ("s", to)} if to else fields, signature, values)

    def answer(self, call: Message) -> None:
        if self.is_mute:
            return
        match call.fields.get(3):
            case "Get":
                self._reply(call, "v", self.delay)
            case "KillUnit":
                if self.heeds:
                    text = (self._root / "etc/systemd/logind.conf.d/99-kubelet.conf").read_text()
                    found = re.search(r"^InhibitDelayMaxSec=(\d+)$", text, re.MULTILINE)
                    assert found is not None
                    self.delay = int(found[1]) * 1_000_000
                self._reply(call, "")
            case "Inhibit":
                self.inhibited.append(call.body)
                self.asked_by = call.fields[7]
                mine, theirs = os.pipe()
                self._ends.append(mine)
                self._reply(call, "h", 0, fds=[theirs])
                os.close(theirs)

    def _reply(self, call: Message, signature: str, *values: Any, fds: list[int] | None = None) -> None:
        fields: dict[int, tuple[str, Any]] = {5: ("u", call.serial), 6: ("s", call.fields[7])}
        if fds:
            fields[9] = ("u", len(fds))
        self._send(2, fields, signature, values, fds or [])

    def _send(
        self, kind: int, fields: dict[int, tuple[str, Any]], signature: str, values: Any, fds: list[int] | None = None
    ) -> None:
        body, head = dbus._Writer(), dbus._Writer()
        for each, value in zip(signature, values, strict=True):
            if each == "v":
                inner = "t" if isinstance(value, int) else "s"
                body.put("g", inner)
                body.put(inner, value)
            else:
                body.put(each, value)
        if signature:
            fields = {**fields, 8: ("g", signature)}
        for code, (form, value) in fields.items():
            head.align(8)
            head.put("y", code)
            head.put("g", form)
            head.put(form, value)
        self._bus._serial += 1
        start = struct.pack("<cBBBIII", b"l", kind, 1, 1, len(body.data), self._bus._serial, len(head.data))
        whole = bytearray(start + head.data)
        whole += bytes(-len(whole) % 8) + body.data
        socket.send_fds(self._bus._socket, [bytes(whole)], fds or [])

    def close(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                os.close(end)


@asynccontextmanager
async def logind(address: str, root: Path) -> AsyncIterator[StandIn]:
    async with connected(address) as bus:
        made = StandIn(bus, root)
        take = bus._take

        def heard(message: Message) -> None:
            if message.kind == 1:
                made.answer(message)
            else:
                take(message)

        bus._take = heard  # type: ignore[method-assign]
        for name in ("org.freedesktop.login1", "org.freedesktop.systemd1"):
            await bus.call(dbus._BUS, "RequestName", "su", name, 4)
        try:
            yield made
        finally:
            made.close()


async def settled(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)

"""The machine's own word on its shutdown: systemd's logind says that it is near, and waits for who holds a lock."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Retry
from pykubelet.host.dbus import Bus, connected
from pykubelet.host.threads import in_thread

log = logging.getLogger(__name__)

_LOGIND: Final = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
_PROPERTIES: Final = (*_LOGIND[:2], "org.freedesktop.DBus.Properties")
_SYSTEMD: Final = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_SIGNAL: Final = "PrepareForShutdown"
_OVERRIDES: Final = "etc/systemd/logind.conf.d"
_OVERRIDE: Final = "99-kubelet.conf"
_SIGHUP: Final = 1
_RELOADS: Final = 10
_PAUSE: Final = 0.2


class Logind:
    """The ShutdownNotice port. `address` is that of the bus, empty for the system's; `root` is where the files of the
    machine are."""

    def __init__(self, *, address: str = "", root: Path = Path("/")) -> None:
        self._address = address
        self._folder = root / _OVERRIDES

    @asynccontextmanager
    async def notices(self, seconds: float) -> AsyncGenerator["LogindNotices", None]:
        async with connected(self._address) as bus:
            await self._allow(bus, seconds)
            notices = LogindNotices(bus)
            try:
                await notices.hold()
                await bus.follow(*_LOGIND, _SIGNAL)
                yield notices
            finally:
                notices.let_go()

    async def _allow(self, bus: Bus, seconds: float) -> None:
        """Have logind wait for as long as pods may take."""
        if await _longest_delay(bus) >= seconds:
            return
        try:
            await in_thread(self._write, seconds)
        except OSError as error:
            what = f"failed writing logind shutdown inhibit override file {self._folder / _OVERRIDE}: {error.strerror}"
            raise Retry(f"unable to override inhibit delay by shutdown manager: {what}") from None
        await bus.call(_SYSTEMD, "KillUnit", "ssi", "systemd-logind.service", "all", _SIGHUP)
        delay = 0.0
        for _ in range(_RELOADS):  # it reads its files when it gets to it
            if (delay := await _longest_delay(bus)) >= seconds:
                return
            await asyncio.sleep(_PAUSE)
        raise Retry(
            f"node shutdown manager was unable to update logind InhibitDelayMaxSec to {seconds:g}s "
            f"(ShutdownGracePeriod), current value of InhibitDelayMaxSec ({delay:g}s) is less than requested "
            "ShutdownGracePeriod"
        )

    def _write(self, seconds: float) -> None:
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        (self._folder / _OVERRIDE).write_text(f"# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={seconds:.0f}\n")


class LogindNotices:
    """While the connection lasts."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._lock: int | None = None

    async def hold(self) -> None:
        """From now on the machine does not go down before we let go, or its patience ends."""
        why = "Kubelet needs time to handle node shutdown"
        answer = await self._bus.call(_LOGIND, "Inhibit", "ssss", "shutdown", "kubelet", why, "delay")
        self.let_go()
        if len(answer.fds) != 1:
            for fd in answer.fds:
                os.close(fd)
            raise Retry("logind gives no lock when asked for one")
        (self._lock,) = answer.fds

    def let_go(self) -> None:
        if self._lock is not None:
            with suppress(OSError):
                os.close(self._lock)
            self._lock = None

    async def told(self) -> AsyncGenerator[bool, None]:
        """Whether the machine is about to go down, each time that this is said. Ends with the connection."""
        async with aclosing(self._bus.signals()) as signals:
            async for signal in signals:
                said = signal.body[0] if signal.body else None
                if isinstance(said, bool):
                    yield said
                else:
                    log.warning("logind speaks of a shutdown, but not whether there is one: it is ignored")


async def _longest_delay(bus: Bus) -> float:
    """Seconds that logind waits at most for those who hold a lock."""
    answer = await bus.call(_PROPERTIES, "Get", "ss", _LOGIND[2], "InhibitDelayMaxUSec")
    delay = answer.body[0] if answer.body else None
    if not isinstance(delay, int) or isinstance(delay, bool):
        raise Retry("InhibitDelayMaxUSec from logind is not a uint64 as expected")
    return delay / 1_000_000

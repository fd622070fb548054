"""What the machine's service manager is told: that the agent has started, and again and again that it is well. It is
systemd's protocol: a datagram to the socket that the environment names."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.tasks import every

log = logging.getLogger(__name__)

READY: Final = "READY=1"
_WELL: Final = "WATCHDOG=1"
_SHORTEST: Final = 1.0
_TRIES: Final = 2
_PAUSE: Final = 1.0


def notify(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """-> whether there is somebody to tell. Raises OSError when the word does not get through."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address[0] == "@":  # a name of the kernel's, not of a file
        address = f"\0{address[1:]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)
        sender.connect(address)
        sender.sendall(state.encode())
    return True


def tell_ready() -> None:
    try:
        notify(READY)
    except OSError as error:
        log.warning("the service manager cannot be told that the agent has started: %s", error.strerror)


def tell_well() -> None:
    """Once; the next time is soon enough for what did not get through."""
    with suppress(OSError):
        notify(_WELL)


def watchdog_period(environment: Mapping[str, str] = os.environ) -> float:
    """Seconds after which the service manager wants to have heard of us; 0: it does not care. Raises Invalid."""
    text, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not text or (process and process != str(os.getpid())):
        return 0.0
    if not text.isdecimal() or int(text) == 0:
        raise Invalid(f"WATCHDOG_USEC: must be a number of microseconds, got {text!r}")
    seconds = int(text) / 1e6
    if seconds <= _SHORTEST:
        raise Invalid(
            f"WATCHDOG_USEC: must be more than {_SHORTEST:g} s, got {seconds:g} s; see WatchdogSec= of the unit"
        )
    return seconds


async def keep_watchdog(period: float, troubles: Callable[[], str]) -> None:
    """Say twice in each period that the agent is well, unless it is not. Until cancelled."""
    async for _ in every(period / 2):
        if why := troubles():
            log.error("the service manager is not told that the agent is well: %s", why)
            continue
        for left in reversed(range(_TRIES)):
            try:
                notify(_WELL)
                break
            except OSError as error:
                if not left:
                    log.error("the service manager cannot be told that the agent is well: %s", error.strerror)
                else:
                    await asyncio.sleep(_PAUSE)

"""Ways to the addresses of services where no route leads to them, as on a machine without a default route: the kernel
would refuse them before the packet filter sees them.

Each is a route to one address by the loopback interface, which a packet never takes: the packet filter has led it
elsewhere, or refused it. Ours are known by their metric. Everything here blocks.
"""

import os
import shutil
import socket
import subprocess
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pykubelet.base.own_addresses import own_addresses

_FAR_AWAY: Final = "192.0.2.1"
"""For documentation: it belongs to nobody, only a default route leads there."""
_ROUTES: Final = Path("/proc/net/route")
_PLACES: Final = "/usr/sbin:/sbin:/usr/local/sbin"
_SECONDS: Final = 30.0


def keep(addresses: Iterable[str], table: str) -> str:
    """Exactly those IPv4 addresses have a route of ours that need one. -> what is wrong; empty: nothing."""
    have = _ours(table)
    wanted = set() if _is_led(_FAR_AWAY) else {each for each in addresses if each in have or not _is_led(each)}
    lines = [f"route del {each} dev lo metric {_metric(table)}" for each in sorted(have - wanted)]
    lines += [f"route replace {each} dev lo metric {_metric(table)}" for each in sorted(wanted - have)]
    return _run(lines) if lines else ""


def why_not(table: str) -> str:
    """What keeps us from making one where it takes one; empty: nothing. It is tried."""
    if _is_led(_FAR_AWAY):
        return ""
    if all(":" in each or each.startswith("127.") for each in own_addresses()):
        return "this machine is in no network, so that packets would have no sender"
    if _ours(table):
        return ""
    trouble = keep([_FAR_AWAY], table) or keep([], table)
    return f"this machine has no default route, and no other could be made: {trouble}" if trouble else ""


def _metric(table: str) -> int:
    """Of the agent with that table. The kernel shows it as a number with a sign."""
    return zlib.crc32(table.encode()) >> 1


def _ours(table: str) -> set[str]:
    try:
        lines = [each.split() for each in _ROUTES.read_text().splitlines()[1:]]
    except OSError:
        return set()
    metric = str(_metric(table))
    return {_address(line[1]) for line in lines if line[0] == "lo" and line[6] == metric}


def _address(shown: str) -> str:
    """As the kernel shows it: the number that the four bytes are on this machine."""
    return socket.inet_ntoa(socket.htonl(int(shown, 16)).to_bytes(4, "big"))


def _is_led(address: str) -> bool:
    """Whether there is a route there. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        try:
            unsent.connect((address, 9))
        except OSError:
            return False
    return True


def _run(lines: list[str]) -> str:
    program = shutil.which("ip", path=f"{os.environ.get('PATH', os.defpath)}:{_PLACES}")
    if program is None:
        return "the program ip is not installed (package iproute2)"
    try:
        done = subprocess.run(  # noqa: S603 - ours
            [program, "-force", "-batch", "-"],
            input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    said = next((line for line in done.stderr.splitlines() if line.strip()), "")
    return said.partition("Error: ")[2] or said or f"ip ended with code {done.returncode}"

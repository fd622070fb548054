"""What has gone through the network interfaces of a network namespace."""

from typing import Final

from pykubelet.host.stats.files import read
from pykubelet.pod.stats.stats import Interface

_IGNORED: Final = (b"lo", b"veth", b"docker", b"nerdctl")
"""Upstream's: loopback, and the host's ends of what others count as theirs."""
_WORDS: Final = 17


def interfaces(path: str) -> tuple[Interface, ...] | None:
    """From a file such as /proc/<pid>/net/dev; None when it cannot be read."""
    data = read(path)
    if data is None:
        return None
    found = []
    for line in data.splitlines()[2:]:
        words = line.replace(b":", b" ", 1).split()
        if len(words) != _WORDS or words[0].lower().startswith(_IGNORED):
            continue
        counts = [int(word) for word in words[1:]]
        found.append(
            Interface(
                name=words[0].decode(errors="replace"),
                rx_bytes=counts[0],
                rx_packets=counts[1],
                rx_errors=counts[2],
                rx_dropped=counts[3],
                tx_bytes=counts[8],
                tx_packets=counts[9],
                tx_errors=counts[10],
                tx_dropped=counts[11],
            )
        )
    return tuple(found)

"""What the kernel remembers of UDP clients: where the packets of each go, as long as it keeps sending. A client whose
endpoint is gone would be led there until it is silent for a while, so such memories are deleted.

The kernel is spoken to by netlink (ctnetlink). What it says is read with care all the same: a request to delete that
does not name one entry would delete all of them.
"""

import errno
import ipaddress
import os
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from pykubelet.services.fronts import Family, Front, Place

Spot = tuple[bytes, int]
"""An address as the kernel writes it, and a port."""
Wanted = Mapping[Spot, frozenset[Spot]]
"""Where clients send to, and who may be behind it."""

SECONDS: Final = 3.0
"""For one look through all entries. What is left then is forgotten by the kernel when its client is silent."""
_PIECE: Final = 64 << 10
_NETFILTER: Final = 12
_GET, _DELETE, _ENTRY = 0x101, 0x102, 0x100
_ERROR, _DONE = 2, 3
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_HEAD: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_KIND: Final = 0x3FFF
"""Of an attribute; the rest of the number are flags."""
_NESTED: Final = 0x8000
_FAMILIES: Final[dict[Family, int]] = {4: socket.AF_INET, 6: socket.AF_INET6}
_LOOPBACK: Final[dict[Family, str]] = {4: "127.0.0.1", 6: "::1"}
_TUPLE, _REPLY, _ID, _ZONE, _FILTER = 1, 2, 12, 18, 25
_BY_PROTOCOL: Final = 1 << 3
_HIGHEST_CODE: Final = 4095


class Entry(NamedTuple):
    """Where a client sends to, who answers, and what the kernel knows it by."""

    to: Spot
    by: Spot
    name: bytes


def wanted(fronts: Iterable[Front], place: Place, family: Family) -> Wanted:
    """Of UDP alone. A front that nobody is behind is left out: its clients have nowhere else to go. Endpoints on their
    way out keep the clients that they have."""
    here = [each for each in place.addresses if (":" in each) == (family == 6)]
    found: dict[Spot, frozenset[Spot]] = {}
    for front in fronts:
        if front.protocol != "UDP" or not front.backends:
            continue
        ends = frozenset(_spot(each.address, each.port) for each in (*front.backends, *front.leaving))
        for address in (*front.cluster, *front.external):
            found[_spot(address, front.port)] = ends
        for address in (_LOOPBACK[family], *here) if front.node_port else ():
            found[_spot(address, front.node_port)] = ends
    return found


def is_stale(entry: Entry, wanted: Wanted) -> bool:
    """Whether it leads packets to a service past all who are behind that. What goes elsewhere is not ours."""
    ends = wanted.get(entry.to)
    return ends is not None and entry.by not in ends


def forget_stale(wanted: Wanted, family: Family, *, seconds: float = SECONDS) -> int:
    """-> how many were deleted. Blocks, for as long at most. Raises OSError: not allowed, not there, not in time."""
    until, deleted = time.monotonic() + seconds, 0
    with _Netlink(until) as looking, _Netlink(until) as deleting:
        for payload in looking.ask(_GET, _DUMP, family, _only_udp()):
            entry = read_entry(payload)
            if entry is not None and is_stale(entry, wanted):
                try:
                    all(deleting.ask(_DELETE, _ACK, family, entry.name))
                    deleted += 1
                except FileNotFoundError:
                    pass  # its time was over
    return deleted


def read_entry(payload: bytes) -> Entry | None:
    """None: not one of UDP with all that is needed, or not readable."""
    parts = dict(attributes(payload[4:]))
    there, back = _read_tuple(parts.get(_TUPLE, b"")), _read_tuple(parts.get(_REPLY, b""))
    if there is None or back is None or len(parts.get(_ID, b"")) != 4:
        return None
    zone = _attribute(_ZONE, parts[_ZONE]) if _ZONE in parts else b""
    return Entry(there[1], back[0], _attribute(_NESTED | _TUPLE, parts[_TUPLE]) + _attribute(_ID, parts[_ID]) + zone)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Up to the first that is none."""
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if not _ATTRIBUTE.size <= length <= len(data) - offset:
            return
        yield kind & _KIND, data[offset + _ATTRIBUTE.size : offset + length]
        offset += _aligned(length)


def messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Each kind, number and payload, up to the first that is none."""
    offset = 0
    while offset + _HEAD.size <= len(data):
        length, kind, _, number, _ = _HEAD.unpack_from(data, offset)
        if not _HEAD.size <= length <= len(data) - offset:
            return
        yield kind, number, data[offset + _HEAD.size : offset + length]
        offset += _aligned(length)


def _read_tuple(data: bytes) -> tuple[Spot, Spot] | None:
    """-> from where, and to where"""
    parts = dict(attributes(data))
    protocol = dict(attributes(parts.get(2, b"")))
    ports = protocol.get(2, b""), protocol.get(3, b"")
    if protocol.get(1) != bytes([socket.IPPROTO_UDP]) or [len(each) for each in ports] != [2, 2]:
        return None
    addresses = dict(attributes(parts.get(1, b"")))
    for source, target, size in ((1, 2, 4), (3, 4, 16)):
        if len(addresses.get(source, b"")) == len(addresses.get(target, b"")) == size:
            of, to = (int.from_bytes(each, "big") for each in ports)
            return (addresses[source], of), (addresses[target], to)
    return None


def _only_udp() -> bytes:
    """A wish: kernels before 5.8 tell of all."""
    protocol = _attribute(_NESTED | 2, _attribute(1, bytes([socket.IPPROTO_UDP])))
    by = _attribute(1, struct.pack("=I", _BY_PROTOCOL))
    return _attribute(_NESTED | _TUPLE, protocol) + _attribute(_NESTED | _FILTER, by)


def _attribute(kind: int, data: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(data)
    return _ATTRIBUTE.pack(length, kind) + data + bytes(_aligned(length) - length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _spot(address: str, port: int) -> Spot:
    return ipaddress.ip_address(address).packed, port


class _Netlink:
    def __init__(self, until: float) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)
        self._until = until
        self._number = 0

    def __enter__(self) -> "_Netlink":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, kind: int, flags: int, family: Family, body: bytes) -> Iterator[bytes]:
        """What it tells of entries, as it comes."""
        self._number += 1
        payload = bytes([_FAMILIES[family], 0, 0, 0]) + body
        head = _HEAD.pack(_HEAD.size + len(payload), kind, _REQUEST | flags, self._number, 0)
        self._socket.sendto(head + payload, (0, 0))
        while True:
            self._socket.settimeout(max(self._until - time.monotonic(), 0.001))
            data, (sender, _) = self._socket.recvfrom(_PIECE)
            if time.monotonic() > self._until:
                raise TimeoutError(errno.ETIMEDOUT, "there are too many entries to look through")
            for told, number, content in messages(data) if sender == 0 else ():
                if number != self._number:
                    continue
                if told in (_ERROR, _DONE):
                    if code := abs(int.from_bytes(content[:4], sys.byteorder, signed=True)):
                        raise OSError(code, os.strerror(min(code, _HIGHEST_CODE)))
                    return
                if told == _ENTRY:
                    yield content

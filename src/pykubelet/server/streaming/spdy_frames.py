"""SPDY/3.1 frames as bytes: what came is told as events, what is said is given as bytes. No sockets, no waiting.

kubectl and the API server speak it on upgraded connections. They use it as the Go library spdystream does: streams,
header blocks, data and resets, and no flow-control windows; so windows are read over, and nobody is held to them.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_VERSION: Final = 3
_LARGEST_HEADERS: Final = 16 << 10
"""Of a header block, packed or unpacked. Clients of the kubelet say three short words in it."""
_MOST_HEADERS: Final = 100
_LARGEST_CONTROL: Final = _LARGEST_HEADERS + 10
_LARGEST_DATA: Final = (1 << 24) - 1
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _HEADERS, _WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
_LEAST: Final = {
    _SYN_STREAM: 10,
    _SYN_REPLY: 4,
    _RST_STREAM: 8,
    _SETTINGS: 4,
    _PING: 4,
    _GOAWAY: 8,
    _HEADERS: 4,
    _WINDOW_UPDATE: 8,
}
"""How many bytes a frame of each type has at least."""
_FIN: Final = 1
_UNIDIRECTIONAL: Final = 2
_WORD: Final = struct.Struct(">I")
_PAIR: Final = struct.Struct(">II")

PROTOCOL_ERROR: Final = 1
REFUSED_STREAM: Final = 3
CANCEL: Final = 5

_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    """What both ends' zlib knows beforehand; the protocol says it to the byte."""
    words = [word.replace("_", " ").encode() for word in _WORDS.split()]
    return b"".join(_WORD.pack(len(word)) + word for word in words) + _REST.encode()


DICTIONARY: Final = _dictionary()


class ProtocolError(Exception):
    """The other side does not keep to SPDY; nothing more can be understood of what it says."""


class Opened(NamedTuple):
    stream_id: int
    headers: Mapping[str, str]
    is_ended: bool = False
    """Its opener will say nothing on it."""
    is_one_way: bool = False


class Replied(NamedTuple):
    stream_id: int
    headers: Mapping[str, str]
    is_ended: bool = False


class Told(NamedTuple):
    """More headers of a stream."""

    stream_id: int
    headers: Mapping[str, str]
    is_ended: bool = False


class Data(NamedTuple):
    """A frame's bytes, or the part of them that has come so far."""

    stream_id: int
    data: bytes
    is_ended: bool = False


class Reset(NamedTuple):
    stream_id: int
    status: int


class Ping(NamedTuple):
    ping_id: int


class GoAway(NamedTuple):
    last_stream_id: int


Event = Opened | Replied | Told | Data | Reset | Ping | GoAway


class Framing:
    """One end of a connection."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        """The beginning of a frame whose rest has not come yet."""
        self._missing = 0
        self._data_id = 0
        self._data_left = 0
        self._data_ends = False
        self._unpacker = zlib.decompressobj(zdict=DICTIONARY)
        self._packer = zlib.compressobj(zdict=DICTIONARY)

    # --- what comes

    def feed(self, data: bytes) -> Iterator[Event]:
        """What is new with these bytes, to be taken to the end. Raises ProtocolError, after which nothing more can be.

        One by one: what is small as long as it is packed never lies about unpacked.
        """
        if self._held:
            self._held.append(data)
            self._missing -= len(data)
            if self._missing > 0:  # joined once, however small the pieces are
                return
            data, self._held = b"".join(self._held), []
        at, end = 0, len(data)
        while at < end:
            if self._data_id:
                part = data[at : at + self._data_left]
                at += len(part)
                yield self._taken(part)
                continue
            size = self._size(data, at)
            if size > end - at:
                self._held, self._missing = [data[at:]], size - (end - at)
                break
            first, second = _PAIR.unpack_from(data, at)
            if first >> 31:
                event = self._control(first & 0xFFFF, second >> 24, data[at + 8 : at + size])
                if event is not None:
                    yield event
            else:
                self._data_id, self._data_left = first, second & 0xFFFFFF
                self._data_ends = bool(second >> 24 & _FIN)
                if not self._data_left:
                    yield self._taken(b"")
            at += size

    def _size(self, data: bytes, at: int) -> int:
        """How many bytes have to be there to go on: the whole of a control frame, of a data frame the head alone."""
        if len(data) - at < 8:
            return 8
        first, second = _PAIR.unpack_from(data, at)
        version, length = first >> 16 & 0x7FFF, second & 0xFFFFFF
        if not first:
            raise ProtocolError("data came on stream 0")
        if not first >> 31:
            return 8
        if version != _VERSION:
            raise ProtocolError(f"a frame says it is of SPDY version {version}, not {_VERSION}")
        if length > _LARGEST_CONTROL:
            raise ProtocolError(f"a control frame has {length} bytes; at most {_LARGEST_CONTROL} are read")
        return 8 + int(length)

    def _taken(self, part: bytes) -> Data:
        self._data_left -= len(part)
        event = Data(self._data_id, part, self._data_ends and not self._data_left)
        if not self._data_left:
            self._data_id = 0
        return event

    def _control(self, kind: int, flags: int, body: bytes) -> Event | None:
        if kind not in _LEAST:
            raise ProtocolError(f"there is no control frame of type {kind}")
        if len(body) < _LEAST[kind]:
            raise ProtocolError(f"a control frame of type {kind} has only {len(body)} bytes")
        first = _WORD.unpack_from(body)[0] & 0x7FFFFFFF
        if kind in (_SYN_STREAM, _SYN_REPLY, _HEADERS, _RST_STREAM) and not first:
            raise ProtocolError(f"a control frame of type {kind} is about stream 0")
        if kind == _SYN_STREAM:
            return Opened(first, self._headers(body[10:]), bool(flags & _FIN), bool(flags & _UNIDIRECTIONAL))
        if kind == _SYN_REPLY:
            return Replied(first, self._headers(body[4:]), bool(flags & _FIN))
        if kind == _HEADERS:
            return Told(first, self._headers(body[4:]), bool(flags & _FIN))
        if kind == _RST_STREAM:
            return Reset(first, _WORD.unpack_from(body, 4)[0])
        if kind == _PING:
            return Ping(_WORD.unpack_from(body)[0])
        if kind == _GOAWAY:
            return GoAway(first)
        return None  # settings and windows: nobody is held to them

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            block = self._unpacker.decompress(packed, _LARGEST_HEADERS + 1)
        except zlib.error as error:
            raise ProtocolError(f"headers cannot be unpacked: {error}") from None
        if len(block) > _LARGEST_HEADERS or self._unpacker.unconsumed_tail:
            raise ProtocolError(f"headers have more than {_LARGEST_HEADERS} bytes")
        if self._unpacker.eof:
            raise ProtocolError("the packed headers end before the connection does")
        return _read_headers(block)

    # --- what is said

    def open(self, stream_id: int, headers: Mapping[str, str], *, ended: bool = False) -> bytes:
        body = _PAIR.pack(stream_id, 0) + b"\0\0" + self._packed(headers)
        return _control_frame(_SYN_STREAM, body, _FIN if ended else 0)

    def reply(self, stream_id: int) -> bytes:
        return _control_frame(_SYN_REPLY, _WORD.pack(stream_id) + self._packed({}))

    def headers(self, stream_id: int, headers: Mapping[str, str], *, ended: bool = False) -> bytes:
        return _control_frame(_HEADERS, _WORD.pack(stream_id) + self._packed(headers), _FIN if ended else 0)

    def _packed(self, headers: Mapping[str, str]) -> bytes:
        parts = [_WORD.pack(len(headers))]
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                parts += [_WORD.pack(len(text)), text]
        return self._packer.compress(b"".join(parts)) + self._packer.flush(zlib.Z_SYNC_FLUSH)


def data_frame(stream_id: int, data: bytes, *, ended: bool = False) -> bytes:
    if len(data) > _LARGEST_DATA:
        raise ValueError(f"a frame holds at most {_LARGEST_DATA} bytes")
    return b"".join((_PAIR.pack(stream_id, (_FIN if ended else 0) << 24 | len(data)), data))


def reset_frame(stream_id: int, status: int) -> bytes:
    return _control_frame(_RST_STREAM, _PAIR.pack(stream_id, status))


def ping_frame(ping_id: int) -> bytes:
    return _control_frame(_PING, _WORD.pack(ping_id))


def go_away_frame(last_stream_id: int) -> bytes:
    return _control_frame(_GOAWAY, _PAIR.pack(last_stream_id, 0))


def empty_settings_frame() -> bytes:
    """Says nothing, and asks for no answer."""
    return _control_frame(_SETTINGS, _WORD.pack(0))


def _control_frame(kind: int, body: bytes, flags: int = 0) -> bytes:
    return _PAIR.pack((0x8000 | _VERSION) << 16 | kind, flags << 24 | len(body)) + body


def _read_headers(block: bytes) -> dict[str, str]:
    """Of several values for one name only the first counts, as for whoever asks a Go header for its value."""
    found: dict[str, str] = {}
    try:
        (count,) = _WORD.unpack_from(block)
        if count > _MOST_HEADERS:
            raise ProtocolError(f"{count} headers are more than {_MOST_HEADERS}")
        at = 4
        for _ in range(count):
            name, at = _read_text(block, at)
            value, at = _read_text(block, at)
            found.setdefault(name.lower(), value.partition("\0")[0])
    except struct.error:
        raise ProtocolError("headers are cut off") from None
    return found


def _read_text(block: bytes, at: int) -> tuple[str, int]:
    (length,) = _WORD.unpack_from(block, at)
    at += 4
    if at + length > len(block):
        raise ProtocolError("headers are cut off")
    return block[at : at + length].decode("utf-8", "replace"), at + length

"""DNS messages as bytes: questions are read, answers are written; of other servers' answers only what is needed to pass
their records on. Whatever does not parse raises Malformed, and nothing else."""

import ipaddress
import struct
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

A: Final = 1
NS: Final = 2
CNAME: Final = 5
SOA: Final = 6
PTR: Final = 12
TXT: Final = 16
AAAA: Final = 28
SRV: Final = 33
OPT: Final = 41
IN: Final = 1

NO_ERROR: Final = 0
FORMAT_ERROR: Final = 1
SERVER_FAILURE: Final = 2
NO_SUCH_NAME: Final = 3
NOT_IMPLEMENTED: Final = 4
REFUSED: Final = 5
BAD_VERSION: Final = 16

PLAIN_SIZE: Final = 512
LARGEST_DATAGRAM: Final = 1232
"""What gets through every network in one piece."""
LARGEST: Final = 65535
_HEAD: Final = struct.Struct("!HHHHHH")
_ANSWER: Final = 0x8000
_AUTHORITATIVE: Final = 0x0400
_TRUNCATED: Final = 0x0200
_RECURSION_WANTED: Final = 0x0100
_RECURSION_OFFERED: Final = 0x0080
_LONGEST_NAME: Final = 255
_MOST_JUMPS: Final = 64

Name = tuple[bytes, ...]
"""labels, as they were written"""


class Malformed(ValueError):
    """No message that anybody can answer."""


class Record(Struct, frozen=True):
    name: str
    type: int
    data: tuple[str | int, ...]
    ttl: int = 5


class Query(Struct, frozen=True):
    id: int
    flags: int
    name: Name
    type: int
    klass: int
    question: bytes
    """As it was written: the answer repeats it."""
    fault: int = NO_ERROR
    """What to answer with, if it cannot be looked at."""
    size: int = PLAIN_SIZE
    """How long an answer may be in one datagram."""
    has_edns: bool = False

    @property
    def text(self) -> str:
        """The name in lower case, without the last dot; what is no text in it, in a form that equals no name."""
        return ".".join(label.decode("ascii", "backslashreplace").replace(".", "\\.") for label in self.name).lower()


def read_query(data: bytes) -> Query:
    """Raises Malformed for what is not to be answered at all: no head, or itself an answer."""
    if len(data) < _HEAD.size:
        raise Malformed("no head")
    number, flags, questions, answers, authorities, more = _HEAD.unpack_from(data)
    if flags & _ANSWER:
        raise Malformed("an answer")
    if (flags >> 11) & 15:
        return Query(number, flags, (), 0, 0, b"", NOT_IMPLEMENTED)
    try:
        if questions != 1 or answers or authorities or more > 4:
            raise Malformed("more than a question")
        name, end = _name(data, _HEAD.size, compressed=False)
        kind, klass = _unpack("!HH", data, end)
        size, has_edns, version = _edns(data, end + 4, more)
    except Malformed:
        return Query(number, flags, (), 0, 0, b"", FORMAT_ERROR)
    fault = BAD_VERSION if version else REFUSED if klass != IN else NO_ERROR
    return Query(number, flags, name, kind, klass, data[_HEAD.size : end + 4], fault, size, has_edns)


def _edns(data: bytes, offset: int, count: int) -> tuple[int, bool, int]:
    """-> how long an answer may be, whether the client said so, and which version it speaks."""
    size, has_edns, version = PLAIN_SIZE, False, 0
    for _ in range(count):
        name, end = _name(data, offset)
        kind, klass, ttl, length = _unpack("!HHIH", data, end)
        offset = end + 10 + length
        if offset > len(data):
            raise Malformed("a record that ends behind the message")
        if kind == OPT:
            if has_edns or name:
                raise Malformed("a second OPT record, or one with a name")
            size, has_edns, version = max(PLAIN_SIZE, min(klass, LARGEST_DATAGRAM)), True, ttl >> 16 & 255
    return size, has_edns, version


def written(
    query: Query,
    code: int = NO_ERROR,
    answers: Iterable[Record] = (),
    authorities: Iterable[Record] = (),
    more: Iterable[Record] = (),
    *,
    limit: int = LARGEST,
    is_ours: bool = True,
) -> bytes:
    """An answer. What is too long for the limit is left out, and said to be."""
    sections = [list(answers), list(authorities), list(more)]
    flags = _ANSWER | (query.flags & (0x7800 | _RECURSION_WANTED)) | _RECURSION_OFFERED | (code & 15)
    flags |= _AUTHORITATIVE if is_ours else 0
    edns = struct.pack("!BHHBBHH", 0, OPT, LARGEST_DATAGRAM, code >> 4, 0, 0, 0) if query.has_edns else b""
    body = b"".join(_record(each) for section in sections for each in section)
    counts = [len(section) for section in sections]
    if _HEAD.size + len(query.question) + len(body) + len(edns) > limit:
        flags, body, counts = flags | _TRUNCATED, b"", [0, 0, 0]
    counts[2] += bool(edns)
    return _HEAD.pack(query.id, flags, bool(query.question), *counts) + query.question + body + edns


def asked(number: int, name: str, kind: int) -> bytes:
    """A question of our own."""
    return _HEAD.pack(number, _RECURSION_WANTED, 1, 0, 0, 0) + _encoded(name) + struct.pack("!HH", kind, IN)


def with_id(message: bytes, number: int) -> bytes:
    return struct.pack("!H", number) + message[2:]


def answers_to(question: bytes, data: bytes) -> bool:
    """Whether a message is an answer to what was asked: same number, same question, in whatever case."""
    if len(data) < _HEAD.size or data[:2] != question[:2] or not data[2] & 0x80 or data[4:6] != b"\0\1":
        return False
    try:
        name, end = _name(question, _HEAD.size)
        theirs, their_end = _name(data, _HEAD.size)
    except Malformed:
        return False
    is_same = [each.lower() for each in name] == [each.lower() for each in theirs]
    return is_same and question[end : end + 4] == data[their_end : their_end + 4]


def is_truncated(message: bytes) -> bool:
    return bool(message[2] & 2)


def read_addresses(data: bytes) -> list[Record]:
    """The names and addresses in the answer of another server. Raises Malformed."""
    _, _, questions, answers, _, _ = _HEAD.unpack_from(data)
    offset, found = _HEAD.size, []
    for _ in range(questions):
        _, offset = _name(data, offset)
        offset += 4
    for _ in range(answers):
        name, end = _name(data, offset)
        kind, _, ttl, length = _unpack("!HHIH", data, end)
        offset = end + 10 + length
        raw = data[end + 10 : offset]
        owner = b".".join(name).decode("ascii", "backslashreplace")
        if kind == CNAME:
            target, _ = _name(data, end + 10)
            found.append(Record(owner, kind, (b".".join(target).decode("ascii", "backslashreplace"),), ttl))
        elif (kind, len(raw)) in ((A, 4), (AAAA, 16)):
            found.append(Record(owner, kind, (str(ipaddress.ip_address(raw)),), ttl))
    return found


def _name(data: bytes, offset: int, *, compressed: bool = True) -> tuple[Name, int]:
    """-> the labels, and where what comes after them begins."""
    labels: list[bytes] = []
    length, after, jumps = 1, 0, 0
    while True:
        if offset >= len(data):
            raise Malformed("a name without an end")
        size = data[offset]
        if size & 0xC0 == 0xC0 and compressed:
            (target,) = _unpack("!H", data, offset)
            after, jumps = after or offset + 2, jumps + 1
            if jumps > _MOST_JUMPS:
                raise Malformed("a name that leads to itself")
            offset = target & 0x3FFF
            continue
        if size & 0xC0:
            raise Malformed("a label of an unknown kind")
        offset += 1
        if size == 0:
            return tuple(labels), after or offset
        label = data[offset : offset + size]
        length += size + 1
        if len(label) != size or length > _LONGEST_NAME:
            raise Malformed("a name that is too long")
        labels.append(label)
        offset += size


def _unpack(form: str, data: bytes, offset: int) -> tuple[int, ...]:
    try:
        return struct.unpack_from(form, data, offset)
    except struct.error:
        raise Malformed("a message without an end") from None


def _record(record: Record) -> bytes:
    data = _data(record)
    head = struct.pack("!HHIH", record.type, IN, record.ttl, len(data))
    return _encoded(record.name) + head + data


def _data(record: Record) -> bytes:
    values = record.data
    match record.type:
        case 1 | 28:
            return ipaddress.ip_address(str(values[0])).packed
        case 33:
            return struct.pack("!HHH", *values[:3]) + _encoded(str(values[3]))
        case 6:
            return _encoded(str(values[0])) + _encoded(str(values[1])) + struct.pack("!IIIII", *values[2:])
        case 16:
            return b"".join(bytes([len(text)]) + text for text in (str(each).encode() for each in values))
    return _encoded(str(values[0]))


def _encoded(name: str) -> bytes:
    labels = [label.encode("ascii", "replace")[:63] for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"

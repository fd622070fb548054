"""As much of D-Bus as it takes to ask a few questions and hear a few signals: calls with plain arguments, answers with
numbers, texts, variants and file descriptors.

A library would bring a hundred times of what is used here. Whoever is at the other end is not trusted: what it sends is
bounded in size, depth and time, and what cannot be read ends the connection.
"""

import array
import asyncio
import os
import socket
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from msgspec import Struct

from pykubelet.base.errors import NotFound, Retry

SYSTEM_BUS: Final = "unix:path=/run/dbus/system_bus_socket"
_CALL, _RETURN, _ERROR, _SIGNAL = 1, 2, 3, 4
_PATH, _INTERFACE, _MEMBER, _ERROR_NAME, _REPLY, _DESTINATION, _SENDER, _SIGNATURE, _FDS = range(1, 10)
_FIXED: Final = {"y": "B", "b": "I", "n": "h", "q": "H", "i": "i", "u": "I", "x": "q", "t": "Q", "d": "d", "h": "I"}
_TEXTS: Final = "sog"
_LONGEST: Final = 1 << 16
_DEEPEST: Final = 16
_MOST_SIGNALS: Final = 16
_MOST_FDS: Final = 4
_PATIENCE: Final = 10.0
_BUS: Final = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")


class Message(Struct, frozen=True):
    kind: int
    serial: int
    """By which an answer names it."""
    fields: dict[int, Any]
    body: tuple[Any, ...]
    fds: tuple[int, ...] = ()


class Unreadable(Retry):
    """The other end speaks another language."""


# --- the wire


class _Writer:
    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def put(self, kind: str, value: Any) -> None:
        if kind in _FIXED:
            form = _FIXED[kind]
            self.align(struct.calcsize(form))
            self.data += struct.pack(f"<{form}", value)
        elif kind == "g":
            self.data += struct.pack("<B", len(value)) + value.encode() + b"\0"
        elif kind in _TEXTS:
            encoded = value.encode()
            self.align(4)
            self.data += struct.pack("<I", len(encoded)) + encoded + b"\0"
        else:
            raise ValueError(kind)


def call_bytes(serial: int, where: tuple[str, str, str], member: str, signature: str, values: Sequence[Any]) -> bytes:
    """A method call. Of types only plain ones can be sent."""
    destination, path, interface = where
    body = _Writer()
    for kind, value in zip(signature, values, strict=True):
        body.put(kind, value)
    fields = _Writer()
    for code, kind, value in (
        (_PATH, "o", path),
        (_INTERFACE, "s", interface),
        (_MEMBER, "s", member),
        (_DESTINATION, "s", destination),
        (_SIGNATURE, "g", signature),
    ):
        fields.align(8)
        fields.put("y", code)
        fields.put("g", kind)
        fields.put(kind, value)
    head = struct.pack("<cBBBIII", b"l", _CALL, 0, 1, len(body.data), serial, len(fields.data))
    whole = bytearray(head + fields.data)
    return bytes(whole + bytes(-len(whole) % 8) + body.data)


class _Reader:
    """Raises Unreadable."""

    def __init__(self, data: bytes, order: str, at: int = 0) -> None:
        self._data, self._order, self.at = data, order, at

    def _take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self._data):
            raise Unreadable("a message of the bus ends too early")
        self.at += count
        return self._data[self.at - count : self.at]

    def align(self, size: int) -> None:
        self._take(-self.at % size)

    def number(self, form: str) -> Any:
        size = struct.calcsize(form)
        self.align(size)
        return struct.unpack(f"{self._order}{form}", self._take(size))[0]

    def text(self, form: str) -> str:
        found = self._take(self.number(form) + 1)[:-1]
        return found.decode(errors="replace")

    def values(self, signature: str, depth: int = 0) -> tuple[Any, ...]:
        found, rest = [], signature
        while rest:
            kind, rest = _first_type(rest)
            found.append(self.value(kind, depth))
        return tuple(found)

    def value(self, kind: str, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            raise Unreadable("a message of the bus is nested too deeply")
        match kind[0]:
            case "b":
                return bool(self.number("I"))
            case "g":
                return self.text("B")
            case "s" | "o":
                return self.text("I")
            case "v":
                inner, rest = _first_type(self.text("B"))
                if rest:
                    raise Unreadable("a variant of the bus has several types")
                return self.value(inner, depth + 1)
            case "(" | "{":
                self.align(8)
                return self.values(kind[1:-1], depth + 1)
            case "a":
                end = self.number("I")
                self.align(8 if kind[1] in "({xtd" else 4 if kind[1] in "aiusohb" else 1)
                end += self.at
                found = []
                while (at := self.at) < end:
                    found.append(self.value(kind[1:], depth + 1))
                    if self.at == at:
                        raise Unreadable("a list of the bus is made of nothing")
                return tuple(found)
            case plain if plain in _FIXED:
                return self.number(_FIXED[plain])
            case other:
                raise Unreadable(f"a message of the bus has a value of the unknown type {other!r}")


def _first_type(signature: str) -> tuple[str, str]:
    """The first complete type of several, and the rest."""
    depth = 0
    for index, each in enumerate(signature):
        depth += (each in "({") - (each in ")}")
        if each != "a" and depth == 0:
            return signature[: index + 1], signature[index + 1 :]
    raise Unreadable(f"{signature!r:.60} is no list of types")


def parsed(data: bytes, fds: tuple[int, ...] = ()) -> Message:
    """One whole message. Raises Unreadable."""
    order = {b"l": "<", b"B": ">"}.get(data[:1])
    if order is None or len(data) < 16:
        raise Unreadable("this is no message of a bus")
    (serial,) = struct.unpack(f"{order}I", data[8:12])
    reader = _Reader(data, order, 12)
    fields = dict(each for each in reader.value("a(yv)") if len(each) == 2)
    reader.align(8)
    signature = fields.get(_SIGNATURE, "")
    return Message(data[1], serial, fields, reader.values(signature if isinstance(signature, str) else ""), fds)


def size_of(head: bytes) -> int:
    """Of a message, by its first 16 bytes. Raises Unreadable."""
    order = {b"l": "<", b"B": ">"}.get(head[:1])
    if order is None:
        raise Unreadable("this is no message of a bus")
    body, _, fields = struct.unpack(f"{order}III", head[4:16])
    if (whole := 16 + -(-fields // 8) * 8 + body) > _LONGEST:
        raise Unreadable(f"a message of the bus has {whole} bytes, more than {_LONGEST}")
    return int(whole)


def _signal(message: Message) -> tuple[Any, ...]:
    return tuple(message.fields.get(each) for each in (_PATH, _INTERFACE, _MEMBER))


# --- the connection


class Bus:
    """`call` asks; `signals` yields what was asked for with `follow`, until the connection ends. Raises Retry."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._serial = 0
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._signals: asyncio.Queue[Message | None] = asyncio.Queue(_MOST_SIGNALS)
        self._followed: dict[tuple[Any, ...], str] = {}
        """Path, interface and member of a signal: the name of who sends it."""
        self._owners: dict[str, str] = {}
        """Who has that name, by the word of the bus."""
        self._buffer = bytearray()
        self._fds: list[int] = []

    async def call(self, where: tuple[str, str, str], member: str, signature: str = "", *values: Any) -> Message:
        loop = asyncio.get_running_loop()
        self._serial += 1
        serial, answer = self._serial, loop.create_future()
        self._answers[serial] = answer
        try:
            async with asyncio.timeout(_PATIENCE):
                await loop.sock_sendall(self._socket, call_bytes(serial, where, member, signature, values))
                said: Message = await answer
        except TimeoutError:
            raise Retry(f"{where[0]} does not answer {member} within {_PATIENCE:g} s") from None
        except OSError as error:
            raise Retry(f"the bus is gone: {error.strerror}") from None
        finally:
            del self._answers[serial]
        if said.kind == _ERROR:
            told = said.body[0] if said.body and isinstance(said.body[0], str) else ""
            raise Retry(f"{member} is refused: {said.fields.get(_ERROR_NAME, '')}: {told[:500]}")
        return said

    async def follow(self, sender: str, path: str, interface: str, member: str) -> None:
        rule = f"type='signal',sender='{sender}',path='{path}',interface='{interface}',member='{member}'"
        await self.call(_BUS, "AddMatch", "s", rule)
        self._owners[sender] = await self._owner(sender)
        self._followed[path, interface, member] = sender

    async def signals(self) -> AsyncGenerator[Message, None]:
        while (signal := await self._signals.get()) is not None:
            name = self._followed[_signal(signal)]
            if not self._is_owners(signal):  # it may have been started again
                self._owners[name] = await self._owner(name)
            if self._is_owners(signal):
                yield signal

    async def _owner(self, name: str) -> str:
        """Empty for what nobody has."""
        try:
            found = (await self.call(_BUS, "GetNameOwner", "s", name)).body
        except Retry:
            return ""
        return found[0] if found and isinstance(found[0], str) else ""

    def _is_owners(self, signal: Message) -> bool:
        """Everybody on the machine may send a signal to one connection: no rule of the bus stands before that. Who it
        comes from, the bus says."""
        owner = self._owners.get(self._followed.get(_signal(signal), ""), "")
        return bool(owner) and signal.fields.get(_SENDER) == owner

    async def read(self) -> None:
        """Until the connection ends, or says what cannot be read."""
        reason = "it has closed the connection"
        try:
            while True:
                head = await self._exactly(16)
                message = parsed(head + await self._exactly(size_of(head) - 16), self._taken_fds())
                self._take(message)
        except (OSError, Retry) as error:
            reason = str(error)
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(Retry(f"the bus is gone: {reason}"))
            self._close_fds()
            while self._signals.full():
                self._signals.get_nowait()
            self._signals.put_nowait(None)

    def _take(self, message: Message) -> None:
        answer = self._answers.get(message.fields.get(_REPLY, 0))
        if message.kind in (_RETURN, _ERROR) and answer is not None and not answer.done():
            answer.set_result(message)
            return
        for fd in message.fds:  # nobody has asked for them
            os.close(fd)
        if message.kind != _SIGNAL or _signal(message) not in self._followed:
            return
        if not self._is_owners(message) and self._signals.qsize() >= _MOST_SIGNALS // 2:
            return  # strangers never take all of the room
        if self._signals.full():
            raise Unreadable("the bus sends more signals than anybody can follow")
        self._signals.put_nowait(message)

    async def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._buffer += await self._receive()
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found

    async def _receive(self) -> bytes:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._socket, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._socket)
        space = socket.CMSG_SPACE(_MOST_FDS * 4)
        data, ancillary, _, _ = self._socket.recvmsg(_LONGEST, space, socket.MSG_CMSG_CLOEXEC)
        for level, kind, sent in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(sent[: len(sent) - len(sent) % 4])
                self._fds += found
        if len(self._fds) > _MOST_FDS:
            raise Unreadable("the bus sends more files than anybody has asked for")
        if not data:
            raise Unreadable("it has closed the connection")
        return data

    def _taken_fds(self) -> tuple[int, ...]:
        """Those that have come so far: the kernel hands them over with the first byte of their message."""
        found, self._fds = tuple(self._fds), []
        return found

    def _close_fds(self) -> None:
        for fd in self._taken_fds():
            with suppress(OSError):
                os.close(fd)


@asynccontextmanager
async def connected(address: str = "") -> AsyncGenerator[Bus, None]:
    """To the system's bus, or the one at an address. Raises NotFound where there is none, Retry."""
    path = _path_of(address or os.environ.get("DBUS_SYSTEM_BUS_ADDRESS", "") or SYSTEM_BUS)
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        try:
            async with asyncio.timeout(_PATIENCE):
                await loop.sock_connect(connection, path)
                await _greet(connection)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotFound(f"no D-Bus answers at {path}") from None
        except TimeoutError:
            raise Retry(f"the D-Bus at {path} does not answer within {_PATIENCE:g} s") from None
        except OSError as error:
            raise Retry(f"the D-Bus at {path} cannot be reached: {error.strerror}") from None
        bus = Bus(connection)
        reading = asyncio.create_task(bus.read())
        try:
            await bus.call(_BUS, "Hello")
            yield bus
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def _greet(connection: socket.socket) -> None:
    """Who we are, the kernel tells; and file descriptors may be sent."""
    loop = asyncio.get_running_loop()
    user = str(os.geteuid()).encode().hex().encode()
    for said, wanted in ((b"\0AUTH EXTERNAL " + user, b"OK "), (b"NEGOTIATE_UNIX_FD", b"AGREE_UNIX_FD")):
        await loop.sock_sendall(connection, said + b"\r\n")
        line = bytearray()
        while not line.endswith(b"\r\n"):
            if len(line) > 500 or not (more := await loop.sock_recv(connection, 1)):
                raise Unreadable("whoever answers there is no D-Bus")
            line += more
        if not line.startswith(wanted):
            raise Retry(f"the D-Bus refuses us: {bytes(line[:100])!r}")
    await loop.sock_sendall(connection, b"BEGIN\r\n")


def _path_of(address: str) -> str:
    for each in address.split(";"):
        kind, _, options = each.partition(":")
        values = dict(option.partition("=")[::2] for option in options.split(","))
        if kind == "unix" and "path" in values:
            return values["path"]
        if kind == "unix" and "abstract" in values:
            return f"\0{values['abstract']}"
    raise NotFound(f"the D-Bus address {address!r} names no socket on this machine")

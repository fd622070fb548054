"""Those who have attached to a container: they get copies of its output, and its input comes from them.

They come by a socket in the container's folder, so a later agent finds it too. Each message's first byte says what it
is. From them: h, the streams they want; i, input; c, its end; w, a terminal's new size. To them: r, they are heard;
o and e, output; x, the container has ended.

While somebody cannot take more, the program's output waits too; but not for long: then he is shut out.
"""

from __future__ import annotations

import os
import select
import time

from . import terminal
from .light import socket

NAME = "attach"
CHUNK = 32 * 1024  # of input in one message
PATIENCE = 2.0  # seconds

_MOST = 32
_BACKLOG = 16
_LONGEST = 64 * 1024
_KINDS = {"stdout": b"o", "stderr": b"e"}


class Client:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.streams = b""
        self.gives_input = False
        self.is_only = False
        """The container's input ends with his."""
        self.waiting: list[bytes] = []
        """What he could not take yet, since when."""
        self.since = 0.0


class Attached:
    """The monitor polls for what is `wanted`, and says what became of it by `heed`."""

    def __init__(self, folder: str, program_input: int, program_terminal: int) -> None:
        self._folder = folder
        self._input = program_input
        self._terminal = program_terminal
        self._listener: socket.socket | None = None
        self._clients: dict[int, Client] = {}
        self._unread = b""
        """Input that the program has no room for yet."""
        self._input_ends = False

    def listen(self) -> None:
        """A container that nobody can attach to is better than none."""
        try:
            handle = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return
        try:
            os.fchmod(listener.fileno(), 0o600)
            listener.bind(f"/proc/self/fd/{handle}/{NAME}")  # its own name may be longer than an address can be
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            self._listener = listener
        except OSError:
            listener.close()
        finally:
            os.close(handle)

    # --- polling

    def wanted(self) -> dict[int, int]:
        """descriptor -> events"""
        found = {self._listener.fileno(): select.POLLIN} if self._listener is not None else {}
        if self._unread:
            found[self._input] = select.POLLOUT
        for descriptor, client in self._clients.items():
            events = select.POLLOUT if client.waiting else 0
            if not (self._unread and client.gives_input):
                events |= select.POLLIN
            if events:
                found[descriptor] = events
        return found

    @property
    def is_full(self) -> bool:
        return any(client.waiting for client in self._clients.values())

    def patience(self) -> float | None:
        """For how many milliseconds something may still be waited for. Shuts out who has been waited for enough."""
        left = None
        for client in list(self._clients.values()):
            if client.waiting:
                seconds = client.since + PATIENCE - time.monotonic()
                if seconds <= 0:
                    self._drop(client)
                else:
                    left = min(seconds, left or seconds)
        return None if left is None else left * 1000

    def heed(self, descriptor: int, events: int) -> None:
        if self._listener is not None and descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._clients:
            client = self._clients[descriptor]
            if client.waiting and events & ~select.POLLIN:
                self._flush(client)
            if events & ~select.POLLOUT and not (self._unread and client.gives_input):
                self._hear(client)
        elif descriptor == self._input and events & ~select.POLLIN:
            if events & select.POLLHUP:  # a terminal that no program holds would never take it
                self._unread = b""
            self._push()

    # --- output

    def copy(self, name: str, data: bytes) -> None:
        kind = _KINDS[name]
        for client in list(self._clients.values()):
            if kind in client.streams:
                self._tell(client, kind + data)

    def wait(self) -> None:
        """Until everybody has what there is, or is shut out."""
        while self.is_full:
            left = self.patience()
            poll = select.poll()
            for descriptor, client in self._clients.items():
                if client.waiting:
                    poll.register(descriptor, select.POLLOUT)
            for descriptor, _ in poll.poll(left) if left is not None else ():
                self._flush(self._clients[descriptor])

    def end(self) -> None:
        for client in list(self._clients.values()):
            self._tell(client, b"x")
        self.wait()

    def _tell(self, client: Client, message: bytes) -> None:
        if not client.waiting:
            client.since = time.monotonic()
        client.waiting.append(message)
        self._flush(client)

    def _flush(self, client: Client) -> None:
        try:
            while client.waiting:
                client.connection.send(client.waiting[0])
                client.waiting.pop(0)
                client.since = time.monotonic()
        except BlockingIOError:
            return
        except OSError:  # he listens no more; but there may be input of his that was not read
            client.waiting.clear()
            client.streams = b""

    # --- input

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined] # what `accept` is made of
        except OSError:
            return
        if len(self._clients) >= _MOST:
            os.close(descriptor)
            return
        connection = socket.socket(fileno=descriptor)
        connection.setblocking(False)
        self._clients[descriptor] = Client(connection)

    def _hear(self, client: Client) -> None:
        try:
            message = client.connection.recv(_LONGEST)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        kind, rest = message[:1], message[1:]
        if not kind:
            self._leave(client)
        elif kind == b"h":
            client.streams = bytes(each for each in rest if each in b"oe")
            client.gives_input = b"i" in rest and self._input >= 0
            client.is_only = b"1" in rest
            self._tell(client, b"r" + (b"t" if self._terminal >= 0 else b""))
        elif kind == b"i" and client.gives_input and self._input >= 0:
            self._unread = rest
            self._push()
        elif kind == b"c":
            self._end_input_of(client)
        elif kind == b"w" and self._terminal >= 0 and len(rest) == 4:
            width, height = int.from_bytes(rest[:2], "big"), int.from_bytes(rest[2:], "big")
            try:
                terminal.resize(self._terminal, width, height)
            except OSError:
                return

    def _push(self) -> None:
        try:
            while self._unread:
                self._unread = self._unread[os.write(self._input, self._unread) :]
        except BlockingIOError:
            return
        except OSError:  # nobody reads it any more
            self._unread = b""
            self._input_ends = True
        if self._input_ends:
            self._close_input()

    def _end_input_of(self, client: Client) -> None:
        if client.gives_input and client.is_only:
            self._input_ends = True
            if not self._unread:
                self._close_input()
        client.gives_input = False

    def _close_input(self) -> None:
        """A terminal has no end of input: it is there for as long as its program."""
        if self._input >= 0 and self._input != self._terminal:
            os.close(self._input)
        self._input = -1

    def _leave(self, client: Client) -> None:
        self._end_input_of(client)
        self._drop(client)

    def _drop(self, client: Client) -> None:
        client.waiting.clear()
        if self._clients.pop(client.connection.fileno(), None) is not None:
            client.connection.close()

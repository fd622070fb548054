"""What came on one of several streams of a connection, until somebody takes it.

The streams share one budget: when too much lies about, no more is read from the connection, and TCP holds the other
side up.
"""

import asyncio
from typing import Final

_MOST: Final = 1 << 20
_OVERHEAD: Final = 64
"""What a part costs besides its bytes: a thousand parts of a byte are no kilobyte."""


class Budget:
    """How much of what came on one connection may wait to be taken."""

    def __init__(self) -> None:
        self.waiting = 0
        self._room = asyncio.Event()

    @property
    def is_spent(self) -> bool:
        return self.waiting > _MOST

    def add(self, count: int) -> None:
        self.waiting += count
        if not self.is_spent:
            self._room.set()

    async def room(self) -> None:
        """Wait until it is no more overdrawn."""
        while self.is_spent:
            self._room.clear()
            await self._room.wait()


class Inbox:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._parts: list[bytes] = []
        self._change = asyncio.Event()
        self._is_ended = False
        self._is_broken = False
        self._is_shut = False

    def put(self, data: bytes) -> None:
        if data and not (self._is_ended or self._is_shut):
            self._parts.append(data)
            self._budget.add(len(data) + _OVERHEAD)
            self._change.set()

    def end(self) -> None:
        """Nothing more will come."""
        self._is_ended = True
        self._change.set()

    def break_off(self) -> None:
        """The other side has given it up: what has not been taken is void."""
        self._is_broken = True
        self.shut()
        self._change.set()

    def shut(self) -> None:
        """Nobody will take anything any more."""
        self._is_shut = True
        self._taken()

    async def receive(self) -> bytes:
        """All that has come; empty at the end. Raises ConnectionResetError once it is broken off."""
        while not self._parts:
            if self._is_broken:
                raise ConnectionResetError("the other side has given up the stream")
            if self._is_ended:
                return b""
            self._change.clear()
            await self._change.wait()
        return self._taken()

    def _taken(self) -> bytes:
        parts, self._parts = self._parts, []
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        self._budget.add(-len(whole) - _OVERHEAD * len(parts))
        return whole

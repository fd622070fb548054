"""A little order in a crowd: when hundreds of tasks become ready at once, only a few go on in each turn of the event
loop, so that timers and sockets are served in between. Nobody waits for anybody else to finish."""

import asyncio
from collections import deque


class Turnstile:
    def __init__(self, width: int = 2) -> None:
        self._width = width
        self._free = width
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_turning = False

    async def pass_through(self) -> None:
        """Wait for one's turn: at most `width` pass in one turn of the loop, in the order in which they came."""
        loop = asyncio.get_running_loop()
        if not self._is_turning:
            self._is_turning = True
            loop.call_soon(self._turn)
        if self._free and not self._waiting:
            self._free -= 1
            return
        place = loop.create_future()
        self._waiting.append(place)
        await place

    def _turn(self) -> None:
        self._free = self._width
        while self._free and self._waiting:
            place = self._waiting.popleft()
            if not place.done():  # else its owner was cancelled
                place.set_result(None)
                self._free -= 1
        self._is_turning = bool(self._waiting)
        if self._is_turning:
            asyncio.get_running_loop().call_soon(self._turn)

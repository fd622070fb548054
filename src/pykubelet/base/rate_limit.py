"""How fast this client may ask: a token bucket, so that a busy node does not drown the API server."""

import asyncio


class TokenBucket:
    """`burst` requests at once, then `rate` a second, first come first served. A rate of 0 or less is no limit."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = max(1, burst)
        self._tokens = float(self._burst)
        self._counted_at = 0.0

    def reserve(self, now: float) -> float:
        """Take a token, perhaps a future one. -> seconds until it is there."""
        if self._rate <= 0:
            return 0.0
        grown = self._tokens + (now - self._counted_at) * self._rate
        self._counted_at = now
        self._tokens = min(float(self._burst), grown) - 1
        return max(0.0, -self._tokens / self._rate)

    def give_back(self) -> None:
        self._tokens += 1

    async def wait(self) -> None:
        delay = self.reserve(asyncio.get_running_loop().time())
        if not delay:
            return
        try:
            await asyncio.sleep(delay)
        except asyncio.CancelledError:
            self.give_back()
            raise

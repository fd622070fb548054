"""What the API server is asked about those who come to us, counted and timed."""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from pykubelet.base.errors import PykubeletError
from pykubelet.pod.ports.server import Access, Decision, Identity, Reviews
from pykubelet.server.metrics.meters import Meters

T = TypeVar("T")
_CREATED: Final = "201"
"""How an API server answers each review."""
_ERROR: Final = "<error>"
_FETCHES: Final = "authentication_token_cache_active_fetch_count"


class MeasuredReviews:
    """The Reviews port."""

    def __init__(self, reviews: Reviews, meters: Meters) -> None:
        self._reviews = reviews
        self._meters = meters

    async def who(self, token: str) -> Identity | None:
        self._meters.add(_FETCHES, 1, "in_flight")
        status = "error"
        try:
            answer = await self._measured("authn", self._reviews.who(token))
            status = "ok"
            return answer
        finally:
            self._meters.add(_FETCHES, -1, "in_flight")
            self._meters.count("authentication_token_cache_fetch_total", status)

    async def may(self, identity: Identity, access: Access) -> Decision:
        return await self._measured("authz", self._reviews.may(identity, access))

    async def _measured(self, kind: str, work: Awaitable[T]) -> T:
        began, code = asyncio.get_running_loop().time(), _CREATED
        try:
            return await work
        except PykubeletError:
            code = _ERROR
            raise
        finally:
            seconds = asyncio.get_running_loop().time() - began
            self._meters.count(f"apiserver_delegated_{kind}_request_total", code)
            self._meters.observe(f"apiserver_delegated_{kind}_request_duration_seconds", seconds, code)

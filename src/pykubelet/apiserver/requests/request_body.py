"""The body of a request: no more than may come, and no slower than somebody sends who wants an answer."""

import asyncio
from typing import Final

from aiohttp import web

from pykubelet.apiserver import status
from pykubelet.apiserver.status import ApiError

_AT_FIRST: Final = 10.0
_BYTES_PER_SECOND: Final = 64 << 10


async def read_body(request: web.Request, most: int) -> bytes:
    """Raises 400, 408 and 413."""
    try:
        if request.content.is_eof():  # as most are by now: there is nothing to wait for
            body = request.content.read_nowait()
            if len(body) > most:
                raise status.too_large(most)
            return body
        return await _read(request, most)
    except TimeoutError:
        why = f"the body comes with less than {_BYTES_PER_SECOND} bytes in a second"
        raise ApiError(408, "Timeout", why, {}) from None
    except web.RequestPayloadError as error:
        raise status.bad_request(f"the body cannot be read: {error}") from None


async def _read(request: web.Request, most: int) -> bytes:
    parts, size = [], 0
    end = asyncio.get_running_loop().time() + _AT_FIRST
    async with asyncio.timeout_at(end) as patience:
        async for part in request.content.iter_any():
            size += len(part)
            if size > most:
                raise status.too_large(most)
            parts.append(part)
            patience.reschedule(end + size / _BYTES_PER_SECOND)
    return b"".join(parts)

"""What a client is told that does not get what it asked for: why, and whatever else it was to be told."""

import json
import logging
from collections.abc import Iterable
from contextlib import suppress

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from pykubelet.api.codec import DecodeError
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import encode
from pykubelet.apiserver.requests.media_types import JSON, PROTOBUF, accepted, is_for_people
from pykubelet.apiserver.schema.protobuf_writing import to_protobuf
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Expired
from pykubelet.apiserver.verbs.payload import warning_headers
from pykubelet.base.errors import PykubeletError, Retry

log = logging.getLogger(__name__)


def failure(request: web.Request, error: Exception, warnings: Iterable[str]) -> web.Response:
    told = _told(request, error)
    headers = CIMultiDict({"Content-Type": JSON, "Cache-Control": "no-cache, private", **told.headers})
    headers.extend(warning_headers(warnings))
    with suppress(ApiError, UnicodeEncodeError):  # the first: what it accepts is what is wrong
        if accepted(request.headers.get("Accept", "")).media == PROTOBUF:
            data = to_protobuf(told.status())
            headers["Content-Type"] = PROTOBUF
            return web.Response(status=told.code, body=data, headers=headers)
    try:
        body = encode(told.status())
    except UnicodeEncodeError:  # it quotes what a client sent
        body = json.dumps(told.status()).encode()
    if is_for_people(request.query.get("pretty"), request.headers.get("User-Agent", "")):
        body = msgspec.json.format(body, indent=2)
    return web.Response(status=told.code, body=body + b"\n", headers=headers)


def _told(request: web.Request, error: Exception) -> ApiError:
    match error:
        case ApiError():
            return error
        case Expired():
            return status.gone_410(str(error))
        case DecodeError():
            return status.bad_request(f"the object provided cannot be read: {error}")
        case Retry():
            return status.unavailable(str(error), max(1, round(error.after or 1)))
        case PykubeletError():
            return status.internal(str(error))
    log.error("%s %s failed", request.method, request.path, exc_info=error)
    return status.internal("the server has a fault; its log says which")

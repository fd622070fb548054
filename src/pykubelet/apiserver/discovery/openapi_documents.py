"""The OpenAPI documents as they are sent: made when first asked for, kept compressed, with a name for what is in them.

A client that has a document asks whether it is still the same, and is told so without getting it again.
"""

import asyncio
import gzip
import hashlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aiohttp import web

from pykubelet.apiserver.discovery import openapi
from pykubelet.apiserver.discovery.openapi_protobuf import CONTENT_TYPE, is_wanted, v2_protobuf
from pykubelet.apiserver.objects import encode
from pykubelet.apiserver.schema.kinds import Resources

_JSON: Final = "application/json"
_QUICK: Final = 5
"""Of nine: beyond that it takes long and saves little."""


class _Document(NamedTuple):
    made_of: object
    packed: bytes
    tag: str


class OpenApiDocuments:
    def __init__(self, resources: Resources, version: str) -> None:
        self._resources = resources
        self._version = version
        self._made: dict[str, _Document] = {}

    async def answer(self, request: web.Request, version: str, path: str) -> web.Response | None:
        """/openapi/<version>/<path>; None when there is no such document."""
        match version, path:
            case "v2", "":
                return await self._send_v2(request)
            case "v3", "":
                index = openapi.v3_index(openapi.roots(self._resources), version=self._version)
                return web.Response(body=encode(index) + b"\n", content_type=_JSON)
            case "v3", _:
                return await self._send_v3(request, path)
        return None

    async def _send_v3(self, request: web.Request, path: str) -> web.Response | None:
        roots = openapi.roots(self._resources)
        for name in list(self._made):
            if name not in roots and not name.startswith("v2"):
                self._made.pop(name, None)  # of what was defined, and is gone
        here = roots.get(path)
        if here is None:
            return None
        current, asked = openapi.v3_hash(here, version=self._version), request.query.get("hash", "")
        if asked and asked != current:
            where = f"/openapi/v3/{path}?hash={current}"
            return web.Response(status=301, headers={"Location": where, "Content-Type": _JSON})
        document = await asyncio.to_thread(
            self._once, path, here, lambda: openapi.v3_document(here, version=self._version)
        )
        lasts = {"Cache-Control": "public, immutable"} if asked else {}  # another state has another address
        return await _sent(request, document, _JSON, lasts)

    async def _send_v2(self, request: web.Request) -> web.Response:
        every = list(self._resources)
        if is_wanted(request.headers.get("Accept", "")):
            made = await asyncio.to_thread(self._once, "v2 protobuf", every, lambda: v2_protobuf(self._v2()))
            return await _sent(request, made, CONTENT_TYPE)
        made = await asyncio.to_thread(self._once, "v2", every, lambda: encode(self._v2()))
        return await _sent(request, made, _JSON)

    def _v2(self) -> dict[str, Any]:
        return openapi.v2_document(self._resources, version=self._version)

    def _once(self, name: str, made_of: object, make: Callable[[], bytes]) -> _Document:
        found = self._made.get(name)
        if found is None or found.made_of != made_of:
            body = make()
            found = self._made[name] = _Document(made_of, gzip.compress(body, _QUICK, mtime=0), tag_of(body))
        return found


def tag_of(body: bytes) -> str:
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


def is_known(request: web.Request, tag: str) -> bool:
    """Whether the client has it already."""
    known = request.headers.get("If-None-Match", "")
    return known == "*" or tag in (each.strip().removeprefix("W/") for each in known.split(","))


async def _sent(
    request: web.Request, document: _Document, content_type: str, more: dict[str, str] | None = None
) -> web.Response:
    headers = {"ETag": document.tag, "Vary": "Accept, Accept-Encoding", "Cache-Control": "no-cache, private"}
    headers |= {"Content-Type": content_type, **(more or {})}
    if is_known(request, document.tag):
        return web.Response(status=304, headers=headers)
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=document.packed, headers={**headers, "Content-Encoding": "gzip"})
    return web.Response(body=await asyncio.to_thread(gzip.decompress, document.packed), headers=headers)

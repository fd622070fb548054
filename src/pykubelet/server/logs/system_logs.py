"""The machine's log files at `/logs/`: a folder to look through, and nothing outside of it.

Who can write into the folder could leave a link there that leads elsewhere; so what a link leads to has to lie in the
folder, too, or in the one where the containers' logs are.
"""

import asyncio
import html
import os
import stat
from pathlib import Path
from typing import Final
from urllib.parse import quote

from aiohttp import web

from pykubelet.base.errors import NotFound
from pykubelet.server.application import Route, plain

_PART: Final = 256 << 10


def routes(folder: Path, others: tuple[Path, ...] = (), *, enabled: bool = True) -> tuple[Route, ...]:
    """`others` are folders that links may lead to."""

    async def logs(request: web.Request) -> web.StreamResponse:
        if not enabled:
            return plain(405, "logs endpoint is disabled.\n")
        opened = await asyncio.to_thread(_open, folder, others, request.match_info.get("path", ""))
        try:
            if not stat.S_ISDIR(os.fstat(opened).st_mode):
                return await _send(request, opened)
            if not request.path.endswith("/"):
                raise web.HTTPMovedPermanently(f"{request.path.rsplit('/', 1)[-1]}/")
            return web.Response(text=await asyncio.to_thread(_listing, opened), content_type="text/html")
        finally:
            os.close(opened)

    return (
        Route("GET", "/logs", logs),
        Route("GET", "/logs/{path:.*}", logs),
    )


def _open(folder: Path, others: tuple[Path, ...], wanted: str) -> int:
    """Opened first and checked then: what is read is what was looked at, whoever moves links about meanwhile."""
    missing = NotFound("404 page not found\n")
    if "\0" in wanted or ".." in wanted.split("/"):
        raise missing
    try:  # without waiting for the other end of a pipe
        opened = os.open(os.path.join(folder, wanted.lstrip("/")), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise missing from None
    path, mode = os.readlink(f"/proc/self/fd/{opened}"), os.fstat(opened).st_mode
    roots = [os.path.realpath(root) for root in (folder, *others)]
    if (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and any(
        path == root or path.startswith(f"{root}/") for root in roots
    ):
        return opened
    os.close(opened)
    raise missing


async def _send(request: web.Request, opened: int) -> web.StreamResponse:
    size = os.fstat(opened).st_size
    headers = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
    response = web.StreamResponse(headers=headers)
    response.content_length = size
    await response.prepare(request)
    sent = 0
    while sent < size and (part := await asyncio.to_thread(os.pread, opened, min(_PART, size - sent), sent)):
        await response.write(part)
        sent += len(part)
    return response


def _listing(opened: int) -> str:
    with os.scandir(opened) as entries:
        names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)
    links = (f'<a href="{quote(name)}">{html.escape(name)}</a>' for name in names)
    return "<!doctype html>\n<pre>\n" + "\n".join(links) + "\n</pre>\n"

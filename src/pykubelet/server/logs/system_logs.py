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
from pykubelet.server.logs import log_query
from pykubelet.server.logs.log_query import LogQuery

_PART: Final = 256 << 10


def routes(
    folder: Path, others: tuple[Path, ...] = (), *, enabled: bool = True, queries: bool = False
) -> tuple[Route, ...]:
    """`others` are folders that links may lead to. With `queries`, services can be asked for, too."""

    async def logs(request: web.Request) -> web.StreamResponse:
        if not enabled:
            return plain(405, "logs endpoint is disabled.\n")
        wanted = request.match_info.get("path", "")
        if queries and (asked := log_query.parsed(request.query)) is not None:
            if wanted:
                return plain(406, "path not allowed in query mode\n")
            if wrong := list(log_query.problems(asked)):
                return plain(406, "; ".join(wrong) + "\n")
            if asked.services:
                return await _send_services(request, folder, others, asked)
            wanted = asked.files[0]
        opened = await asyncio.to_thread(_open, folder, others, wanted)
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


async def _send_services(
    request: web.Request, folder: Path, others: tuple[Path, ...], asked: LogQuery
) -> web.StreamResponse:
    """From the journal, or from the file that a service has instead."""
    known = await log_query.known_services(asked.services)
    if known:
        return await log_query.send_journal(request, asked._replace(services=known))
    if asked.has_options:
        return plain(200, "options present and query resolved to log files; try without specifying options\n")
    for service in asked.services:
        for name in (service, f"{service}.log", f"{service}/{service}.log"):
            try:
                opened = await asyncio.to_thread(_open, folder, others, name)
            except NotFound:
                continue
            try:
                if stat.S_ISREG(os.fstat(opened).st_mode):
                    return await _send(request, opened)
            finally:
                os.close(opened)
    return plain(200, f"log not found for {', '.join(asked.services)}\n")


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

"""What is going on inside of the agent: `/debug/pprof/`, with Python's own means behind the names that people know from
Go, and the verbosity of its log at `/debug/flags/v`."""

import asyncio
import cProfile
import gc
import io
import logging
import pstats
import sys
import traceback
from collections import Counter
from typing import Final

from aiohttp import web

from pykubelet.base.errors import Conflict, Invalid
from pykubelet.base.log import set_verbosity
from pykubelet.server.application import Handler, Route, plain

log = logging.getLogger(__name__)

_LONGEST: Final = 60.0
_MOST_KINDS: Final = 100
_MOST_CALLS: Final = 100


def routes(*, profiling: bool = True, debug_flags: bool = True) -> tuple[Route, ...]:
    pages: dict[str, Handler] = {
        "goroutine": _tasks,
        "heap": _heap,
        "profile": _Profile().serve,
        "cmdline": _command_line,
    }

    async def index(_: web.Request) -> web.Response:
        return plain(200, "/debug/pprof/\n\n" + "\n".join(sorted(pages)) + "\n")

    async def disabled(_: web.Request) -> web.Response:
        return plain(405, "profiling endpoint is disabled.\n")

    async def flags_disabled(_: web.Request) -> web.Response:
        return plain(405, "flags endpoint is disabled.\n")

    found = [Route("GET", "/debug/pprof/", index if profiling else disabled)]
    found += [Route("GET", f"/debug/pprof/{name}", page if profiling else disabled) for name, page in pages.items()]
    return (*found, Route("PUT", "/debug/flags/v", _set_verbosity if debug_flags else flags_disabled))


async def _tasks(_: web.Request) -> web.Response:
    """Where every task and every thread is."""
    out = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        out.write(f"task {task.get_name()}\n")
        task.print_stack(limit=20, file=out)
        out.write("\n")
    for number, frame in sys._current_frames().items():
        out.write(f"thread {number}\n{''.join(traceback.format_stack(frame, limit=20))}\n")
    return plain(200, out.getvalue())


async def _heap(_: web.Request) -> web.Response:
    """How many objects of which type there are. It stops everything meanwhile: for people, not for programs."""
    kinds = Counter(type(each).__qualname__ for each in gc.get_objects())
    lines = [f"{count:9} {kind}" for kind, count in kinds.most_common(_MOST_KINDS)]
    return plain(200, "objects that the garbage collector knows, by type\n\n" + "\n".join(lines) + "\n")


async def _command_line(_: web.Request) -> web.Response:
    return plain(200, "\0".join(sys.orig_argv))


class _Profile:
    """One at a time: the interpreter can have but one profiler."""

    def __init__(self) -> None:
        self._is_busy = False

    async def serve(self, request: web.Request) -> web.Response:
        try:
            seconds = float(request.query.get("seconds", "10"))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= _LONGEST:
            raise Invalid(f"seconds: must be a number above 0 and up to {_LONGEST:g}\n")
        if self._is_busy:
            raise Conflict("a profile is being taken already; try again when it is done\n")
        self._is_busy = True
        profile = cProfile.Profile()
        try:
            profile.enable()
            await asyncio.sleep(seconds)
        finally:
            profile.disable()
            self._is_busy = False
        out = io.StringIO()
        pstats.Stats(profile, stream=out).sort_stats("tottime").print_stats(_MOST_CALLS)
        return plain(200, out.getvalue())


async def _set_verbosity(request: web.Request) -> web.Response:
    text = (await request.text()).strip()
    if not text.isdecimal() or int(text) > 10:
        raise Invalid(f"the verbosity must be a number from 0 to 10, not {text[:20]!r}\n")
    set_verbosity(int(text))
    log.info("the log's verbosity is %s now", text)
    return plain(200, f"successfully set klog.logging.verbosity to {text}")

"""Whether the agent is well: `/healthz`, as a whole and check by check, in the words that probes of kubelets know."""

import html
from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web

from pykubelet.server.application import Route, plain

_LATEST: Final = 120.0
"""A sync loop that has not come round for two minutes is stuck."""

Check = Callable[[], str]
"""What is wrong, if anything."""


def checks(lateness: Callable[[], float]) -> Mapping[str, Check]:
    """`lateness` says for how many seconds the sync loop has not come round."""

    def sync_loop() -> str:
        seconds = lateness()
        return f"sync Loop took longer than expected: {seconds:.0f} s" if seconds > _LATEST else ""

    return {"ping": lambda: "", "log": lambda: "", "syncloop": sync_loop}


def routes(checks: Mapping[str, Check]) -> tuple[Route, ...]:
    async def everything(request: web.Request) -> web.Response:
        excluded = set(request.query.getall("exclude", []))
        return _answer(request, {name: check for name, check in checks.items() if name not in excluded})

    async def one(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in checks:
            raise web.HTTPNotFound
        why = checks[name]()
        return plain(500, f"internal server error: {why}\n") if why else plain(200, "ok")

    handlers = {"/healthz": everything, "/healthz/": everything, "/healthz/{name}": one}
    return tuple(
        Route(method, path, handler, is_open=True)
        for path, handler in handlers.items()
        for method in ("GET", "HEAD")  # load balancers like to ask for the head alone
    )


def _answer(request: web.Request, checks: Mapping[str, Check]) -> web.Response:
    found = {name: check() for name, check in checks.items()}
    lines = [f"[-]{name} failed: {html.escape(why)}\n" if why else f"[+]{name} ok\n" for name, why in found.items()]
    if any(found.values()):
        return plain(500, "".join([*lines, "healthz check failed\n"]))
    return plain(200, "".join([*lines, "healthz check passed\n"]) if "verbose" in request.query else "ok")

"""`/explain` for all pods that are not well, `/explain/{namespace}/{pod}` for one: what `pykubelet explain` shows."""

from aiohttp import web

from pykubelet.api import codec
from pykubelet.server.application import Route
from pykubelet.server.explainer import Explainer, read_time


def routes(explainer: Explainer) -> tuple[Route, ...]:
    async def everything(_: web.Request) -> web.Response:
        return _json(await explainer.all())

    async def one(request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        return _json(await explainer.one(namespace, name, read_time(request.query.get("since", ""))))

    return Route("GET", "/explain", everything), Route("GET", "/explain/{namespace}/{pod}", one)


def _json(value: object) -> web.Response:
    return web.Response(body=codec.encode(value), content_type="application/json")

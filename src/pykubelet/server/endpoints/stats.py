"""What pods and the node use, in JSON: `/stats/summary`."""

from aiohttp import web

from pykubelet.api import codec
from pykubelet.pod.ports.server import Inside
from pykubelet.pod.stats.stats import Stats
from pykubelet.pod.stats.summary import summary
from pykubelet.server.application import Route


def routes(inside: Inside, stats: Stats) -> tuple[Route, ...]:
    async def whole(request: web.Request) -> web.Response:
        only = request.query.getall("only_cpu_and_memory", []) == ["true"]
        reading = await stats.read(details=not only)
        told = summary(reading, inside.node_name, only_cpu_and_memory=only)
        return web.Response(body=codec.encode(told), content_type="application/json")

    return (
        Route("GET", "/stats/summary", whole, is_open=True),
        Route("GET", "/stats/summary/", whole, is_open=True),
    )

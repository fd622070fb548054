"""Which pods the node should run (`/pods`) and which ones the runtime does (`/runningpods/`)."""

from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.ports.server import Inside
from pykubelet.server.application import Route

Observe = Callable[[], Awaitable[tuple[ObservedPod, ...]]]


def routes(inside: Inside, observe: Observe) -> tuple[Route, ...]:
    async def pods(_: web.Request) -> web.Response:
        return _pod_list(inside.pods())

    async def running(_: web.Request) -> web.Response:
        return _pod_list(_as_pod(seen) for seen in await observe() if seen.is_running)

    return (
        Route("GET", "/pods", pods, is_open=True),
        Route("GET", "/pods/", pods, is_open=True),
        Route("GET", "/runningpods", running),
        Route("GET", "/runningpods/", running),
    )


def _pod_list(pods: Iterable[Pod]) -> web.Response:
    value = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(pods)}
    return web.Response(body=codec.encode(value), content_type="application/json")


def _as_pod(seen: ObservedPod) -> Pod:
    """No more than the runtime itself knows."""
    running = (each for each in seen.containers if each.state is State.RUNNING)
    return Pod(
        metadata=ObjectMeta(name=seen.name, namespace=seen.namespace, uid=seen.uid),
        spec=PodSpec(containers=tuple(Container(name=each.name, image=each.image) for each in running)),
    )

"""Waiting until a cluster is there: its API server answers, and its node is ready."""

import asyncio
from collections.abc import Callable
from typing import Final

from pykubelet.api.node import Node
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.kube import kubeconfig
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials

_LOOK: Final = 0.1


async def wait_until_ready(
    conf: str, node: str, say: Callable[[str], None], seconds: float, is_running: Callable[[], bool]
) -> str:
    """-> what is wrong when it has not come about in time, or when nothing runs any more; empty when it has."""
    try:
        async with (
            asyncio.timeout(seconds),
            ApiClient(Credentials(kubeconfig.load(conf)), timeout=5.0, qps=0) as server,
        ):
            why = await _wait(server, node, say, is_running)
    except TimeoutError:
        return f"node {node} is not ready after {seconds:g} s"
    return why


async def answers(conf: str, seconds: float) -> bool:
    """Whether the API server does."""
    try:
        async with ApiClient(Credentials(kubeconfig.load(conf)), timeout=seconds, qps=0) as server:
            await server.request("GET", "/livez")
    except PykubeletError:
        return False
    return True


async def _wait(server: ApiClient, name: str, say: Callable[[str], None], is_running: Callable[[], bool]) -> str:
    said = False
    while is_running():
        try:
            node = await server.get(f"/api/v1/nodes/{name}", Node)
        except NotFound:
            node = None
        except PykubeletError:
            await asyncio.sleep(_LOOK)
            continue
        if not said:
            say("the API server is up")
            said = True
        if node and any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
            say(f"node {name} is ready")
            return ""
        await asyncio.sleep(_LOOK)
    return "it has ended before it was ready"

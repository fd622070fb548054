"""Lifecycle hooks: what a container wants done right after it starts and right before it is stopped."""

import asyncio
from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.handlers import HTTPGetAction, LifecycleHandler
from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.ports.runtime import Runtime
from pykubelet.web.unverified import unverified_context

_LONGEST_ANSWER: Final = 10 << 10
_NO_LIMIT: Final = 3600.0
"""For hooks that upstream lets run as long as they like."""


class RuntimeHooks:
    """Commands run in the containers of a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def run(self, container_id: str, container: Container, hook: LifecycleHandler, pod_ip: str) -> None:
        """Raises base.errors with the reason when it fails. The caller bounds the time."""
        if hook.exec is not None:
            result = await self._runtime.exec_sync(container_id, hook.exec.command, _NO_LIMIT)
            if result.exit_code:
                said = (result.stderr or result.stdout).decode(errors="replace").strip()[:200]
                raise Retry(f"the command {list(hook.exec.command)} ended with code {result.exit_code}: {said}")
        elif hook.http_get is not None:
            await _http_get(hook.http_get, container, pod_ip)
        elif hook.sleep is not None:
            await asyncio.sleep(hook.sleep.seconds)
        else:
            raise Invalid("the hook names nothing to do: neither exec nor httpGet nor sleep")


def port_number(port: int | str, container: Container) -> int:
    """A port by its number or by the name that the container gives it. Raises Invalid."""
    if isinstance(port, int):
        return port
    if port.isdecimal():
        return int(port)
    for each in container.ports:
        if each.name == port:
            return each.container_port
    raise Invalid(f"container {container.name} has no port {port!r}")


async def _http_get(action: HTTPGetAction, container: Container, pod_ip: str) -> None:
    """Any answer will do: a hook tells, it does not ask."""
    import aiohttp  # takes long to load, and most pods have no such hook

    host = action.host or pod_ip
    if not host:
        raise Retry("the pod has no address yet")
    shown = f"[{host}]" if ":" in host else host
    scheme, path = action.scheme.lower() or "http", action.path or "/"
    url = f"{scheme}://{shown}:{port_number(action.port, container)}/{path.removeprefix('/')}"
    headers = [(header.name, header.value) for header in action.http_headers]
    trust_anyone = unverified_context()  # as upstream: the certificate is the pod's own affair
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers=headers, ssl=trust_anyone, allow_redirects=False) as answer,
        ):
            await answer.content.read(_LONGEST_ANSWER)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Retry(f"GET {url}: {type(error).__name__}: {error}") from None

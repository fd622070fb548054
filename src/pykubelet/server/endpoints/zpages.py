"""What the agent can say of itself and of its machine: `/configz`, `/flagz`, `/statusz`, `/spec`."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from aiohttp import web

from pykubelet import __version__
from pykubelet.api import codec
from pykubelet.pod.node.node_object import KUBELET_VERSION
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.server.application import Route, plain

_WARNING: Final = "Warning: This endpoint is not meant to be machine parseable, and may change at any time.\n"


class About(msgspec.Struct, frozen=True, kw_only=True):
    configuration: Mapping[str, Any]
    """The KubeletConfiguration in force, with what has its default: that is what people want to know."""
    flags: Mapping[str, str]
    started: datetime
    now: Callable[[], datetime]
    facts: Callable[[], Awaitable[MachineFacts]]


def routes(about: About, paths: Callable[[], Iterable[str]]) -> tuple[Route, ...]:
    async def configz(_: web.Request) -> web.Response:
        return _json({"kubeletconfig": about.configuration})

    async def flagz(_: web.Request) -> web.Response:
        lines = [f"{name}={value}" for name, value in sorted(about.flags.items())]
        return plain(200, f"kubelet flagz\n{_WARNING}\n" + "\n".join(lines) + "\n")

    async def statusz(_: web.Request) -> web.Response:
        seconds = int((about.now() - about.started).total_seconds())
        hours, minutes = seconds // 3600, seconds // 60 % 60
        return plain(
            200,
            f"kubelet statusz\n{_WARNING}\n"
            f"Started: {about.started:%a %b %d %H:%M:%S UTC %Y}\n"
            f"Up: {hours} hr {minutes:02} min {seconds % 60:02} sec\n"
            f"Binary version: {KUBELET_VERSION}\n"
            f"Agent: pykubelet {__version__}\n"
            f"Paths: {' '.join(sorted(set(paths())))}\n",
        )

    async def spec(_: web.Request) -> web.Response:
        return _json(_machine(await about.facts()))

    return (
        Route("GET", "/configz", configz),
        Route("GET", "/flagz", flagz),
        Route("GET", "/statusz", statusz),
        Route("GET", "/spec", spec),
        Route("GET", "/spec/", spec),
    )


def _json(value: object) -> web.Response:
    return web.Response(body=codec.encode(value), content_type="application/json")


def _machine(facts: MachineFacts) -> dict[str, object]:
    """The names are those that cAdvisor gave a machine's facts."""
    return {
        "num_cores": facts.cpus,
        "memory_capacity": facts.memory,
        "swap_capacity": facts.swap,
        "hugepages": [{"page_size": size >> 10, "num_pages": total // size} for size, total in facts.hugepages.items()],
        "machine_id": facts.machine_id,
        "system_uuid": facts.system_uuid,
        "boot_id": facts.boot_id,
    }

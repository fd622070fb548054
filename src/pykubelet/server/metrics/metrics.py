"""What monitoring asks for: `/metrics`, `/metrics/probes` and `/metrics/slis`.

Everything here is a reader: of the journal, and of a census that is taken when somebody asks. Nobody has to call this
to do their own work.
"""

import asyncio
import gzip
import logging
import math
import platform
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from aiohttp import web
from prometheus_client import ProcessCollector
from prometheus_client.core import Metric

from pykubelet.base.errors import PykubeletError
from pykubelet.pod.moments import Noted
from pykubelet.pod.node.node_object import KUBELET_VERSION
from pykubelet.pod.stats.census import Census
from pykubelet.pod.stats.stats import Stats
from pykubelet.server.answer_cache import AnswerCache
from pykubelet.server.application import Handler, Route
from pykubelet.server.endpoints.healthz import Check
from pykubelet.server.metrics import metric_names
from pykubelet.server.metrics.meters import Meters
from pykubelet.server.metrics.node_metrics import NodeMetrics
from pykubelet.server.metrics.storage_metrics import storage_values
from pykubelet.web.exposition import CONTENT_TYPE, text
from pykubelet.web.process_metrics import process_families

log = logging.getLogger(__name__)

Sampled = Callable[[], Mapping[tuple[str, ...], float]]
"""The values of one gauge now, by the values of its labels. Called on the event loop; it must not wait."""

_PATHS: Final = frozenset(
    {
        *("healthz", "pods", "stats", "metrics", "metrics/cadvisor", "metrics/probes", "metrics/resource", "run"),
        *("exec", "attach", "portForward", "containerLogs", "configz", "statusz", "flagz", "runningpods"),
        *("checkpoint", "pprof", "logs", "debug"),
    }
)
_METHODS: Final = frozenset({"OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"})
_LONG_RUNNING: Final = frozenset({"exec", "attach", "debug"})
"""As upstream counts them; its portForward is not among them."""
_STORAGE_PERIOD: Final = 60.0
_SMALL: Final = 1024
"""What is shorter is not worth packing."""


class Metrics:
    """Made once for an agent. What can only be counted when somebody asks is asked for at each scrape: `census` for the
    pods, `gauges` for the values of each of these gauges of `/metrics`."""

    def __init__(
        self,
        node_name: str,
        *,
        census: Callable[[], Census | None] = lambda: None,
        gauges: Mapping[str, Sampled] = MappingProxyType({}),
        cgroup_version: int = 0,
        booted: float = 0.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.meters = Meters(metric_names.METRICS)
        self._probes = Meters(metric_names.PROBES)
        self._node = NodeMetrics(self.meters, self._probes, now=now, booted=booted)
        self._slis = Meters(metric_names.SLIS)
        self._process = ProcessCollector(registry=None)
        self._gauges = gauges
        self._census = census
        self._stats: Stats | None = None
        self._storage_at = float("-inf")
        self._texts: AnswerCache[bytes] = AnswerCache(8)
        self.meters.set("kubelet_node_name", 1, node_name)
        self.meters.set("kubernetes_build_info", 1, *_build())
        self.meters.set("kubelet_cgroup_version", cgroup_version)
        for kind in ("client", "server"):  # without a certificate of ours to renew; 0 would be an alarm
            self.meters.set(f"kubelet_certificate_manager_{kind}_ttl_seconds", math.inf)

    def read(self, noted: Noted) -> None:
        """A reader of the journal (`journal.read_by`)."""
        self._node.read(noted)

    def measure(self, stats: Stats) -> None:
        """Where what volumes and logs take is read."""
        self._stats = stats

    def checked(self, checks: Mapping[str, Check]) -> Mapping[str, Check]:
        """The same health checks, each of whose results is counted."""

        def counted(name: str, check: Check) -> Check:
            def run() -> str:
                why = check()
                self._slis.set("kubernetes_healthcheck", 0 if why else 1, name, "healthz")
                status = "error" if why else "success"
                self._slis.count("kubernetes_healthchecks_total", name, "healthz", status)
                return why

            return run

        return {name: counted(name, check) for name, check in checks.items()}

    def attend(self, app: web.Application, server_type: str = "readwrite") -> None:
        """Count the requests to an HTTP server, `readwrite` or `readonly`. Before it serves."""

        @web.middleware
        async def measured(request: web.Request, handler: Handler) -> web.StreamResponse:
            labels = _request_labels(request.method, request.path, server_type)
            loop = asyncio.get_running_loop()
            began = loop.time()
            self.meters.count("kubelet_http_requests_total", *labels)
            self.meters.add("kubelet_http_inflight_requests", 1, *labels)
            try:
                return await handler(request)
            finally:
                self.meters.add("kubelet_http_inflight_requests", -1, *labels)
                self.meters.observe("kubelet_http_requests_duration_seconds", loop.time() - began, *labels)

        app.middlewares.insert(0, measured)

    # --- what is answered

    def routes(self) -> tuple[Route, ...]:
        def route(path: str, families: Callable[[], Iterator[Metric]], prepare: Callable[[], Awaitable[None]]) -> Route:
            async def render() -> bytes:
                await prepare()  # looks at the agent, so on its own thread
                return await asyncio.to_thread(lambda: text(families()))

            async def answer(request: web.Request) -> web.Response:
                # Who comes while a text is being made gets that one.
                body = await self._texts.get(path.encode(), render, lambda _: 0.0)
                return await _pack(request, body)

            return Route("GET", path, answer, is_open=True)

        return (
            route("/metrics", self._families, self._look),
            route("/metrics/probes", lambda: self._with_start_time(self._probes), _nothing),
            route("/metrics/slis", lambda: self._with_start_time(self._slis), _nothing),
        )

    def _families(self) -> Iterator[Metric]:
        yield from self.meters.families()
        yield from self._process.collect()
        yield from process_families()

    def _with_start_time(self, meters: Meters) -> Iterator[Metric]:
        yield from meters.families()
        yield from (family for family in self._process.collect() if family.name == "process_start_time_seconds")

    async def _look(self) -> None:
        await self._look_at_storage()
        for name, values in self._gauges.items():
            self.meters.replace(name, values())
        self._node.sweep()
        census, replace = self._census(), self.meters.replace
        if census is None:
            return
        replace("kubelet_desired_pods", {(static,): count for static, count in census.desired.items()})
        replace("kubelet_active_pods", {(static,): count for static, count in census.active.items()})
        replace("kubelet_mirror_pods", {(): census.mirrors})
        replace("kubelet_pod_pending_resizes", {(reason,): count for reason, count in census.pending_resizes.items()})
        replace("kubelet_pod_in_progress_resizes", {(): census.resizes_in_progress})
        replace("kubelet_working_pods", {(*labels,): count for labels, count in census.working.items()})
        replace("kubelet_managed_ephemeral_containers", {(): census.ephemeral_containers})
        replace("kubelet_running_pods", {(): census.running_pods})
        replace("kubelet_running_containers", {(state,): count for state, count in census.containers.items()})
        replace("pykubelet_sync_loop_lateness_seconds", {(): census.lateness})

    async def _look_at_storage(self) -> None:
        """Once a minute at most: it takes longer than all else together, and does not change fast."""
        now = asyncio.get_running_loop().time()
        if self._stats is None or now < self._storage_at + _STORAGE_PERIOD:
            return
        try:
            reading = await self._stats.read()
        except PykubeletError as error:
            log.warning("what volumes and logs take cannot be told: %s", error)
            return
        self._storage_at = now
        for name, values in storage_values(reading).items():
            self.meters.replace(name, values)


async def _nothing() -> None:
    """For what is always up to date."""


async def _pack(request: web.Request, body: bytes) -> web.Response:
    headers = {"Content-Type": CONTENT_TYPE, "Vary": "Accept-Encoding"}
    if len(body) >= _SMALL and _takes_gzip(request.headers.get("Accept-Encoding", "")):
        headers["Content-Encoding"] = "gzip"
        body = await asyncio.to_thread(gzip.compress, body, 4)
    return web.Response(body=body, headers=headers)


def _takes_gzip(accepted: str) -> bool:
    for each in accepted.split(","):
        name, _, quality = each.replace(" ", "").partition(";")
        if name in ("gzip", "*"):
            return re.fullmatch(r"q=0(\.0*)?", quality) is None
    return False


def _request_labels(method: str, path: str, server_type: str) -> tuple[str, str, str, str]:
    """Whatever anybody asks for, there are only so many series."""
    first, _, rest = path.removeprefix("/").partition("/")
    root = f"{first}/{rest.partition('/')[0]}" if first == "metrics" and rest else first
    bucket = root if root in _PATHS else "other"
    is_long = "true" if bucket in _LONG_RUNNING else "false"
    return method if method in _METHODS else "other", bucket, server_type, is_long


def _build() -> tuple[str, ...]:
    major, minor = KUBELET_VERSION.removeprefix("v").split(".")[:2]
    compiler = f"{platform.python_implementation()} {platform.python_version()}"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return major, minor, KUBELET_VERSION, "", "", "", "", compiler, f"linux/{machine}"

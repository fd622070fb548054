"""What monitoring asks for: `/metrics`, `/metrics/probes` and `/metrics/slis`.

Everything here is a reader: of the pods' journal, of what wrappers and callbacks tell, and of a census that is taken
when somebody asks. Nobody has to call this to do their own work.
"""

import asyncio
import gzip
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from aiohttp import web
from prometheus_client import ProcessCollector
from prometheus_client.core import Metric

from pykubelet.pod.node.node_object import KUBELET_VERSION
from pykubelet.pod.stats.census import Census
from pykubelet.server.auth.cache import Answers
from pykubelet.server.endpoints.health import Check
from pykubelet.server.http import Handler, Route
from pykubelet.server.metrics import metric_names
from pykubelet.server.metrics.exposition import CONTENT_TYPE, Meters, text
from pykubelet.server.metrics.node_metrics import NodeMetrics

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
_SMALL: Final = 1024
"""What is shorter is not worth packing."""


class Metrics(NodeMetrics):
    """Made once for an agent. The callbacks are called on the event loop and cost microseconds."""

    def __init__(
        self,
        node_name: str,
        *,
        cgroup_version: int | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(Meters(metric_names.METRICS), now=now)
        self._probes = Meters(metric_names.PROBES)
        self._slis = Meters(metric_names.SLIS)
        self._process = ProcessCollector(registry=None)
        self._samples: dict[str, Sampled] = {}
        self._census: Callable[[], Census] | None = None
        self._texts: Answers[bytes] = Answers(8)
        self._startup: dict[str, datetime] = {}
        self.meters.set("kubelet_node_name", 1, node_name)
        self.meters.set("kubernetes_build_info", 1, *_build())
        if cgroup_version is not None:
            self.meters.set("kubelet_cgroup_version", cgroup_version)

    # --- what is looked at when somebody asks

    def count_pods(self, census: Callable[[], Census]) -> None:
        self._census = census

    def sample(self, name: str, values: Sampled) -> None:
        """Ask `values` for a gauge of `/metrics` at each scrape: stats of volumes, sizes of logs, certificates."""
        self._samples[name] = values

    # --- what is told

    def api_answered(self, method: str, host: str, code: str) -> None:
        self.meters.count("rest_client_requests_total", code, method, host)

    def api_request(
        self, method: str, host: str, *, waited: float, seconds: float, sent: int, received: int | None
    ) -> None:
        observe = self.meters.observe
        observe("rest_client_rate_limiter_duration_seconds", waited, method, host)
        observe("rest_client_request_duration_seconds", seconds, method, host)
        observe("rest_client_request_size_bytes", sent, method, host)
        if received is not None:
            observe("rest_client_response_size_bytes", received, method, host)

    def probed(
        self, kind: str, namespace: str, pod: str, uid: str, container: str, result: str, seconds: float
    ) -> None:
        """A probe was answered. The result is successful, failed or unknown; a failure's time says nothing."""
        self._probes.count("prober_probe_total", kind, result, container, pod, namespace, uid)
        if result != "failed":
            self._probes.observe("prober_probe_duration_seconds", seconds, kind, container, pod, namespace)

    def probe_ended(self, kind: str, namespace: str, pod: str, uid: str, container: str) -> None:
        """A container is no longer probed: its series go."""
        for result in ("successful", "failed", "unknown"):
            self._probes.drop("prober_probe_total", kind, result, container, pod, namespace, uid)
        self._probes.drop("prober_probe_duration_seconds", kind, container, pod, namespace)

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

    def node_startup(self, step: str) -> None:
        """The node has come further: `registering`, `registered`, `ready`. Only the first time of each counts."""
        if step in self._startup:
            return
        self._startup[step] = now = self.now()
        process = next(f.samples[0].value for f in self._process.collect() if f.name == "process_start_time_seconds")
        boot = now.timestamp() - time.clock_gettime(time.CLOCK_BOOTTIME)
        asked, known = self._startup.get("registering"), self._startup.get("registered")
        if step == "registered" and asked is not None:
            self._startup_took("pre_kubelet_", process - boot)
            self._startup_took("pre_registration_", asked.timestamp() - process)
            self._startup_took("registration_", (now - asked).total_seconds())
        if step == "ready" and known is not None:
            self._startup_took("post_registration_", (now - known).total_seconds())
            self._startup_took("", now.timestamp() - boot)

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
        def route(path: str, families: Callable[[], Iterator[Metric]], prepare: Callable[[], None]) -> Route:
            async def render() -> bytes:
                prepare()  # looks at the agent, so on its own thread
                return await asyncio.to_thread(lambda: text(families()))

            async def answer(request: web.Request) -> web.Response:
                # Who comes while a text is being made gets that one.
                body = await self._texts.get(path.encode(), render, lambda _: 0.0)
                return await _packed(request, body)

            return Route("GET", path, answer, is_open=True)

        return (
            route("/metrics", self._families, self._look),
            route("/metrics/probes", lambda: self._with_start_time(self._probes), lambda: None),
            route("/metrics/slis", lambda: self._with_start_time(self._slis), lambda: None),
        )

    def _families(self) -> Iterator[Metric]:
        yield from self.meters.families()
        yield from self._process.collect()

    def _with_start_time(self, meters: Meters) -> Iterator[Metric]:
        yield from meters.families()
        yield from (family for family in self._process.collect() if family.name == "process_start_time_seconds")

    def _look(self) -> None:
        for name, values in self._samples.items():
            self.meters.replace(name, values())
        self.sweep()
        if self._census is None:
            return
        census, replace = self._census(), self.meters.replace
        replace("kubelet_desired_pods", {(static,): count for static, count in census.desired.items()})
        replace("kubelet_active_pods", {(static,): count for static, count in census.active.items()})
        replace("kubelet_mirror_pods", {(): census.mirrors})
        replace("kubelet_working_pods", {(*labels,): count for labels, count in census.working.items()})
        replace("kubelet_managed_ephemeral_containers", {(): census.ephemeral_containers})
        replace("kubelet_running_pods", {(): census.running_pods})
        replace("kubelet_running_containers", {(state,): count for state, count in census.containers.items()})
        replace("pykubelet_sync_loop_lateness_seconds", {(): census.lateness})

    def _startup_took(self, part: str, seconds: float) -> None:
        self.meters.set(f"kubelet_node_startup_{part}duration_seconds", seconds)


async def _packed(request: web.Request, body: bytes) -> web.Response:
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

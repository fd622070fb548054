"""The part of the wiring that serves the kubelet's own HTTP API: on its port with TLS, without TLS and names on the
read-only port when that is wanted, and whether the agent is well on a port for this machine alone."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.config import Config
from pykubelet.node.agent import Agent
from pykubelet.pod.node_ports import MachineFacts
from pykubelet.pod.ports import Runtime
from pykubelet.pod.server_ports import HasStreams, Reviews
from pykubelet.server import about, health, pods, system_logs
from pykubelet.server.auth import Gate, GateSettings
from pykubelet.server.container_logs import ContainerLogs
from pykubelet.server.http import Measure, Route, application, serving
from pykubelet.server.streams import ContainerStreams
from pykubelet.server.tls import ServingTls, TlsSettings

log = logging.getLogger(__name__)

_SYSTEM_LOGS = Path("/var/log")


class Inside:
    """The agent, as its HTTP API sees it."""

    def __init__(self, node_name: str, agent: Agent) -> None:
        self.node_name = node_name
        self._agent = agent

    def pods(self) -> Sequence[Pod]:
        return self._agent.pods()

    def sandbox_id(self, uid: str) -> str:
        return self._agent.sandbox_id(uid)

    def lateness(self) -> float:
        return self._agent.loop.lateness


class ServerParts(Struct, frozen=True, kw_only=True):
    """What the API is made of, besides the agent."""

    runtime: Runtime
    facts: Callable[[], Awaitable[MachineFacts]]
    reviews: Reviews | None
    addresses: tuple[str, ...]
    routes: tuple[Route, ...] = ()
    """Of statistics and metrics."""
    measure: Measure | None = None


class KubeletServer:
    """Everything about the HTTP API. `ports` tells where it is served, by name."""

    def __init__(self, config: Config, inside: Inside, parts: ServerParts) -> None:
        self._config = config
        self._inside = inside
        self._parts = parts
        self._checks = health.checks(inside.lateness)
        options = config.server
        self.tls = ServingTls(
            TlsSettings(
                cert_dir=options.cert_dir,
                node_name=config.node_name,
                addresses=parts.addresses,
                cert_file=options.cert_file,
                key_file=options.key_file,
                issued=options.rotate_server,
                client_ca_file=options.client_ca_file,
                min_version=options.tls_min_version,
                cipher_suites=options.tls_cipher_suites,
            )
        )
        self._gate = Gate(
            GateSettings(
                anonymous=options.anonymous,
                token_webhook=options.token_webhook,
                token_ttl=options.token_ttl,
                authorization=options.authorization,
                allowed_ttl=options.allowed_ttl,
                denied_ttl=options.denied_ttl,
            ),
            parts.reviews,
            config.node_name,
            certificate=self.tls.client_certificate,
        )
        self.ports: Mapping[str, int] = {}

    async def start(self, stack: AsyncExitStack) -> None:
        """Serve until the stack is unwound. Raises Invalid when a port cannot be had."""
        options, routes = self._config.server, self.routes()
        ports = {}
        if options.enabled:
            app = application(routes, self._gate, self._parts.measure)
            serve = serving(app, options.address, options.port, tls=self.tls.context())
            ports["https"] = await stack.enter_async_context(serve)
        if options.enabled and options.read_only_port:
            app = application(routes, None, self._parts.measure)
            ports["read-only"] = await stack.enter_async_context(serving(app, options.address, options.read_only_port))
        if options.healthz_port:
            app = application(health.routes(self._checks), None)
            serve = serving(app, options.healthz_address, options.healthz_port)
            ports["healthz"] = await stack.enter_async_context(serve)
        self.ports = ports
        if ports:
            log.info("serving: %s", ", ".join(f"{name} on port {port}" for name, port in ports.items()))

    def routes(self) -> tuple[Route, ...]:
        config, inside, runtime = self._config, self._inside, self._parts.runtime
        options = config.server
        said = about.About(
            configuration=config.source,
            flags={},
            started=datetime.now(UTC),
            now=lambda: datetime.now(UTC),
            facts=self._parts.facts,
        )
        routes = [
            *health.routes(self._checks),
            *pods.routes(inside, runtime.pods),
            *ContainerLogs(inside, runtime.observe, str(config.pod_logs_dir), enabled=options.debugging).routes(),
            *system_logs.routes(
                _SYSTEM_LOGS, (config.pod_logs_dir,), enabled=options.system_logs and options.debugging
            ),
            *self._parts.routes,
        ]
        if isinstance(runtime, HasStreams):
            streams = ContainerStreams(
                inside,
                runtime,
                runtime.streams,
                checkpoints=config.root_dir / "checkpoints" / "containers",
                idle=options.stream_idle,
                enabled=options.debugging,
            )
            routes += streams.routes()
        return (*routes, *about.routes(said, lambda: {route.path for route in routes}))

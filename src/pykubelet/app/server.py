"""The part of the wiring that serves the kubelet's own HTTP API: on its port with TLS, without TLS and names on the
read-only port when that is wanted, and whether the agent is well on a port for this machine alone."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from pykubelet import __version__
from pykubelet.api.node import Node
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.app.foundations import Foundations
from pykubelet.base.tasks import Work
from pykubelet.node.agent import Agent
from pykubelet.node.loop_picture import loop_picture
from pykubelet.pod.ports.server import Reviews
from pykubelet.pod.stats.stats import Stats
from pykubelet.server.application import Route, application
from pykubelet.server.auth.kubelet_auth import KubeletAuth
from pykubelet.server.control_socket import Answers
from pykubelet.server.endpoints import debug, explain, healthz, pods, stats, zpages
from pykubelet.server.explainer import Explainer
from pykubelet.server.logs import system_logs
from pykubelet.server.logs.container_logs import ContainerLogs
from pykubelet.server.metrics import cadvisor, resource_metrics
from pykubelet.server.metrics.metrics import Metrics
from pykubelet.server.page.page import Page, Shown
from pykubelet.server.serving_certificate import kubelet_tls
from pykubelet.server.streaming.exec_attach_port_forward import ContainerStreams
from pykubelet.web.serving import serving

log = logging.getLogger(__name__)

_SYSTEM_LOGS = Path("/var/log")


class Inside:
    """The agent, as its HTTP API sees it: with nothing in it while it is still starting."""

    def __init__(self, node_name: str, agent: Callable[[], Agent | None]) -> None:
        self.node_name = node_name
        self._agent = agent

    def pods(self) -> Sequence[Pod]:
        agent = self._agent()
        return agent.pods() if agent else ()

    def find_pod(self, namespace: str, name: str, uid: str = "") -> Pod | None:
        agent = self._agent()
        return agent.find_pod(namespace, name, uid) if agent else None

    def sandbox_id(self, uid: str) -> str:
        agent = self._agent()
        return agent.sandbox_id(uid) if agent else ""

    def lateness(self) -> float:
        agent = self._agent()
        return agent.loop.lateness if agent else 0.0


class KubeletServer:
    """Everything about the HTTP API."""

    def __init__(
        self,
        base: Foundations,
        agent: Callable[[], Agent | None],
        *,
        reviews: Reviews | None,
        metrics: Metrics | None,
        explainer: Explainer,
        stats: Stats | None,
        node: Callable[[], Node | None],
    ) -> None:
        config = self._config = base.config
        self._runtime = base.runtime
        self._facts = base.machine.facts
        self._inside = Inside(config.node.name, agent)
        self._metrics = metrics
        self._explainer = explainer
        self._stats = stats
        checks = healthz.checks(self._inside.lateness)
        self._checks = metrics.checked(checks) if metrics else checks
        self.tls = kubelet_tls(changed(config.server.tls, addresses=base.facts.ips))
        certificate = self.tls.client_certificate
        self._auth = KubeletAuth(
            config.server.auth,
            reviews,
            config.node.name,
            certificate=certificate,
            meters=metrics.meters if metrics else None,
        )
        shown = Shown(
            inside=self._inside,
            explainer=explainer,
            journal=base.journal,
            picture=lambda: loop_picture(current, base.journal) if (current := agent()) else None,
            node=node,
            trouble=base.troubles.now,
            stats=stats,
            version=__version__,
        )
        self.page = Page(shown, self._auth, self.tls.certificate) if config.server.debugging else None
        """It is a way to look into everything: where that is not wanted, there is none."""
        self._ips = base.facts.ips
        self._port = 0

    async def start(self, stack: AsyncExitStack) -> Mapping[str, int]:
        """Serve until the stack is unwound. -> the ports, by name. Raises Invalid when one cannot be had."""
        options, routes = self._config.server, (*self.routes(), *self._stats_routes())
        ports = {}
        if options.enabled:
            app = self._measured(application(routes, self.page.auth if self.page else self._auth), "readwrite")
            if self.page is not None:
                self.page.attend(app)
            serve = serving(app, options.address, options.port, tls=self.tls.context())
            ports["https"] = self._port = await stack.enter_async_context(serve)
        if options.enabled and options.read_only_port:
            app = self._measured(application(routes, None), "readonly")
            ports["read-only"] = await stack.enter_async_context(serving(app, options.address, options.read_only_port))
        if options.healthz_port:
            app = application(healthz.routes(self._checks), None)
            serve = serving(app, options.healthz_address, options.healthz_port)
            ports["healthz"] = await stack.enter_async_context(serve)
        if ports:
            log.info("serving: %s", ", ".join(f"{name} on port {port}" for name, port in ports.items()))
        return ports

    def parts(self) -> dict[str, Work]:
        """What has to run, by name."""
        if not self._config.server.enabled:
            return {}
        return {"certificates": self.tls.run, **(self.page.parts() if self.page else {})}

    def answers(self) -> Answers:
        """For people on the machine, at the agent's socket."""
        page = self.page
        if page is None or not self._config.server.enabled:
            return {}
        address = self._config.server.address
        return {
            "page": lambda _: page.invitation(address, self._port, self._ips),
            "state": lambda _: page.state(),
        }

    def _measured(self, app: web.Application, server_type: str) -> web.Application:
        if self._metrics is not None:
            self._metrics.attend(app, server_type)
        return app

    def _stats_routes(self) -> tuple[Route, ...]:
        """What pods, containers and the node use, where the runtime can say."""
        inside, reader = self._inside, self._stats
        if reader is None or not self._config.server.enabled:
            return ()
        if self._metrics is not None:
            self._metrics.measure(reader)
        return (
            *stats.routes(inside, reader),
            *cadvisor.routes(reader, self._facts),
            *resource_metrics.routes(reader),
        )

    def routes(self) -> tuple[Route, ...]:
        config, inside, runtime = self._config, self._inside, self._runtime
        options = config.server
        said = zpages.About(
            configuration=config.configuration,
            flags=config.flags,
            started=datetime.now(UTC),
            now=lambda: datetime.now(UTC),
            facts=self._facts,
        )
        routes = [
            *healthz.routes(self._checks),
            *pods.routes(inside, runtime.pods),
            *explain.routes(self._explainer),
            *(self.page.routes() if self.page else ()),
            *ContainerLogs(inside, runtime.observe, str(config.pod_logs_dir), enabled=options.debugging).routes(),
            *system_logs.routes(
                _SYSTEM_LOGS,
                (config.pod_logs_dir,),
                enabled=options.system_logs and options.debugging,
                queries=options.system_log_queries,
            ),
        ]
        if options.debugging:
            routes += debug.routes(profiling=options.profiling, debug_flags=options.debug_flags)
        if self._metrics is not None:
            routes += self._metrics.routes()
        if runtime.capabilities.streams is not None:
            streams = ContainerStreams(
                inside,
                runtime,
                runtime.capabilities.streams,
                checkpoints=config.root_dir / "checkpoints" / "containers" if options.checkpoints else None,
                idle=options.stream_idle,
                enabled=options.debugging,
            )
            routes += streams.routes()
        return (*routes, *zpages.routes(said, lambda: {route.path for route in routes}))

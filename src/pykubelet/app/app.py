"""The wiring: builds every part, opens the one TaskGroup, and owns the order of shutdown.

No other module knows all the rooms.
"""

import asyncio
import fcntl
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from pykubelet import __version__
from pykubelet.api.rules.pod_kinds import API_SOURCE, FILE_SOURCE, URL_SOURCE
from pykubelet.api.struct import changed
from pykubelet.app.machine import MachineParts, VolumeNeeds, check_reserved, machine_parts
from pykubelet.base.errors import Invalid, Retry
from pykubelet.base.tasks import supervise, unless
from pykubelet.config.agent import Config
from pykubelet.host.checkpoint import PodCheckpoint
from pykubelet.host.credential_providers import load_credential_providers
from pykubelet.host.dirs import PodDirs
from pykubelet.host.machine import LocalMachine
from pykubelet.node.agent import Agent
from pykubelet.node.census import take_census
from pykubelet.node.dependencies import Dependencies
from pykubelet.node.image_gc import ImageGc
from pykubelet.node.journal_log import log_moment
from pykubelet.node.log_recorder import LogRecorder
from pykubelet.node.log_rotation import LogRotation
from pykubelet.node.node_status import NodeReporter
from pykubelet.node.ownership import Ownership, OwnPods
from pykubelet.node.pleg import Pleg
from pykubelet.node.scene import Machine
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.moments import Journal
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.ports.runtime import Runtime
from pykubelet.pod.ports.syncer import PodSource
from pykubelet.pod.status.pod_status import NodeFacts
from pykubelet.runtime.endpoints import make_runtime
from pykubelet.server.control_socket import control_socket
from pykubelet.sources.files import FileSource

if TYPE_CHECKING:
    from pykubelet.app.api import ApiParts
    from pykubelet.server.metrics.metrics import Metrics

log = logging.getLogger(__name__)

T = TypeVar("T")


async def run_agent(config: Config) -> None:
    """Run until SIGTERM or SIGINT; a second one ends also the wait for the pods. Raises Invalid when it cannot start as
    configured."""
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.put_nowait, number)
    async with AsyncExitStack() as stack:
        app = await unless(signals.get(), App.build(config, stack))  # a new node may have to wait to be approved
        if app is None:
            log.info("stopping before anything was started")
            return
        gc.collect()
        gc.freeze()  # what is here now stays: no need to look through it again and again
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(app.run(tasks))
            await signals.get()
            what = "so do the pods" if config.stop_pods_on_exit else "pods go on without the agent"
            log.info("stopping; %s", what)
            if config.stop_pods_on_exit:
                stopping = tasks.create_task(app.stop_pods(running))
                another = tasks.create_task(signals.get())
                await asyncio.wait([stopping, another], return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                another.cancel()
            running.cancel()
            for task in app.everything():
                task.cancel()


class App:
    """Everything that touches the outside world, made and held together."""

    def __init__(
        self,
        config: Config,
        machine: LocalMachine,
        facts: MachineFacts,
        runtime: Runtime,
        journal: Journal,
        api: "ApiParts | None",
    ) -> None:
        self._config = config
        self._machine = machine
        self._facts = facts
        self._runtime = runtime
        self._journal = journal
        self._api = api
        self._local: MachineParts | None = None
        self._has_begun = False
        """The runtime has answered: from now on there may be something to stop."""
        self.agent: Agent | None = None
        """Once everything has been started."""
        self._running: list[asyncio.Task[Any]] = []
        self._server_parts: dict[str, Callable[[], Awaitable[None]]] = {}
        self._recorder = api.recorder if api else LogRecorder(config.node.name, journal=journal)
        self._checkpoint = PodCheckpoint(
            config.root_dir / "checkpoints" / "pods", machine=f"{facts.machine_id} {facts.system_uuid}"
        )
        self._reporter = self._made_reporter()
        self._sources = _sources(config, api, self._reporter.ownership)
        self._image_gc = ImageGc(runtime, self._recorder, config.image_gc, journal=journal)
        plugins = config.credential_providers
        self._keyring = load_credential_providers(plugins.config, plugins.bin_dir) if plugins.config else None

    @classmethod
    async def build(cls, config: Config, stack: AsyncExitStack) -> "App":
        _check_folders(config)
        stack.callback(_only_agent_here(config.root_dir).close)
        machine = LocalMachine(str(config.root_dir), hostname=config.node.name, node_ips=config.node_ips)
        facts = await machine.facts()
        check_reserved(config, facts)
        journal, api = Journal(rule), None
        journal.read_by(log_moment)
        if config.client.kubeconfig:
            from pykubelet.app.api import connect  # an HTTP client takes long to load

            api = await connect(config, journal, stack)
        runtime = make_runtime(changed(config.runtime, node_ips=facts.ips, journal=journal))
        stack.push_async_callback(runtime.close)
        app = cls(config, machine, facts, runtime, journal, api)
        answers = {"ping": lambda _: "pong", "pods": lambda _: app.pods(), "journal": journal.of}
        await stack.enter_async_context(control_socket(config.socket, answers))
        await app.serve(stack)
        return app

    async def serve(self, stack: AsyncExitStack) -> None:
        """The agent's own HTTP API, until the stack is unwound. Raises Invalid when a port cannot be had."""
        config = self._config
        if not (config.server.enabled or config.server.healthz_port):
            return
        from pykubelet.app.server import KubeletServer, ServerParts

        server = KubeletServer(
            config,
            lambda: self.agent,
            ServerParts(
                runtime=self._runtime,
                facts=self._machine.facts,
                reviews=self._api.reviews if self._api else None,
                addresses=self._facts.ips,
                metrics=self._made_metrics() if config.server.enabled else None,
            ),
        )
        ports = await server.start(stack)
        self._reporter.serve_on(ports.get("https", config.server.port))
        self._server_parts = server.parts()

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Start everything, as soon as the runtime answers."""
        config = self._config
        version, status = await _answered(self._runtime.version), await _answered(self._runtime.status)
        self._has_begun = True
        objects = self._api.objects if self._api else None
        needs = VolumeNeeds(objects=objects, recorder=self._recorder, node=lambda: self._reporter.node)
        local = self._local = await machine_parts(config, self._facts, self._runtime, status, needs, self._journal)
        agent = self._agent(tasks, local, runtime_name=version.name)
        agent.pleg.on_change = self._reporter.changed
        self._running.append(tasks.create_task(supervise("node status", self._reporter.run)))
        await _until(lambda: self._reporter.node is not None)  # nothing can be admitted to a node that nobody knows
        self._running += [tasks.create_task(supervise("checkpoint", self._checkpoint.run)), *agent.start()]
        chores = self._chores(local, agent.pleg) | self._server_parts
        self._running += [tasks.create_task(supervise(name, part)) for name, part in chores.items()]
        if self._api is not None:
            self._running += [tasks.create_task(supervise(name, part)) for name, part in self._api.parts.items()]
            while_ours = self._reporter.ownership.while_ours
            for name, part in self._api.own_parts.items():
                self._running.append(tasks.create_task(supervise(name, partial(while_ours, part))))
        self.agent = agent
        log.info("pykubelet %s is node %s on %s %s", __version__, config.node.name, version.name, version.version)
        log.info("pods come from: %s; state is in %s", ", ".join(self._sources), config.root_dir)
        for limitation in (*status.limitations, *local.limitations):
            log.warning("limitation: %s", limitation)

    async def stop_pods(self, start: "asyncio.Task[None]") -> None:
        """Also when the agent was still starting: then it has to have started first. One that waits for the runtime in
        vain is not waited for, unless an earlier agent has left pods."""
        if not self._has_begun:
            if not await PodDirs(str(self._config.root_dir)).uids():
                return
            log.warning("the pods of an earlier agent can be stopped only once the runtime answers")
        await start
        if self.agent is not None:
            await self.agent.stop_pods()
        if self._local is not None and self._local.cgroups is not None:
            await self._local.cgroups.clear()

    def everything(self) -> "list[asyncio.Task[Any]]":
        """All that runs. Cancelling it stops the agent, and no pod."""
        return [*self._running, *(self.agent.worker_tasks() if self.agent else [])]

    def pods(self) -> dict[str, Any]:
        """All pods of the node, as a PodList."""
        return {"apiVersion": "v1", "kind": "PodList", "items": self.agent.pods() if self.agent else []}

    def _made_reporter(self) -> NodeReporter:
        config, api = self._config, self._api
        return NodeReporter(
            api.nodes if api else None,
            config.node,
            facts=self._machine.facts,
            runtime=self._runtime,
            recorder=self._recorder,
            seen=(lambda: api.view.node) if api else (lambda: None),
            troubles=lambda: self.agent.pleg.silence() if self.agent else (),
            lease_renewed=partial(api.leases.renewed_at, config.node.name) if api else None,
        )

    def _made_metrics(self) -> "Metrics":
        from pykubelet.server.metrics.metrics import Metrics  # its libraries take long to load

        metrics = Metrics(
            self._config.node.name,
            census=lambda: take_census(self.agent) if self.agent else None,
            gauges=self._api.gauges if self._api else {},
        )
        self._journal.read_by(metrics.read)
        return metrics

    def _chores(self, local: MachineParts, pleg: Pleg) -> dict[str, Callable[[], Awaitable[None]]]:
        """What has to be done now and then."""
        rotation = self._config.log_rotation
        if not self._runtime.capabilities.reopens_logs:
            rotation = changed(rotation, max_size=-1)
        chores: dict[str, Callable[[], Awaitable[None]]] = {
            "logs": partial(LogRotation(self._runtime, local.logs, rotation).run, lambda: pleg.seen.values())
        }
        if self._runtime.capabilities.keeps_images and not self._config.image_gc.is_off:
            chores["image gc"] = partial(self._image_gc.run, pleg.look)
        return chores

    def _agent(self, tasks: asyncio.TaskGroup, local: MachineParts, *, runtime_name: str) -> Agent:
        api, facts = self._api, self._facts
        node_facts = NodeFacts(host_ips=facts.ips, runtime_name=runtime_name)

        def machine() -> Machine:
            node = self._reporter.node
            return Machine(
                facts=node_facts,
                allocatable=node.status.allocatable if node else {},
                memory=facts.memory,
                log_root=str(self._config.pod_logs_dir),
                dns=local.dns.settings(),
            )

        outside = Dependencies(
            sources=self._sources,
            runtime=self._runtime,
            host=local.host,
            cgroups=local.cgroups,
            logs=local.logs,
            image_used=self._image_gc.keep,
            recorder=self._recorder,
            journal=self._journal,
            node=lambda: self._reporter.node,
            machine=machine,
            api=api.pods if api else None,
            objects=api.objects if api else None,
            classes=api.classes if api else None,
            keyring=self._keyring,
            most_pulls=self._config.image_pulls.most_at_once,
            api_node=(lambda: api.view.node if self._reporter.ownership.is_ours else None) if api else (lambda: None),
            checkpoint=self._checkpoint if api else None,
            restored=self._checkpoint.load() if api else (),
            allowed_unsafe_sysctls=self._config.allowed_unsafe_sysctls,
        )
        return Agent(tasks, outside)


def _sources(config: Config, api: "ApiParts | None", ownership: Ownership) -> dict[str, PodSource]:
    sources: dict[str, PodSource] = {}
    static, name = config.static_pods, config.node.name
    if static.path:
        sources[FILE_SOURCE] = FileSource(static.path, name, period=static.file_check_period)
    if static.url:
        from pykubelet.sources.url import UrlSource  # an HTTP client takes long to load

        sources[URL_SOURCE] = UrlSource(static.url, name, headers=static.url_header, period=static.http_check_period)
    if api is not None:
        sources[API_SOURCE] = OwnPods(api.source, ownership)
    if not sources:
        raise Invalid("there is nowhere to get pods from: give --pod-manifest-path, --manifest-url or --kubeconfig")
    return sources


def _check_folders(config: Config) -> None:
    if config.static_pods.path and not os.path.exists(config.static_pods.path):
        raise Invalid(f"{config.static_pods.path}: there is no such file or folder of manifests")
    for folder in (config.root_dir, config.pod_logs_dir):
        try:
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise Invalid(f"{folder}: cannot be made: {error.strerror}; choose another with --root-dir") from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise Invalid(f"{folder}: cannot be written; choose another with --root-dir")


def _only_agent_here(root: Path) -> IO[bytes]:
    """Two agents on one state would undo each other's work. The lock goes with the process, however it ends."""
    file = (root / "agent.lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise Invalid(f"another agent is running here: it holds {root}/agent.lock") from None
    file.truncate(0)
    file.write(str(os.getpid()).encode())
    file.flush()
    return file


async def _answered(question: Callable[[], Awaitable[T]]) -> T:
    """The runtime's answer. One that is not up yet is waited for."""
    said = ""
    while True:
        try:
            return await question()
        except Retry as error:
            if str(error) != said:
                log.warning("waiting for the runtime: %s", error)
            said = str(error)
            await asyncio.sleep(error.after or 1.0)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)

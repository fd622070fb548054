"""The node agent as a whole: builds every part, opens the one TaskGroup, and owns the order of shutdown."""

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pykubelet import __version__
from pykubelet.app.agent import agent_parts, chores, dependencies, rotation
from pykubelet.app.foundations import Foundations, check_reserved, lay_foundations
from pykubelet.app.machine import MachineParts, machine_parts
from pykubelet.app.pinning import ADMISSION_DURATION, pinning_gauges
from pykubelet.app.plugins import claims_in_use, pod_resources
from pykubelet.app.recording import LivingAgent, living_agent, recording_file
from pykubelet.app.reloading import ConfigFiles, Reloading
from pykubelet.app.stats import stats_reader
from pykubelet.app.tracing import trace_pods
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.base.log import configure_logging
from pykubelet.base.service_manager import keep_watchdog, tell_ready, watchdog_period
from pykubelet.base.tasks import Work, supervise, unless
from pykubelet.config.agent import Config
from pykubelet.config.feature_gates import stages
from pykubelet.config.options import OPTIONS
from pykubelet.host.dirs import PodDirs
from pykubelet.host.recording_file import RecordingFile
from pykubelet.host.stats.node import boot_time
from pykubelet.host.threads import in_thread
from pykubelet.node.agent import Agent
from pykubelet.node.census import take_census
from pykubelet.node.log_rotation import LogRotation
from pykubelet.node.sync_loop import STUCK_AFTER
from pykubelet.pod.ports.runtime import RuntimeStatus, RuntimeVersion
from pykubelet.server.control_socket import Answers, control_socket
from pykubelet.server.explainer import Explainer
from pykubelet.services.proxier import removed, table_name

if TYPE_CHECKING:
    from pykubelet.server.metrics.metrics import Metrics
    from pykubelet.services.node_services import NodeServices

log = logging.getLogger(__name__)

T = TypeVar("T")

_OF_OWN_LOGS: Final = frozenset({"containerLogMaxSize", "containerLogMaxFiles", "containerLogMaxWorkers"})
"""Where the runtime rotates logs itself, it keeps the limits that it was started with."""
_OF_RECORDED: Final = frozenset(
    each.field for each in OPTIONS if each.field.startswith(("eviction", "syncFrequency", "crashLoopBackOff"))
)
"""A recorded agent is replayed with the settings that it began with."""


async def run_kubelet(config: Config, files: ConfigFiles | None = None) -> None:
    """Run until SIGTERM or SIGINT; a second one ends also the wait for the pods. Raises Invalid when it cannot start as
    configured. `files`: what it reads again on SIGHUP, or when they change."""
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop, reload = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.put_nowait, number)
    async with AsyncExitStack() as stack:
        build = Kubelet.build(config, stack, files, reload)
        kubelet = await unless(signals.get(), build)  # a new node may have to be approved
        if kubelet is None:
            log.info("stopping before anything was started")
            return
        tell_ready()
        gc.collect()
        gc.freeze()  # what is here now stays: no need to look through it again and again
        try:
            await _run(kubelet, config, signals)
        except ExceptionGroup as errors:  # what is wrong with the machine may show only once the runtime answers
            if (wrong := next((each for each in errors.exceptions if isinstance(each, Invalid)), None)) is not None:
                raise wrong from None
            raise


async def _run(kubelet: "Kubelet", config: Config, signals: "asyncio.Queue[int]") -> None:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(kubelet.run(tasks))
        if not config.remove_pods:
            await signals.get()
        stops_pods = config.stop_pods_on_exit or config.remove_pods
        if config.shutdown_on_term:
            log.info("stopping; so do the pods, as if this machine went down")
            await _unless_told_again(tasks, kubelet.end_pods(running), signals)
            stops_pods = False
        log.info("stopping; %s", "so do the pods" if stops_pods else "pods go on without the agent")
        if stops_pods:
            await _unless_told_again(tasks, kubelet.stop_pods(running), signals)
        running.cancel()
        for task in kubelet.everything():
            task.cancel()


async def _unless_told_again(
    tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, None], signals: "asyncio.Queue[int]"
) -> None:
    """A second signal ends the wait."""
    both = tasks.create_task(work), tasks.create_task(signals.get())
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    for task in both:
        task.cancel()


class Kubelet:
    """Raises Invalid when it cannot be made as configured."""

    def __init__(
        self, base: Foundations, files: ConfigFiles | None = None, reload: asyncio.Event | None = None
    ) -> None:
        self._base = base
        self._files = files
        self._asked_to_reload = reload or asyncio.Event()
        self._reloading: Reloading | None = None
        """Once everything has been started."""
        self._logs: LogRotation | None = None
        self._parts = agent_parts(
            base,
            lambda: self.agent.troubles() if self.agent else (),
            lambda: self.agent.pressures() if self.agent else (),
        )
        self._stats = stats_reader(
            base,
            lambda: self.agent.pods() if self.agent else (),
            lambda: self._local.host if self._local else None,
            self._parts.plugins.drivers,
        )
        self._has_begun = False
        """The runtime has answered: from now on there may be something to stop."""
        self._local: MachineParts | None = None
        self._recording: RecordingFile | None = None
        self._traces: dict[str, Work] = {}
        self._living: LivingAgent | None = None
        self.agent: Agent | None = None
        """Once everything has been started."""
        self._running: list[asyncio.Task[Any]] = []
        self._server_parts: dict[str, Work] = {}
        self._services: NodeServices | None = None
        self.explainer = Explainer(
            lambda: self.agent.pods() if self.agent else (),
            base.journal.of,
            base.journal_files.history,
            base.troubles.now,
            str(base.config.pod_logs_dir),
            node=base.config.node.name,
            is_starting=lambda: self.agent is None or not self.agent.loop.all_sources_ready,
        )
        self._watchdog = watchdog_period() if base.config.watchdog else 0.0

    @classmethod
    async def build(
        cls,
        config: Config,
        stack: AsyncExitStack,
        files: ConfigFiles | None = None,
        reload: asyncio.Event | None = None,
    ) -> "Kubelet":
        """Ready to `run`, until the stack is unwound: it answers those who ask already."""
        kubelet = cls(await lay_foundations(config, stack), files, reload)
        kubelet._recording = recording_file(config.record, stack)
        kubelet._traces = trace_pods(config.tracing, config.node.name, kubelet._base.journal, stack)
        if kubelet._stats is not None:
            stack.push_async_callback(kubelet._stats.close)
        answers: dict[str, Callable[[str], Any]] = {
            "ping": lambda _: "pong",
            "pods": lambda _: kubelet.pods(),
            "journal": kubelet.explainer.moments,
            "explain": kubelet.explainer.answer,
            "restart": kubelet.restart,
            "reload": kubelet.reload,
            "flush": lambda _: kubelet._base.journal_files.flush(),
            "configuration": lambda _: {"configuration": config.configuration, "flags": config.flags},
        }
        await stack.enter_async_context(control_socket(config.socket, answers))
        if config.server.enabled or config.server.healthz_port:
            answers |= await kubelet._serve(stack)
        return kubelet

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Start everything, as soon as the runtime answers."""
        if self._watchdog:
            self._start(tasks, {"watchdog": partial(keep_watchdog, self._watchdog, self._troubles)})
        base, parts, reporter = self._base, self._parts, self._parts.reporter
        self._start(tasks, {"journal": base.journal_files.run} | self._traces)
        version, status = await _wait_for(base.runtime.version), await _wait_for(base.runtime.status)
        self._has_begun = True
        local = self._local = await machine_parts(
            base, status, lambda: reporter.node, parts.objects, parts.plugins.drivers
        )
        self._start(tasks, {"node status": reporter.run})
        await _until(lambda: reporter.node is not None)  # nothing can be admitted to a node that nobody knows
        outside = dependencies(base, parts, local, runtime_name=version.name, stats=self._stats)
        living = self._living = await living_agent(tasks, outside, self._recording)
        agent = living.agent
        agent.pleg.on_change = reporter.changed
        if agent.eviction is not None:
            agent.eviction.on_change = reporter.changed
        can = base.runtime.capabilities
        logs = self._logs = LogRotation(base.runtime, local.logs, rotation(base.config.log_rotation, can))
        self._start(tasks, chores(base, parts, local, agent.pleg, living.look, logs) | self._server_parts)
        self._start(tasks, {"pod resources": pod_resources(base, parts.plugins, agent).run})
        if base.api is not None:
            self._start(tasks, base.api.parts)
            while_ours = reporter.ownership.while_ours
            self._start(tasks, {name: partial(while_ours, part) for name, part in base.api.own_parts.items()})
        await self._serve_services(tasks, local, agent)
        self.agent = agent
        self._start(tasks, {"configuration": self._reload_when_asked})
        if agent.pressures():  # seen before anybody could ask for them
            reporter.changed()
        self._introduce(version, status, local)

    async def _serve_services(self, tasks: asyncio.TaskGroup, local: MachineParts, agent: Agent) -> None:
        base = self._base
        if base.api is None or not base.config.services.proxy:
            await in_thread(removed, table_name(base.config.root_dir))  # what an agent of before has left
            return
        from pykubelet.app.services import node_services  # what few need is not loaded for all

        self._services = node_services(base, base.api, local, agent, self._parts.pod_addresses)
        self._start(tasks, {"services": self._services.run})

    async def stop_pods(self, start: "asyncio.Task[None]") -> None:
        """Also when the agent was still starting: then it has to have started first. One that waits for the runtime in
        vain is not waited for, unless an earlier agent has left pods."""
        if not self._has_begun:
            if not await PodDirs(str(self._base.config.root_dir)).uids():
                return
            log.warning("the pods of an earlier agent can be stopped only once the runtime answers")
        await start
        if self._base.checkpoints is not None and not self._base.config.remove_pods:
            self._base.checkpoints.freeze()  # these pods go on when an agent comes again
        if self._living is not None:
            await self._living.stop_pods()
        if self._services is not None:
            await self._services.withdraw()
        if self._local is not None and self._local.cgroups is not None:
            await self._local.cgroups.clear()

    async def end_pods(self, start: "asyncio.Task[None]") -> None:
        """In the order in which they end when the machine goes down; what was only about to start is not waited for."""
        if not start.done() or self.agent is None or self.agent.shutdown is None:
            return
        await self.agent.shutdown.end_pods()

    def _shutdown_time(self, which: int) -> Mapping[tuple[str, ...], float]:
        moment = self.agent.shutdown.times[which] if self.agent and self.agent.shutdown else None
        return {(): moment.timestamp() // 1} if moment else {}

    def everything(self) -> "list[asyncio.Task[Any]]":
        """All that runs. Cancelling it stops the agent, and no pod."""
        return [*self._running, *(self._living.tasks() if self._living else [])]

    async def _reload_when_asked(self) -> None:
        base = self._base
        if self._files is None:
            await asyncio.Event().wait()
            return
        unable: frozenset[str] = frozenset() if base.runtime.capabilities.reopens_logs else _OF_OWN_LOGS
        if self._recording is not None:
            unable = unable | _OF_RECORDED
        check = partial(check_reserved, facts=base.facts)
        reloading = Reloading(base.config, self._files, check=check, apply=self._apply, unable=unable)
        self._reloading = reloading
        await reloading.run(self._asked_to_reload)

    def _apply(self, new: Config) -> None:
        """Of a new configuration as much as can be changed."""
        configure_logging(**new.logging._replace(format=self._base.config.logging.format)._asdict())
        self._parts.image_gc.settings = new.image_gc
        self._parts.reporter.reload(new.node)
        if self._logs is not None:
            self._logs.settings = rotation(new.log_rotation, self._base.runtime.capabilities)
        if self.agent is not None and self._recording is None:
            self.agent.reload(new.resync_period, new.restart_waits, new.eviction)

    async def reload(self, _: str) -> Any:
        """Of the agent's socket."""
        try:
            if self._reloading is None:
                raise Retry("the agent is still starting")
            return await self._reloading.reload()
        except (Invalid, Retry) as error:
            return {"error": str(error), "kind": type(error).__name__}

    def restart(self, question: str) -> dict[str, str]:
        """Of the agent's socket: a namespace, a pod, and perhaps a container."""
        namespace, name, container, *_ = (*question.split(), "", "", "")
        try:
            if self.agent is None:
                raise Retry("the agent is still starting")
            if self._recording is not None:
                raise Invalid("an agent that is recorded takes no word from the side: start it without --record")
            return {"container": self.agent.restart(namespace, name, container)}
        except (Invalid, NotFound, Retry) as error:
            return {"error": str(error), "kind": type(error).__name__}

    def pods(self) -> dict[str, Any]:
        """All pods of the node, as a PodList."""
        return {"apiVersion": "v1", "kind": "PodList", "items": self.agent.pods() if self.agent else []}

    async def _serve(self, stack: AsyncExitStack) -> Answers:
        """The agent's own HTTP API. -> what else the socket answers. Raises Invalid when a port cannot be had."""
        from pykubelet.app.server import KubeletServer  # a web server takes long to load

        base = self._base
        server = KubeletServer(
            base,
            lambda: self.agent,
            reviews=base.api.reviews if base.api else None,
            explainer=self.explainer,
            metrics=self._metrics() if base.config.server.enabled else None,
            stats=self._stats,
            node=lambda: self._parts.reporter.node,
        )
        ports = await server.start(stack)
        self._parts.reporter.serve_on(ports.get("https", base.config.server.port))
        self._server_parts = server.parts()
        return server.answers()

    def _metrics(self) -> "Metrics":
        from pykubelet.server.metrics.metrics import Metrics

        api = self._base.api
        metrics = Metrics(
            self._base.config.node.name,
            census=lambda: take_census(self.agent) if self.agent else None,
            gauges={
                **(api.gauges if api else {}),
                **pinning_gauges(
                    lambda: self._living.agent.pinning if self._living else None,
                    lambda milliseconds: metrics.meters.observe(ADMISSION_DURATION, milliseconds),
                ),
                "kubernetes_feature_enabled": self._gates,
                "dra_resource_claims_in_use": partial(claims_in_use, self._parts.plugins),
                "volume_manager_total_volumes": self._volume_counts,
                "kubelet_graceful_shutdown_start_time_seconds": partial(self._shutdown_time, 0),
                "kubelet_graceful_shutdown_end_time_seconds": partial(self._shutdown_time, 1),
            },
            cgroup_version=self._base.facts.cgroup_version,
            booted=boot_time("/proc"),
        )
        self._base.journal.read_by(metrics.read)
        return metrics

    def _volume_counts(self) -> Mapping[tuple[str, ...], float]:
        return self._local.host.volume_counts(self.agent.pods()) if self._local and self.agent else {}

    def _gates(self) -> Mapping[tuple[str, ...], float]:
        gates = self._base.config.feature_gates
        return {(name, stage): float(gates[name]) for name, stage in stages().items()}

    def _troubles(self) -> str:
        """What keeps the agent from being well, if anything."""
        lateness = self.agent.loop.lateness if self.agent else 0.0
        return f"the sync loop has not come round for {lateness:.0f} s" if lateness > STUCK_AFTER else ""

    def _start(self, tasks: asyncio.TaskGroup, parts: Mapping[str, Work]) -> None:
        self._running += [tasks.create_task(supervise(name, part)) for name, part in parts.items()]

    def _introduce(self, version: RuntimeVersion, status: RuntimeStatus, local: MachineParts) -> None:
        config = self._base.config
        self._base.recorder.node_event("Normal", "Starting", "Starting kubelet.")
        log.info("pykubelet %s is node %s on %s %s", __version__, config.node.name, version.name, version.version)
        log.info("pods come from: %s; state is in %s", ", ".join(self._parts.sources), config.root_dir)
        if status.isolation:
            log.info("%s", status.isolation)
        for limitation in (*status.limitations, *local.limitations):
            log.warning("limitation: %s", limitation)


async def _wait_for(question: Callable[[], Awaitable[T]]) -> T:
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

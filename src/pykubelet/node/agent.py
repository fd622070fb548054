"""The parts of the node agent, put together. Everything that touches the outside world is passed in.

`app/agent.py` passes the real things, tests pass others; what is in between is the same.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final

from pykubelet.api.node import Node
from pykubelet.api.pod import Pod, PodCondition
from pykubelet.api.rules.pod_kinds import API_SOURCE, is_static, shown_pod
from pykubelet.api.rules.restarts import has_own_policy
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, NotFound, PykubeletError
from pykubelet.base.tasks import supervise
from pykubelet.node.active_deadline import ActiveDeadlines
from pykubelet.node.dead_containers import remove_dead
from pykubelet.node.dependencies import Dependencies, ShutdownParts
from pykubelet.node.eviction import EvictionParts, NodeEviction
from pykubelet.node.handlers import PodHandlers
from pykubelet.node.housekeeping import keep_house
from pykubelet.node.local_storage import watch_storage
from pykubelet.node.messages import Message, ObjectsChanged, Said
from pykubelet.node.mirrors import MirrorPods
from pykubelet.node.orphans import clean_up_orphans
from pykubelet.node.pinning import Pinning
from pykubelet.node.pleg import Pleg
from pykubelet.node.pod_config import INBOX_SIZE, PodConfig
from pykubelet.node.pod_reporter import PodReporter
from pykubelet.node.probe_results import ProbeResultsStore
from pykubelet.node.prober import Prober
from pykubelet.node.qos_cgroups import QosCgroups
from pykubelet.node.resizes import PodResizes
from pykubelet.node.shutdown import Shutdown
from pykubelet.node.status_manager import StatusManager
from pykubelet.node.sync_loop import SyncLoop
from pykubelet.node.sync_pod import PodSync
from pykubelet.node.workers import PodWorkers
from pykubelet.pod.admission.admission import Admission
from pykubelet.pod.admission.fit import NodeUsage
from pykubelet.pod.eviction.thresholds import EvictionSettings, Pressure
from pykubelet.pod.lifecycle.asked_restarts import to_restart
from pykubelet.pod.lifecycle.crash_loop_backoff import RestartWaits
from pykubelet.pod.lifecycle.pod_update import Restored
from pykubelet.pod.lifecycle.table import PodTable
from pykubelet.pod.ports.api import PodObjects
from pykubelet.pod.ports.claims import DeviceHealth
from pykubelet.pod.stats.loop_picture import StatusQueue
from pykubelet.pod.status.phase import is_terminal_phase

log = logging.getLogger(__name__)

_STATIC_FIRST: Final = 1.0
_LISTENING: Final = frozenset(
    ("pod sources", "restored pods", "housekeeping", "tick", "sync loop", "status manager", "mirror pods")
)
"""What would bring pods back, or tell of their end, when the agent stops them."""


class Agent:
    """Made inside of the TaskGroup that owns its work."""

    def __init__(self, tasks: asyncio.TaskGroup, outside: Dependencies) -> None:
        journal, api, now = outside.journal, outside.api, outside.now
        self.inbox: asyncio.Queue[Message] = asyncio.Queue(INBOX_SIZE)
        self.table = PodTable()
        self._tasks, self._outside = tasks, outside
        self._running: dict[str, asyncio.Task[None]] = {}
        self._restored = asyncio.Event()
        self._config = self._pod_config(outside)
        self.statuses = StatusManager(api, now=now, journal=journal, could_be_running=self._could_be_running)
        self._mirrors = MirrorPods(api, self.table, outside.api_node, journal) if api is not None else None
        self.pleg = Pleg(outside.runtime, self.inbox, journal)
        self.prober = Prober(outside, self.statuses.get, self.inbox)
        self.probe_results = results = ProbeResultsStore()
        self._resizes = PodResizes(
            outside.allocations, outside.recorder, journal, now=now, enabled=outside.resize_rules.enabled
        )
        self._reporter = self._pod_reporter()
        deadlines = ActiveDeadlines(self.statuses, self._reporter, outside.recorder, journal, now=now)
        self.eviction = self._eviction(outside.eviction) if outside.eviction is not None else None
        self._qos = QosCgroups(outside.cgroups, self.active_pods) if outside.cgroups is not None else None
        own_syncer = outside.runtime.capabilities.syncer
        self.pinning = self._pinning() if outside.pinning is not None else None
        self._sync = None if own_syncer else self._pod_sync(deadlines)
        syncer = own_syncer(self._reporter) if own_syncer else self._sync
        assert syncer is not None
        self.workers = PodWorkers(syncer, journal, tasks, resync_period=outside.resync_period)
        self.handlers = PodHandlers(
            table=self.table,
            usage=NodeUsage(),
            admission=_remembered(outside, self.pressures),
            workers=self.workers,
            pleg=self.pleg,
            statuses=self.statuses,
            results=results,
            reporter=self._reporter,
            deadlines=deadlines,
            recorder=outside.recorder,
            journal=journal,
            resizes=self._resizes,
            resize_rules=outside.resize_rules,
            checkpoint=outside.checkpoint,
            pinning=self.pinning,
            mirrors=self._mirrors,
            devices=outside.devices,
            claims=outside.claims,
            now=now,
        )
        self.workers.on_released = self.handlers.released
        self.workers.on_gone = self.handlers.gone
        self.workers.comes_back = lambda uid: uid in self.table
        self.loop = SyncLoop(self.inbox, self._config, self.handlers)
        self.handlers.is_ready = lambda: self.loop.all_sources_ready
        self.shutdown = self._shutdown(outside.shutdown) if outside.shutdown is not None else None

    def _pod_reporter(self) -> PodReporter:
        outside = self._outside
        return PodReporter(
            self.statuses,
            self.probe_results,
            self.prober,
            node=lambda: outside.node_info().facts,
            journal=outside.journal,
            now=outside.now,
            resizes=self._resizes,
            devices=outside.device_health,
        )

    def _pinning(self) -> Pinning:
        outside = self._outside
        assert outside.pinning is not None
        return Pinning(outside.pinning, outside.runtime, outside.devices)

    def start(self) -> list["asyncio.Task[None]"]:
        """Everything that runs as long as the agent does. Cancelling them stops the agent, and no pod."""
        work: dict[str, Coroutine[Any, Any, None]] = {
            "sync loop": self.loop.run(),
            "tick": self.loop.tick(),
            "pod sources": self._config.pump(self.inbox),
            "runtime events": supervise("runtime events", self.pleg.follow_events),
            "relist": supervise("relist", self.pleg.relist),
            "housekeeping": supervise(
                "housekeeping",
                partial(keep_house, self.pleg, self._outside.host, self._outside.cgroups, self.inbox),
            ),
            "status manager": supervise("status manager", self.statuses.run),
            "probes": supervise("probes", self.prober.run),
        }
        if self.shutdown is not None:
            work["shutdown of the machine"] = supervise("shutdown of the machine", self.shutdown.follow)
        if self._outside.restored:
            work["restored pods"] = self._restore(self._outside.restored)
        if (objects := self._outside.objects) is not None:
            work["changed objects"] = supervise("changed objects", partial(self._follow, objects))
        if (health := self._outside.device_health) is not None:
            work["health of devices"] = supervise("health of devices", partial(self._follow, health))
        if (stats := self._outside.stats) is not None:
            watch = partial(watch_storage, self.active_pods, self.pleg, stats, self.inbox)
            work["limits on files"] = supervise("limits on files", watch)
        if self.eviction is not None:
            work["eviction"] = supervise("eviction", self.eviction.run)
        if self._qos is not None:
            work["QoS control groups"] = supervise("QoS control groups", self._qos.run)
        if self.pinning is not None and self.pinning.is_active:
            keep = partial(self.pinning.run, lambda: self.pleg.seen, self.handlers.known_uids)
            work["processors and memory"] = supervise("processors and memory", keep)
        if self._mirrors is not None:
            work["mirror pods"] = supervise("mirror pods", self._mirrors.run)
        self._running = {name: self._tasks.create_task(part, name=name) for name, part in work.items()}
        return list(self._running.values())

    def troubles(self) -> Iterator[str]:
        """What keeps the node from being ready."""
        yield from self.pleg.silence()
        if self.shutdown is not None:
            yield from self.shutdown.troubles()

    def pressures(self) -> tuple[Pressure, ...]:
        """What the node is short of."""
        return self.eviction.conditions if self.eviction is not None else ()

    def pods(self) -> list[Pod]:
        """All pods of the node, each with the newest status that it has."""
        known = {pod.metadata.uid: pod for pod in self.table.pods()}
        known |= {uid: worker.wish.pod for uid, worker in self.workers.workers.items() if uid not in known}
        return [changed(pod, status=self.statuses.get(uid) or pod.status) for uid, pod in known.items()]

    def pods_by_source(self) -> dict[str, int]:
        """How many pods each source has."""
        return {name: len(self._config.merge.pods(name)) for name in self._outside.sources}

    def find_pod(self, namespace: str, name: str, uid: str = "") -> Pod | None:
        """One pod by its name and, if given, by its uid or its mirror's, with the newest status that it has."""
        uid = self.table.pod_uid(uid)
        pod = self.table.get(uid) if uid else self.table.by_name(namespace, name)
        if pod is None:  # nobody wishes for it any more, but it may still be stopping
            leaving = (worker.wish.pod for worker in self.workers.workers.values())
            pod = next((each for each in leaving if _is_meant(each, namespace, name, uid)), None)
        if pod is None or not _is_meant(pod, namespace, name, uid):
            return None
        return changed(pod, status=self.statuses.get(pod.metadata.uid) or pod.status)

    def restart(self, namespace: str, name: str, container: str) -> str:
        """Of one container, in place. -> its name. Raises Invalid, NotFound, Retry."""
        pod = self.find_pod(namespace, name)
        if pod is None:
            raise NotFound(f"there is no pod {namespace}/{name} here")
        if self._sync is None:
            raise Invalid("this runtime runs pods as a whole: their containers cannot be restarted")
        uid = pod.metadata.uid
        newest = to_restart(pod, self._reporter.last_seen(uid), container)
        self._sync.restart(uid, newest.id)
        self.workers.wake(uid)
        return newest.name

    def resizing(self) -> list[PodCondition]:
        """What is said of pods that ask for another size."""
        return [each for pod in self.table.pods() for each in self._resizes.conditions(pod.metadata.uid)]

    def reload(self, resync_period: float, waits: RestartWaits, eviction: EvictionSettings) -> None:
        self.workers.resync_every(resync_period)
        if self._sync is not None:
            self._sync.wait_by(waits)
        if self.eviction is not None:
            self.eviction.settings = eviction

    def sandbox_id(self, uid: str) -> str:
        """Of a pod's ready sandbox; empty when it has none."""
        seen = self._reporter.last_seen(uid)
        return next((sandbox.id for sandbox in seen.sandboxes if sandbox.ready), "") if seen else ""

    async def stop_pods(self) -> None:
        """Stop every pod, each within its own grace, known or not, and wait until nothing of them runs or is mounted.

        From now on nobody is listened to: a source would only bring its pods back. And nobody is told: these pods have
        not ended, they go on when an agent comes again. For that one the runtime keeps what has ended, with its logs:
        it counts restarts on from there. Only what nobody wants goes entirely, and what would seem to have ended by
        itself.
        """
        for name, task in self._running.items():
            if name in _LISTENING:
                task.cancel()
        pods = self.pods()
        self.handlers.remove((pod for pod in pods if _stays_known(pod)), for_good=False)
        self.handlers.remove(pod for pod in pods if not _stays_known(pod))
        is_orphan_known = self.loop.all_sources_ready  # else it may be a pod that its source has not told of yet
        while True:
            try:
                # Not by way of PLEG: it waits for the inbox, which nobody empties any more.
                others = await self._outside.runtime.pods()
                clean_up_orphans(self.workers, self._outside.journal, others, for_good=is_orphan_known)
                break
            except PykubeletError as error:
                log.warning("what else runs here cannot be seen yet: %s", error)
                await asyncio.sleep(1.0)
        await self.workers.all_let_go()

    def worker_tasks(self) -> "list[asyncio.Task[None]]":
        return list(self.workers.tasks)

    async def _restore(self, pods: tuple[Pod, ...]) -> None:
        """After the static pods, if these are there at once: the node and others depend on them. And before the API
        server's word, which may be older: not all of what became of a pod has always been told."""
        static = self._outside.sources.keys() - {API_SOURCE}
        with suppress(TimeoutError):
            async with asyncio.timeout(_STATIC_FIRST):
                while not static <= self._config.merge.seen:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        await self.inbox.put(Said(API_SOURCE, Restored(pods)))
        self._restored.set()

    async def _follow(self, objects: PodObjects | DeviceHealth) -> None:
        async with aclosing(objects.changes()) as changes:
            async for uids in changes:
                await self.inbox.put(ObjectsChanged(uids))

    def _eviction(self, parts: EvictionParts) -> NodeEviction:
        async def clear() -> None:
            await remove_dead(self._outside.runtime, self._outside.logs, await self.pleg.look(), has_ended)

        def has_ended(uid: str) -> bool:
            """Of a static pod nothing else says so: the next agent would run it once more."""
            worker = self.workers.workers.get(uid)
            return worker is not None and worker.released.is_set() and not is_static(worker.wish.pod)

        return NodeEviction(
            parts,
            pods=self.active_pods,
            workers=lambda: self.workers.workers,
            remove_dead=clear,
            look=self.pleg.look,
            inbox=self.inbox,
        )

    def _pod_sync(self, deadlines: ActiveDeadlines) -> PodSync:
        return PodSync(
            self._outside,
            prober=self.prober,
            results=self.probe_results,
            reporter=self._reporter,
            deadlines=deadlines,
            qos=self._qos,
            mirrors=self._mirrors,
            network_trouble=lambda: self.pleg.network_trouble,
            resizes=self._resizes,
            pinning=self.pinning,
        )

    def active_pods(self) -> list[Pod]:
        """Those that have not ended, with what they were given."""
        told = (
            (self._resizes.allocated(pod), self.statuses.get(pod.metadata.uid) or pod.status)
            for pod in self.table.pods()
        )
        return [pod for pod, status in told if not is_terminal_phase(status.phase)]

    def _note_duplicate(self, pod: Pod, source: str) -> None:
        what = f"Error validating pod {shown_pod(pod)} from {source} due to duplicate pod name "
        self._outside.recorder.event(pod, "Warning", "FailedValidation", f'{what}"{pod.metadata.name}", ignoring')

    def _pod_config(self, outside: Dependencies) -> PodConfig:
        return PodConfig(
            outside.sources,
            outside.journal,
            features=outside.features,
            now=outside.now,
            on_duplicate=self._note_duplicate,
            after={API_SOURCE: self._restored} if outside.restored else {},
        )

    def _shutdown(self, parts: ShutdownParts) -> Shutdown:
        return Shutdown(
            parts,
            self.inbox,
            pods=self.active_pods,
            is_over=lambda uid: not self._could_be_running(uid),
            is_told=lambda: self.statuses.queue() == StatusQueue(),
            now=self._outside.now,
        )

    def _could_be_running(self, uid: str) -> bool:
        worker = self.workers.workers.get(uid)
        return worker is not None and not worker.released.is_set()


def _stays_known(pod: Pod) -> bool:
    """Whether the next agent can go on from what the runtime has of a stopped pod. Where an end counts, one that we
    have brought about must not be taken for the pod's own."""
    spec = pod.spec
    is_kept_up = spec.restart_policy == "Always" and not has_own_policy(spec)
    return is_kept_up or is_terminal_phase(pod.status.phase)


def _is_meant(pod: Pod, namespace: str, name: str, uid: str) -> bool:
    meta = pod.metadata
    return (meta.namespace, meta.name) == (namespace, name) and uid in ("", meta.uid)


def _remembered(outside: Dependencies, pressures: Callable[[], tuple[Pressure, ...]]) -> Callable[[], Admission]:
    """Admission is made anew only when the node has changed."""
    made: list[tuple[Node | None, tuple[Pressure, ...], Admission]] = []

    def current_admission() -> Admission:
        current, short = outside.node(), pressures()
        if not made or made[0][0] is not current or made[0][1] != short:
            admission = Admission(
                current,
                allowed_unsafe_sysctls=outside.allowed_unsafe_sysctls,
                has_app_armor=outside.has_app_armor,
                pressures=short,
            )
            made[:] = [(current, short, admission)]
        return made[0][2]

    return current_admission

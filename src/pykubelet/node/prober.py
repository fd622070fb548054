"""Who is probed, when, and what follows from the answers.

Each probe of each container has a worker of its own from the pod's first sync to its end. A worker looks at what the
node reports of its container, so that an agent which has just started goes on where the one before it was: a container
that has started need not start again, and one that was ready stays so until a probe says otherwise. A result is told
when it changes, as a message to the sync loop; what it means for the pod is decided there.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.handlers import Probe
from pykubelet.api.pod import ContainerStatus, Pod, PodStatus
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.rules.restarts import is_restartable
from pykubelet.base.chance import chance
from pykubelet.node import messages
from pykubelet.node.dependencies import Dependencies
from pykubelet.node.messages import Message
from pykubelet.node.probes import Attempts
from pykubelet.pod.container.field_path import field_path
from pykubelet.pod.lifecycle.probe_results import ProbeKind, Result
from pykubelet.pod.moments import HealthChanged, Moment, Probed, ProbingEnded, about
from pykubelet.pod.ports.api import Recorder
from pykubelet.pod.ports.probing import Answer, Asking, Verdict
from pykubelet.pod.status.phase import is_terminal_phase

log = logging.getLogger(__name__)

_KINDS: Final[tuple[ProbeKind, ...]] = ("startup", "readiness", "liveness")
_TRIES: Final = 3
"""Of one probe, when the attempt itself goes wrong."""


class Prober:
    """All probes of a node. No method but `run` waits; the workers live inside of `run`."""

    def __init__(
        self,
        outside: Dependencies,
        statuses: Callable[[str], PodStatus | None],
        inbox: "asyncio.Queue[Message]",
        *,
        asking: Asking | None = None,
    ) -> None:
        self.statuses = statuses
        self.inbox = inbox
        self.recorder: Recorder = outside.recorder
        self.journal = outside.journal
        self.now = outside.now
        self.asking: Asking = asking or outside.asking or Attempts(outside.runtime)
        self._workers: dict[str, dict[tuple[str, ProbeKind], ProbeWorker]] = {}
        self._specs: dict[str, object] = {}
        """By uid: the spec that the workers were made for."""
        self._tasks: asyncio.TaskGroup | None = None

    def add(self, pod: Pod) -> None:
        """Probe what the pod asks for. May be said again at any time; a changed probe begins anew."""
        uid = pod.metadata.uid
        if self._specs.get(uid) is pod.spec:
            return
        self._specs[uid] = pod.spec
        workers = self._workers.setdefault(uid, {})
        wanted = {(container.name, kind): (container, probe) for container, kind, probe in _probes(pod)}
        for key in [key for key, worker in workers.items() if wanted.get(key, (None, None))[1] != worker.probe]:
            workers.pop(key).stop()
        for key, (container, probe) in wanted.items():
            if key in workers:
                workers[key].container = container
                continue
            workers[key] = worker = ProbeWorker(self, pod, container, key[1], probe)
            if self._tasks is not None:
                worker.start(self._tasks)

    def reported(self, uid: str, status: PodStatus) -> None:
        """The newest word on a pod. A container that has just started is asked at once whether it is ready."""
        for (_, kind), worker in self._workers.get(uid, {}).items():
            if kind == "readiness":
                worker.nudge(status)

    def stopping(self, uid: str) -> None:
        """The pod is being stopped. Whether it is ready goes on being of interest, whether it lives does not."""
        for (_, kind), worker in self._workers.get(uid, {}).items():
            if kind != "readiness":
                worker.stop()

    def remove(self, uid: str) -> None:
        """The pod has stopped."""
        self._specs.pop(uid, None)
        for worker in self._workers.pop(uid, {}).values():
            worker.stop()

    async def run(self) -> None:
        """Until cancelled. May be called again after that, and goes on where it was."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for worker in [worker for workers in self._workers.values() for worker in workers.values()]:
                    worker.start(tasks)
                await asyncio.get_running_loop().create_future()
        finally:
            self._tasks = None
            await self.asking.close()


class ProbeWorker:
    """One probe of one container, whatever attempt at it runs."""

    def __init__(self, prober: Prober, pod: Pod, container: Container, kind: ProbeKind, probe: Probe) -> None:
        self.container = container
        self.probe = probe
        self._prober = prober
        self._pod = pod
        self._kind = kind
        self._period = float(probe.period_seconds or 10)
        self._is_over = False
        self._task: asyncio.Task[None] | None = None
        self._nudged = asyncio.Event()
        # of the attempt at the container that was last seen
        self._container_id = ""
        self._told: Result | None = None
        self._last: Result | None = None
        self._run = 0
        """How often in a row the last result has come."""
        self._on_hold = False
        self._has_asked = False

    def start(self, tasks: asyncio.TaskGroup) -> None:
        if not self._is_over:
            name = f"{self._kind} of {about(self._pod)}/{self.container.name}"
            self._task = tasks.create_task(self._live(), name=name)

    def stop(self) -> None:
        """For good."""
        self._is_over = True
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def nudge(self, status: PodStatus) -> None:
        """Once for each attempt at the container: the answer that people wait for need not wait for the period."""
        seen = _container_status(status, self.container.name)
        if seen is None or not seen.started or seen.state.running is None or seen.ready:
            return
        if not self._has_asked or seen.container_id != self._container_id:
            self._nudged.set()

    # --- inside

    async def _live(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            if self._can_wait():
                await asyncio.sleep(chance().random() * self._period)
            due = loop.time()
            while await self._turn():
                due = max(due + self._period, loop.time())
                if await self._is_nudged_before(due):
                    due = loop.time()
            self._is_over = True
        finally:
            self._note(ProbingEnded(self._kind, self.container.name))

    async def _is_nudged_before(self, due: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                await self._nudged.wait()
        is_nudged = self._nudged.is_set()
        self._nudged.clear()
        return is_nudged

    def _can_wait(self) -> bool:
        """After a restart of the agent not all are to be asked in the same moment: those whose answer is known, as far
        as anybody waits for it, may come later."""
        status = self._prober.statuses(self._pod.metadata.uid)
        seen = _container_status(status, self.container.name) if status else None
        if seen is None or seen.state.running is None:
            return False
        return {"liveness": True, "readiness": seen.ready, "startup": bool(seen.started)}[self._kind]

    async def _turn(self) -> bool:
        """-> whether there is anything left to ask for."""
        status = self._prober.statuses(self._pod.metadata.uid)
        if status is None:
            return True
        if is_terminal_phase(status.phase):
            return False
        seen = _container_status(status, self.container.name)
        if seen is None or not seen.container_id:
            return True
        if seen.container_id != self._container_id:
            self._begin(seen)
        if seen.state.running is None:
            is_final = seen.state.terminated is not None and not is_restartable(self._pod.spec, self.container)
            return not is_final or is_sidecar(self.container)
        try:
            await self._ask_if_due(seen, status.pod_ip)
        except Exception:  # the boundary: what one probe does wrong must not end all others
            log.exception("the %s probe of %s failed in a way that nobody foresaw", self._kind, about(self._pod))
        return True

    def _begin(self, seen: ContainerStatus) -> None:
        """There is another attempt at the container. What is taken for known of it until it has been asked: it lives,
        and it is not ready, unless an agent before this one has said so."""
        self._container_id = seen.container_id
        self._told = None
        if self._kind == "liveness":
            self._told = Result.SUCCESS
        elif self._kind == "readiness" and not seen.ready:
            self._told = Result.FAILURE
        self._last, self._run = None, 0
        self._on_hold = self._has_asked = False

    async def _ask_if_due(self, seen: ContainerStatus, pod_ip: str) -> None:
        if self._on_hold:
            return
        started_at = seen.state.running.started_at if seen.state.running else None
        if not self._has_waited(started_at):
            return
        if self._kind == "startup" and seen.started:
            await self._tell(Result.SUCCESS)  # an agent before this one has seen it start
            return
        if self._kind != "startup" and not seen.started:
            return
        self._has_asked = True
        result = await self._ask(pod_ip)
        if result is None:
            return
        self._run = self._run + 1 if result is self._last else 1
        self._last = result
        enough = self.probe.failure_threshold or 3
        if result is Result.SUCCESS:
            enough = self.probe.success_threshold or 1
        if self._run < enough:
            return
        await self._tell(result)
        if self._kind == "startup" or (self._kind == "liveness" and result is Result.FAILURE):
            self._on_hold, self._run = True, 0  # until there is another attempt at the container

    def _has_waited(self, started_at: datetime | None) -> bool:
        delay = self.probe.initial_delay_seconds or 0
        return started_at is None or int((self._prober.now() - started_at).total_seconds()) >= delay

    async def _ask(self, pod_ip: str) -> Result | None:
        """-> None when the attempt went wrong, again and again: that says nothing about the container."""
        loop, kind = asyncio.get_running_loop(), self._kind.title()
        began = loop.time()
        answer = await self._attempt(pod_ip)
        for _ in range(_TRIES - 1):
            if answer.is_error:
                answer = await self._attempt(pod_ip)
        if answer.is_error:
            self._warn("Unhealthy", f"{kind} probe errored and resulted in {answer.verdict} state: {answer.output}")
            return None
        if answer.verdict is Verdict.FAILURE:
            self._warn("Unhealthy", f"{kind} probe failed: {answer.output}")
        elif answer.verdict is Verdict.WARNING:
            self._warn("ProbeWarning", f"{kind} probe warning: {answer.output}")
        is_good = answer.verdict in (Verdict.SUCCESS, Verdict.WARNING)
        result = Result.SUCCESS if is_good else Result.FAILURE
        self._note(Probed(self._kind, self.container.name, result, loop.time() - began))
        return result

    async def _attempt(self, pod_ip: str) -> Answer:
        return await self._prober.asking.attempt(self.probe, self.container, self._raw_id(), pod_ip)

    def _warn(self, reason: str, message: str) -> None:
        path = field_path(self._pod, self.container.name)
        self._prober.recorder.event(self._pod, "Warning", reason, message, field_path=path)

    async def _tell(self, result: Result) -> None:
        if result is self._told:
            return
        self._note(HealthChanged(self._kind, self.container.name, result))
        await self._prober.inbox.put(messages.Probed(self._kind, self._pod.metadata.uid, self._raw_id(), result))
        self._told = result

    def _raw_id(self) -> str:
        """As the runtime knows it."""
        return self._container_id.partition("://")[2]

    def _note(self, moment: Moment) -> None:
        self._prober.journal.note(moment, about(self._pod))


def _probes(pod: Pod) -> list[tuple[Container, ProbeKind, Probe]]:
    """Init containers end by themselves; only sidecars among them are there to be probed."""
    containers = (*pod.spec.containers, *(c for c in pod.spec.init_containers if is_sidecar(c)))
    return [
        (container, kind, probe)
        for container in containers
        for kind in _KINDS
        if (probe := getattr(container, f"{kind}_probe")) is not None
    ]


def _container_status(status: PodStatus, name: str) -> ContainerStatus | None:
    everyone = (*status.container_statuses, *status.init_container_statuses)
    return next((each for each in everyone if each.name == name), None)

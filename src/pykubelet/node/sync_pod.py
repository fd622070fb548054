"""What it takes to run a pod, to stop it and to let it go: three lists of steps.

Setting up stops at the first step that fails; tearing down runs every step and tells of all that failed.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import is_static
from pykubelet.base.errors import Invalid, PykubeletError, Retry, as_it_came
from pykubelet.base.timed import timed
from pykubelet.node.active_deadline import ActiveDeadlines
from pykubelet.node.dependencies import Dependencies
from pykubelet.node.kuberuntime import KubeRuntime, PodSetup
from pykubelet.node.mirrors import MirrorPods
from pykubelet.node.pinning import Pinning
from pykubelet.node.pod_devices import PodDevices
from pykubelet.node.pod_killer import PodKiller
from pykubelet.node.pod_reporter import PodReporter
from pykubelet.node.probe_results import ProbeResultsStore
from pykubelet.node.prober import Prober
from pykubelet.node.qos_cgroups import QosCgroups
from pykubelet.node.resizes import PodResizes
from pykubelet.pod.container.failures import FoldersFailed, MountFailed, missing_object
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.lifecycle.asked_restarts import with_restarts
from pykubelet.pod.lifecycle.crash_loop_backoff import RestartWaits
from pykubelet.pod.lifecycle.plan import plan
from pykubelet.pod.moments import Awaiting, Step, StepBegun, StepEnded, about
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.ports.syncer import Synced
from pykubelet.pod.resize.allocation import peak
from pykubelet.pod.status.pod_status import Failure, Waiting

log = logging.getLogger(__name__)

_DEAD_KEPT: Final = 1
_MOST_ROUNDS: Final = 20
_CREATING: Final = "ContainerCreating"
_SOON: Final = 1.0
T = TypeVar("T")


class PodSync:
    """The Syncer of a node with a container runtime. `network_trouble` says what is wrong with the network, if
    anything."""

    def __init__(
        self,
        outside: Dependencies,
        *,
        prober: Prober,
        results: ProbeResultsStore,
        reporter: PodReporter,
        deadlines: ActiveDeadlines,
        qos: QosCgroups | None,
        mirrors: MirrorPods | None,
        network_trouble: Callable[[], str],
        resizes: PodResizes,
        pinning: Pinning | None,
    ) -> None:
        self._pinning = pinning
        self._runtime = outside.runtime
        self._host = outside.host
        self._cgroups = outside.cgroups
        self._recorder = outside.recorder
        self._journal = outside.journal
        self._objects = outside.objects
        self._planned = outside.planned
        self._devices = outside.devices
        self._pod_devices = PodDevices(outside)
        self._prober = prober
        self._results = results
        self._reporter = reporter
        self._deadlines = deadlines
        self._qos = qos
        self._mirrors = mirrors
        self._network_trouble = network_trouble
        self._killer = PodKiller(outside)
        self._resizes = resizes
        self._kuberuntime = KubeRuntime(outside, self._killer, resizes, pinning)

    def restart(self, uid: str, container_id: str) -> None:
        self._kuberuntime.restart(uid, container_id)

    def wait_by(self, waits: RestartWaits) -> None:
        self._kuberuntime.wait_by(waits)

    # --- the three lists

    async def sync(self, pod: Pod) -> Synced:
        """What may take time is written down step by step; the rest is over at once."""
        if self._objects is not None:
            self._objects.register(pod)
        observed = await self._step("look", self._look(pod))
        if self._reporter.has_ended(pod.metadata.uid):
            return Synced(ended=True)
        deadline_in = self._deadlines.enforce(pod)
        if self._reporter.has_ended(pod.metadata.uid):
            return Synced(ended=True)
        if not await self._have_devices(pod, observed):
            return Synced(ended=True)
        self._prober.add(pod)  # also one that cannot be set up right now: what runs of it is probed
        self._require_network(pod)
        mirror_in = await self._show_mirror(pod)
        wide = peak(pod, self._resizes.actuated(pod) or {})  # who grows needs the room first
        cgroup_parent = await self._make_cgroup(wide, observed)
        volumes, id_mappings = await self._step("volumes", self._make_folders_and_volumes(pod))
        setup = PodSetup(cgroup_parent=cgroup_parent, volumes=volumes, id_mappings=id_mappings)
        if observed.is_running:
            await self._pod_devices.take_up(pod)
        observed, retry_in = await self._run_containers(pod, observed, setup)
        if self._reporter.has_ended(pod.metadata.uid):
            return Synced(ended=True)
        if wide is not pod:
            await self._narrow(pod, observed)
        await self._tidy(pod, observed)
        return Synced(again_in=_soonest(deadline_in, mirror_in, retry_in, self._renewal_in(pod)))

    async def stop(self, pod: Pod, grace: float) -> None:
        observed = await self._look_and_report_if_possible(pod)
        self._prober.stopping(pod.metadata.uid)
        try:
            await self._killer.kill_pod(pod, observed, grace)
        except PykubeletError as error:
            self._recorder.event(pod, "Warning", "FailedKillPod", f"error killing pod: {error}")
            raise
        observed = await self._look_and_report_if_possible(pod)
        if observed.is_running:
            raise Retry("some containers do not end")
        self._prober.remove(pod.metadata.uid)

    async def release(self, pod: Pod) -> None:
        await self._pod_devices.give_back(pod)
        if self._objects is not None:
            self._objects.forget(pod.metadata.uid)
        if self._devices is not None:
            self._devices.release(pod.metadata.uid)
        await _every(
            self._report_end(pod),
            self._host.tear_down(pod.metadata.uid),
            self._remove_cgroup(pod.metadata.uid),
        )

    async def remove(self, uid: str) -> None:
        observed = await self._runtime.observe(uid)
        await _every(
            *(self._runtime.remove_container(container.id) for container in observed.containers),
            *(self._runtime.remove_sandbox(sandbox.id) for sandbox in observed.sandboxes),
            self._host.tear_down(uid),
            self._remove_cgroup(uid),
            self._host.remove(uid),
        )
        self._kuberuntime.forget(uid)

    # --- steps

    async def _step(self, name: Step, work: Awaitable[T]) -> T:
        """One of the list, written down with the time that it takes."""
        self._journal.note(StepBegun(name))
        with timed(self._journal, partial(StepEnded, name)):
            return await work

    async def _look(self, pod: Pod) -> ObservedPod:
        try:
            observed = await self._runtime.observe(pod.metadata.uid)
        except PykubeletError as error:
            self._recorder.event(pod, "Warning", "FailedSync", f"error determining status: {as_it_came(error)}")
            raise
        self._reporter.saw(pod, observed)
        return observed

    async def _look_and_report_if_possible(self, pod: Pod) -> ObservedPod:
        observed = await self._runtime.observe(pod.metadata.uid)
        try:
            self._reporter.saw(pod, observed)
        except Exception:  # what has to stop, stops, whatever can be said about it
            log.exception("the status of pod %s cannot be told", pod.metadata.name)
        return observed

    async def _have_devices(self, pod: Pod, observed: ObservedPod) -> bool:
        """Devices that plug-ins bring. A pod that cannot have its own has failed; one that runs has them."""
        if self._devices is None or not self._devices.wants(pod, is_running=observed.is_running):
            return True
        try:
            await self._step("devices", self._devices.allocate(pod))
            return True
        except Invalid as error:
            failure = Failure("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")
            self._recorder.event(pod, "Warning", failure.reason, failure.message)
            self._reporter.note_failure(pod.metadata.uid, failure)
            self._reporter.report(pod)
            return False

    def _require_network(self, pod: Pod) -> None:
        trouble = "" if pod.spec.host_network else self._network_trouble()
        if trouble:
            what = f"network is not ready: {trouble}"
            self._journal.note(Awaiting("network", "", trouble), about(pod))
            self._journal.note(StepEnded("network", 0.0, what), about(pod))
            self._recorder.event(pod, "Warning", "NetworkNotReady", what)
            raise Retry(what)

    async def _show_mirror(self, pod: Pod) -> float | None:
        """-> seconds after which to try again."""
        if self._mirrors is None or not is_static(pod):
            return None
        return await self._step("mirror pod", self._mirrors.keep(pod))

    async def _make_cgroup(self, pod: Pod, observed: ObservedPod) -> str:
        """-> the group that its containers are put into."""
        if self._cgroups is None:
            return ""
        try:
            if self._qos is not None and not observed.sandboxes:  # the classes make room before the pod comes
                await self._qos.balance()
            is_free = self._pinning is not None and self._pinning.has_exclusive_cpus(pod.metadata.uid)
            return await self._step("cgroup", self._cgroups.set_up(pod, unlimited_quota=is_free))
        except PykubeletError as error:
            what = f"unable to ensure pod container exists: {error}"
            self._recorder.event(pod, "Warning", "FailedCreatePodContainer", what)
            raise

    async def _narrow(self, pod: Pod, observed: ObservedPod) -> None:
        """Its containers have been told by now, as far as they could be: the pod gives back what none of them needs."""
        await self._make_cgroup(peak(pod, self._resizes.actuated(pod) or {}), observed)
        if self._qos is not None:
            await self._qos.balance()

    async def _remove_cgroup(self, uid: str) -> None:
        if self._cgroups is not None:
            await self._cgroups.remove(uid)

    async def _make_folders_and_volumes(self, pod: Pod) -> tuple[Mapping[str, str], tuple[IdMapping, ...]]:
        """-> where each volume is, and the users of the pod's own user namespace."""
        uid = pod.metadata.uid
        try:
            made = await self._host.set_up(pod), await self._host.id_mappings(pod)
        except PykubeletError as error:
            is_told = isinstance(error, MountFailed | FoldersFailed)
            what = str(error) if is_told else f"Unable to attach or mount volumes: {error}"
            self._journal.note(_awaited(error), about(pod))
            reason = "Failed" if isinstance(error, FoldersFailed) else "FailedMount"
            self._recorder.event(pod, "Warning", reason, what)
            waiting = Waiting(_CREATING, str(error))
            everyone = {each.name: waiting for each in (*pod.spec.init_containers, *pod.spec.containers)}
            self._reporter.note_waiting(uid, everyone)
            self._reporter.report(pod)
            raise
        waits = self._reporter.waiting(uid)
        self._reporter.note_waiting(uid, {name: why for name, why in waits.items() if why.reason != _CREATING})
        return made

    async def _run_containers(
        self, pod: Pod, observed: ObservedPod, setup: PodSetup
    ) -> tuple[ObservedPod, float | None]:
        """Plan, act and look again, as long as that brings the pod forward: what is started now may be what the next
        container waits for. -> what was seen last, and the seconds after which to try again."""
        uid, again_in = pod.metadata.uid, None
        for _ in range(_MOST_ROUNDS):
            planned = plan(pod, observed, self._results.of(uid), self._resizes.actuated(pod))
            actions = with_restarts(planned, pod, observed, self._kuberuntime.asked(uid))
            self._planned(uid, actions)
            if actions.is_empty:
                return observed, again_in
            known = {container.id for container in observed.containers}
            acted = await self._step("containers", self._kuberuntime.act(pod, observed, actions, setup))
            waits = {name: why for name, why in self._reporter.waiting(uid).items() if name not in actions.starts}
            self._reporter.note_waiting(uid, {**waits, **acted.waiting})
            again_in = _soonest(again_in, acted.again_in)
            observed = await self._look(pod)
            if not acted.has_changed or self._reporter.has_ended(uid):
                # Of a program that could not be started no event tells that it has ended.
                ended = any(c.id not in known and c.state is State.EXITED for c in observed.containers)
                return observed, _soonest(again_in, _SOON if ended else None)
        return observed, _soonest(again_in, _SOON)

    async def _tidy(self, pod: Pod, observed: ObservedPod) -> None:
        """Of each container the last dead one is kept, for its logs and its last state; older ones go.

        An older one that runs was started for an agent that had gone before it ran: two of a kind never run together.
        """
        unwanted: list[str] = []
        for name in dict.fromkeys(container.name for container in observed.containers):
            newest, *older = observed.attempts(name)
            unwanted += [c.id for c in (newest, *older) if c.state is State.EXITED][_DEAD_KEPT:]
            unwanted += [c.id for c in older if c.state in (State.CREATED, State.RUNNING)]
        used = {container.sandbox_id for container in observed.containers}
        spent = [s.id for s in observed.sandboxes[1:] if not s.ready and s.id not in used]
        if unwanted or spent:
            await self._step("tidy", self._remove_from_runtime(unwanted, spent))
        self._results.keep(pod.metadata.uid, {container.id for container in observed.containers} - {*unwanted})

    async def _remove_from_runtime(self, containers: Iterable[str], sandboxes: Iterable[str]) -> None:
        for container_id in containers:
            await self._runtime.remove_container(container_id)
        for sandbox_id in sandboxes:
            await self._runtime.remove_sandbox(sandbox_id)

    async def _report_end(self, pod: Pod) -> None:
        """What stopped it has looked after it, and what has ended stays as it was."""
        uid = pod.metadata.uid
        self._reporter.report_end(pod, self._reporter.last_seen(uid) or await self._runtime.observe(uid))

    # --- inside

    def _renewal_in(self, pod: Pod) -> float | None:
        """Until a token in the pod's volumes has to be asked for again."""
        return self._objects.renewal_in(pod.metadata.uid) if self._objects is not None else None


def _soonest(*seconds: float | None) -> float | None:
    return min((each for each in seconds if each is not None), default=None)


def _awaited(error: PykubeletError) -> Awaiting:
    """What the volumes of a pod wait for."""
    if (missing := missing_object(error)) is not None:
        return Awaiting(missing.kind, missing.name, str(error))
    return Awaiting("volume", error.volume if isinstance(error, MountFailed) else "", str(error))


async def _every(*steps: Coroutine[Any, Any, None]) -> None:
    """Run every step in its order; then tell of all that failed."""
    failures: list[Exception] = []
    try:
        for step in steps:
            try:
                await step
            except PykubeletError as error:
                failures.append(error)
    finally:
        for step in steps:
            step.close()  # whoever is cancelled does not get to all of them
    if failures:
        raise Retry("; ".join(str(failure) for failure in failures))

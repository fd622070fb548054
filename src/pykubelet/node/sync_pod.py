"""What it takes to run a pod, to stop it and to let it go: three lists of steps.

Setting up stops at the first step that fails; tearing down runs every step and tells of all that failed.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from functools import partial
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import is_static
from pykubelet.base.errors import NotFound, PykubeletError, Retry
from pykubelet.base.tasks import every
from pykubelet.base.timed import timed
from pykubelet.node.dependencies import Dependencies
from pykubelet.node.kuberuntime import KubeRuntime
from pykubelet.node.pod_reporter import PodReporter
from pykubelet.node.probe_results import ProbeResultsStore
from pykubelet.node.prober import Prober
from pykubelet.node.scene import Memory, Scene
from pykubelet.node.status_manager import StatusManager
from pykubelet.pod.container.missing_object import missing_object
from pykubelet.pod.container.mount_failed import MountFailed
from pykubelet.pod.lifecycle.plan import plan
from pykubelet.pod.moments import Awaiting, DeadlinePassed, StepBegun, StepEnded, about
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.ports.syncer import Synced
from pykubelet.pod.status.phase import is_terminal_phase
from pykubelet.pod.status.pod_status import Failure, Waiting

log = logging.getLogger(__name__)

_DEADLINE: Final = Failure("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
_DEAD_KEPT: Final = 1
_MIRROR_RETRY: Final = 10.0
_MOST_ROUNDS: Final = 20
_CREATING: Final = "ContainerCreating"
_SOON: Final = 1.0
_BALANCE: Final = 60.0


class PodSync:
    """The Syncer of a node with a container runtime.

    `show` keeps the mirror pod of a static pod; `network_trouble` says what is wrong with the network, if anything;
    `pods` are all that have not ended.
    """

    def __init__(
        self,
        outside: Dependencies,
        statuses: StatusManager,
        prober: Prober,
        results: ProbeResultsStore,
        reporter: PodReporter,
        *,
        show: Callable[[Pod], Awaitable[None]] | None = None,
        network_trouble: Callable[[], str] = lambda: "",
        pods: Callable[[], Collection[Pod]] = tuple,
    ) -> None:
        self._runtime = outside.runtime
        self._host = outside.host
        self._cgroups = outside.cgroups
        self._statuses = statuses
        self._recorder = outside.recorder
        self._journal = outside.journal
        self._machine = outside.machine
        self._show = show
        self._objects = outside.objects
        self._network_trouble = network_trouble
        self._pods = pods
        self._prober = prober
        self._results = results
        self._reporter = reporter
        self._now = outside.now
        self._acting = KubeRuntime(outside)
        self._memories: dict[str, Memory] = {}

    # --- the three lists

    async def sync(self, pod: Pod) -> Synced:
        if self._objects is not None:
            self._objects.register(pod)
        memory = self._memories.setdefault(pod.metadata.uid, Memory())
        scene = Scene(pod=pod, memory=memory, observed=ObservedPod(uid=pod.metadata.uid), due=[])
        for step in (
            self._look,
            self._refuse_late_pod,
            self._probe,
            self._await_network,
            self._show_mirror,
            self._make_cgroup,
            self._make_folders_and_volumes,
            self._fetch_pull_secrets,
            self._run_containers,
            self._tidy,
        ):
            name = step.__name__.strip("_")
            self._journal.note(StepBegun(name), about(pod))
            with timed(self._journal, partial(StepEnded, name), about(pod)):
                await step(scene)
            if is_terminal_phase(self._phase(pod)):
                return Synced(ended=True)
        return Synced(again_in=min(scene.due, default=None))

    async def stop(self, pod: Pod, grace: float) -> None:
        observed = await self._look_and_report_if_possible(pod)
        self._prober.stopping(pod.metadata.uid)
        await self._acting.stop(pod, observed, grace)
        observed = await self._look_and_report_if_possible(pod)
        if observed.is_running:
            raise Retry("some containers do not end")
        self._prober.remove(pod.metadata.uid)

    async def release(self, pod: Pod) -> None:
        if self._objects is not None:
            self._objects.forget(pod.metadata.uid)
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

    # --- what the handlers may ask and say

    def forget(self, uid: str) -> None:
        self._memories.pop(uid, None)

    def is_due(self, pod: Pod, now: datetime) -> bool:
        """Whether the pod has been active for longer than it may."""
        left = self._seconds_left(pod, now)
        return left is not None and left <= 0

    def _seconds_left(self, pod: Pod, now: datetime) -> float | None:
        """Until the pod's active deadline; None when it has none, or has not begun."""
        limit, status = pod.spec.active_deadline_seconds, self._statuses.get(pod.metadata.uid)
        started = status.start_time if status else pod.status.start_time
        return None if limit is None or started is None else limit - (now - started).total_seconds()

    # --- steps

    async def _look(self, scene: Scene) -> None:
        scene.observed = await self._runtime.observe(scene.pod.metadata.uid)
        self._reporter.saw(scene.pod, scene.observed)

    async def _look_and_report_if_possible(self, pod: Pod) -> ObservedPod:
        observed = await self._runtime.observe(pod.metadata.uid)
        try:
            self._reporter.saw(pod, observed)
        except Exception:  # what has to stop, stops, whatever can be said about it
            log.exception("the status of pod %s cannot be told", pod.metadata.name)
        return observed

    async def _refuse_late_pod(self, scene: Scene) -> None:
        left = self._seconds_left(scene.pod, self._now())
        if left is None:
            return
        if left > 0:
            scene.due.append(left)
            return
        self._journal.note(DeadlinePassed(), about(scene.pod))
        self._reporter.note_failure(scene.pod.metadata.uid, _DEADLINE)
        self._recorder.event(scene.pod, "Normal", _DEADLINE.reason, _DEADLINE.message)
        self._reporter.report(scene.pod)

    async def _probe(self, scene: Scene) -> None:
        """Also a pod that cannot be set up right now: what runs of it is probed."""
        self._prober.add(scene.pod)

    async def _await_network(self, scene: Scene) -> None:
        trouble = "" if scene.pod.spec.host_network else self._network_trouble()
        if trouble:
            self._journal.note(Awaiting("network", "", trouble), about(scene.pod))
            self._recorder.event(scene.pod, "Warning", "NetworkNotReady", f"network is not ready: {trouble}")
            raise Retry(f"network is not ready: {trouble}")

    async def _show_mirror(self, scene: Scene) -> None:
        if self._show is not None and is_static(scene.pod):
            try:
                await self._show(scene.pod)
            except PykubeletError as error:  # the pod runs, shown or not
                self._journal.note(Awaiting("mirror pod", "", str(error)), about(scene.pod))
                level = logging.DEBUG if scene.memory.mirror_trouble == str(error) else logging.WARNING
                log.log(level, "pod %s has no mirror pod: %s", scene.pod.metadata.name, error)
                scene.memory.mirror_trouble = str(error)
                scene.due.append(_MIRROR_RETRY)

    async def _make_cgroup(self, scene: Scene) -> None:
        if self._cgroups is None:
            return
        try:
            if not scene.observed.sandboxes:  # the classes make room before the pod comes
                await self._balance()
            scene.cgroup_parent = await self._cgroups.set_up(scene.pod)
        except PykubeletError as error:
            what = f"unable to ensure pod container exists: {error}"
            self._recorder.event(scene.pod, "Warning", "FailedCreatePodContainer", what)
            raise

    async def keep_balance(self) -> None:
        """Pods end, and others change what they ask for."""
        async for _ in every(_BALANCE):
            await self._balance()

    async def _balance(self) -> None:
        if self._cgroups is None:
            return
        try:
            await self._cgroups.balance(self._pods())
        except PykubeletError as error:
            log.warning("the control groups of the classes of service cannot be brought up to date: %s", error)

    async def _remove_cgroup(self, uid: str) -> None:
        if self._cgroups is not None:
            await self._cgroups.remove(uid)

    async def _make_folders_and_volumes(self, scene: Scene) -> None:
        uid = scene.pod.metadata.uid
        try:
            scene.volumes = await self._host.set_up(scene.pod)
            scene.id_mappings = await self._host.id_mappings(scene.pod)
        except PykubeletError as error:
            what = str(error) if isinstance(error, MountFailed) else f"Unable to attach or mount volumes: {error}"
            self._journal.note(_awaited(error), about(scene.pod))
            self._recorder.event(scene.pod, "Warning", "FailedMount", what)
            spec, waiting = scene.pod.spec, Waiting(_CREATING, str(error))
            everyone = {each.name: waiting for each in (*spec.init_containers, *spec.containers)}
            self._reporter.note_waiting(uid, everyone)
            self._reporter.report(scene.pod)
            raise
        waits = self._reporter.waiting(uid)
        self._reporter.note_waiting(uid, {name: why for name, why in waits.items() if why.reason != _CREATING})
        if self._objects is not None and (left := self._objects.renewal_in(uid)) is not None:
            scene.due.append(left)

    async def _fetch_pull_secrets(self, scene: Scene) -> None:
        """Those that cannot be had are told of; the pull itself will show whether they were needed."""
        meta, found, missing = scene.pod.metadata, [], []
        wanted = scene.pod.spec.image_pull_secrets
        if not wanted or plan(scene.pod, scene.observed, self._results.of(meta.uid)).is_empty:
            return  # nothing is about to be started
        for reference in wanted:
            try:
                if self._objects is None:
                    raise NotFound("there is no API server to get it from")
                found.append(await self._objects.secret(meta.namespace, reference.name, fresh=True))
            except PykubeletError as error:
                log.debug("pull secret %s/%s: %s", meta.namespace, reference.name, error)
                missing.append(reference.name)
        if missing:
            what = f"Unable to retrieve some image pull secrets ({', '.join(missing)})"
            message = f"{what}; attempting to pull the image may not succeed."
            self._recorder.event(scene.pod, "Warning", "FailedToRetrieveImagePullSecret", message)
        scene.pull_secrets = tuple(found)

    async def _run_containers(self, scene: Scene) -> None:
        """Plan, act and look again, as long as that brings the pod forward: what is started now may be what the next
        container waits for."""
        uid = scene.pod.metadata.uid
        for _ in range(_MOST_ROUNDS):
            actions = plan(scene.pod, scene.observed, self._results.of(uid))
            if actions.is_empty:
                return
            known = {container.id for container in scene.observed.containers}
            scene.not_started = {}
            has_changed = await self._acting.act(scene, actions)
            waits = {name: why for name, why in self._reporter.waiting(uid).items() if name not in actions.starts}
            self._reporter.note_waiting(uid, waits | scene.not_started)
            await self._look(scene)
            if not has_changed or is_terminal_phase(self._phase(scene.pod)):
                if any(c.id not in known and c.state is State.EXITED for c in scene.observed.containers):
                    scene.due.append(_SOON)  # a program that could not be started: no event tells of its end
                return
        scene.due.append(_SOON)

    async def _tidy(self, scene: Scene) -> None:
        """Of each container the last dead one is kept, for its logs and its last state; older ones go.

        An older one that runs was started for an agent that had gone before it ran: two of a kind never run together.
        """
        observed = scene.observed
        gone: set[str] = set()
        for name in {container.name for container in observed.containers}:
            newest, *older = observed.attempts(name)
            dead = [c for c in (newest, *older) if c.state is State.EXITED][_DEAD_KEPT:]
            unwanted = [c for c in older if c.state in (State.CREATED, State.RUNNING)]
            for container in (*dead, *unwanted):
                await self._runtime.remove_container(container.id)
                gone.add(container.id)
        self._results.keep(scene.pod.metadata.uid, {c.id for c in observed.containers} - gone)
        used = {container.sandbox_id for container in observed.containers}
        for sandbox in observed.sandboxes[1:]:
            if not sandbox.ready and sandbox.id not in used:
                await self._runtime.remove_sandbox(sandbox.id)

    async def _report_end(self, pod: Pod) -> None:
        self._reporter.report_end(pod, await self._runtime.observe(pod.metadata.uid))

    # --- inside

    def _phase(self, pod: Pod) -> str:
        return self._reporter.phase(pod.metadata.uid)


def _awaited(error: PykubeletError) -> Awaiting:
    """What the volumes of a pod wait for."""
    if (missing := missing_object(error)) is not None:
        return Awaiting(missing.kind, missing.name, str(error))
    return Awaiting("volume", error.volume if isinstance(error, MountFailed) else "", str(error))


async def _every(*steps: Awaitable[None]) -> None:
    """Run every step in its order; then tell of all that failed."""
    failures: list[Exception] = []
    for step in steps:
        try:
            await step
        except PykubeletError as error:
            failures.append(error)
    if failures:
        raise Retry("; ".join(str(failure) for failure in failures))

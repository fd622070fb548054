"""Keeps the API server's idea of this node true: registers it, and reports what has changed about it.

Without an API server it still looks at the machine, since pods are admitted to the node that it makes.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Literal

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.node import Node, NodeSpec, NodeStatus
from pykubelet.api.rules.well_known import KUBELET_LABELS
from pykubelet.api.struct import changed
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError, Retry
from pykubelet.node.ownership import Ownership
from pykubelet.node.runtime_word import RuntimeWord
from pykubelet.pod.eviction.thresholds import Pressure
from pykubelet.pod.moments import Journal, NodeStage
from pykubelet.pod.node.node_claim import InUse, is_silent, last_sign, other_machine
from pykubelet.pod.node.node_object import (
    READY,
    REQUIRED_LABELS,
    NodeSettings,
    metadata_patch,
    node_object,
    reported,
    status_patch,
    transitions,
    without_heartbeats,
)
from pykubelet.pod.ports.machine import LastKnown
from pykubelet.pod.ports.node import MachineFacts, NodeApi, NodeRecorder, RuntimeHealth

log = logging.getLogger(__name__)

_SOONEST: Final = 0.1
_LATEST: Final = 7.0
_COMPLAIN_EVERY: Final = 60.0


class NodeReporter:
    """`node` is the newest known state of the node, None before the first look at it. It is replaced when something but
    a heartbeat has changed.

    `seen` is what a watch shows of the node, None while that is nothing: through it others' changes are noticed between
    two reports, such as a cluster's verdict that the node is lost. `pressures` and `troubles` are asked at each look; a
    trouble is a sentence that says why the node is not ready.

    A node object of another machine that is alive is left alone until that one falls silent; `ownership` tells whose
    it is. `lease_renewed` says when the node's lease was last renewed, by whomever. `before` has what an earlier agent
    knew of the node.
    """

    def __init__(
        self,
        api: NodeApi | None,
        settings: NodeSettings,
        *,
        facts: Callable[[], Awaitable[MachineFacts]],
        runtime: RuntimeHealth,
        recorder: NodeRecorder | None = None,
        seen: Callable[[], Node | None] = lambda: None,
        lease_renewed: Callable[[], Awaitable[datetime | None]] | None = None,
        pressures: Callable[[], Collection[Pressure]] = lambda: (),
        troubles: Callable[[], Iterable[str]] = lambda: (),
        before: LastKnown | None = None,
        devices: Callable[[], Mapping[str, tuple[int, int]]] = dict,
        volumes_in_use: Callable[[NodeStatus], tuple[str, ...]] = lambda shown: shown.volumes_in_use,
        journal: Journal | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._node: Node | None = None
        self._mixed_in: Node | None = None
        self.ownership = Ownership()
        self._api = api
        self._settings = settings
        self._facts = facts
        self._runtime = RuntimeWord(runtime)
        self._recorder = recorder
        self._seen = seen
        self._lease_renewed = lease_renewed
        self._pressures = pressures
        self._troubles = troubles
        self._before_us = before
        self._devices = devices
        self._volumes_in_use = volumes_in_use
        self._journal = journal or Journal()
        self._stage: Literal["", "registering", "registered", "ready"] = ""
        self._now = now
        self._woken = asyncio.Event()
        self._shown: Node | None = None
        """The API server's newest copy that we know of. None: it is to be registered, perhaps once more."""
        self._last_seen: Node | None = None
        self._is_doubtful = False
        """A report has failed: `_shown` may be old."""
        self._due = 0.0
        """When the next report is due although nothing has changed, on the loop's clock."""
        self._before: NodeStatus | None = None
        """What was shown before a report of which we do not know yet that it arrived. Events tell what it changes."""
        self._was_unschedulable = False
        self._complaints = _Complaints(settings.name)
        self._last_sign: tuple[datetime, float] | None = None
        """The newest sign of life of another machine, and when we first saw it, on the loop's clock."""

    @property
    def node(self) -> Node | None:
        """Labels and taints are others' to change, and a pod may be sent here because of that very change: they hold
        from the moment they are seen, not from the next report on."""
        seen = self._seen()
        if seen is not self._mixed_in and self.ownership.is_ours:
            self._mixed_in = seen
            if seen is not None and self._node is not None:
                self._keep(changed(self._node, metadata=seen.metadata, spec=seen.spec))
        return self._node

    @property
    def complaint(self) -> str:
        """Why the node cannot be reported; empty when it can."""
        return self._complaints.text

    def serve_on(self, port: int) -> None:
        """Where the agent's HTTP API is, once that is known. Before `run`."""
        self._settings = changed(self._settings, port=port)

    def reload(self, settings: NodeSettings) -> None:
        """How often it is looked and told, and what is kept free of pods, may change while it runs."""
        self._settings = changed(
            self._settings,
            update_period=settings.update_period,
            report_period=settings.report_period,
            thresholds=settings.thresholds,
        )
        self.changed()

    def changed(self) -> None:
        """Something about the node is different now: look at once."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled. May be called again after that."""
        backoff = Backoff(_SOONEST, _LATEST, now=asyncio.get_running_loop().time)
        while True:
            self._woken.clear()
            try:
                await self._look()
            except PykubeletError as error:
                self._complaints.complain(error)
                after = error.after if isinstance(error, Retry) else None
                await asyncio.sleep(max(backoff.next(), after or 0.0))
            else:
                self._complaints.text = ""
                backoff.reset()
                await self._pause()

    # --- one look

    async def _look(self) -> None:
        node = node_object(
            await self._facts(),
            self._settings,
            await self._runtime.report(),
            self._now(),
            pressures=self._pressures(),
            troubles=self._troubles(),
            devices=self._devices(),
        )
        if self._api is None:
            self.ownership.say(True)
            known = self._node or node
            self._keep(changed(known, status=reported(known.status, node.status)))
            return
        if self._node is None:  # nobody needs to wait for the server to know what the node is like
            self._node = _as_before(node, self._before_us.recall("node") if self._before_us is not None else None)
        try:
            shown = await self._newest(self._api)
            if shown is None:
                shown = await self._register(self._api, node)
            else:
                shown = await self._claim(self._api, shown, node)
            self._shown = shown
            await self._report(self._api, shown, node)
            self.ownership.say(True)
        except InUse:
            self._is_doubtful = True
            self.ownership.say(False)
            raise
        except NotFound:
            self._shown = None
            raise
        except PykubeletError:
            self._is_doubtful = True
            raise

    async def _newest(self, api: NodeApi) -> Node | None:
        """What the API server shows of the node, asking it only when there is doubt."""
        seen = self._seen()
        if seen is not self._last_seen:  # not older than what we knew, or put right in the next turn
            self._last_seen = self._shown = seen
        if self._is_doubtful and self._shown is not None:
            self._shown = await api.get(self._settings.name)
        self._is_doubtful = False
        return self._shown

    async def _register(self, api: NodeApi, node: Node) -> Node:
        name = self._settings.name
        if not self._settings.register:
            return await self._claim(api, await api.get(name), node)
        self._reach("", "registering")
        try:
            created = await api.create(node)
        except (Conflict, Invalid) as refusal:  # not allowed to create it: it may be there all the same
            try:
                shown = await api.get(name)
            except NotFound:
                raise refusal from None
            shown = await self._claim(api, shown, node)
            log.info("node %s was registered before", name)
            return await self._label(api, shown, node)
        log.info("node %s is registered", name)
        self._reach("registering", "registered")
        self._plan_next(is_news=True)
        self._before = NodeStatus()
        return created

    async def _claim(self, api: NodeApi, shown: Node, node: Node) -> Node:
        """The node object, if it may be ours. Raises InUse."""
        name, ours = self._settings.name, node.status.node_info
        if other_machine(shown.status.node_info, ours):
            shown = await api.get(name)  # what a watch shows may be from before we took it
        machine = other_machine(shown.status.node_info, ours)
        if not machine:
            self._last_sign = None
            return shown
        sign = last_sign(shown.status, await self._renewal())
        if sign is None:
            return shown
        now, loop_now = self._now(), asyncio.get_running_loop().time()
        if self._last_sign is None or self._last_sign[0] != sign:
            self._last_sign = sign, loop_now
        if not is_silent(sign, now, loop_now - self._last_sign[1]):
            raise InUse(name, machine, (now - sign).total_seconds())
        log.warning("node %s was that of another machine (%s), which is silent: it is ours now", name, machine)
        return await self._label(api, shown, node) if self._settings.register else shown

    async def _label(self, api: NodeApi, shown: Node, node: Node) -> Node:
        patch = metadata_patch(shown.metadata, node.metadata, KUBELET_LABELS)
        return await api.patch(self._settings.name, patch) if patch else shown

    async def _renewal(self) -> datetime | None:
        try:
            return await self._lease_renewed() if self._lease_renewed is not None else None
        except Invalid as error:  # not for us to see: the node's own report has to do
            log.debug("the lease of node %s cannot be read: %s", self._settings.name, error)
            return None

    async def _report(self, api: NodeApi, shown: Node, node: Node) -> None:
        name = self._settings.name
        required = changed(node.metadata, annotations={})
        if patch := metadata_patch(shown.metadata, required, REQUIRED_LABELS):
            shown = self._shown = await api.patch(name, patch)
        in_use = self._volumes_in_use(shown.status)
        status = changed(reported(shown.status, node.status), volumes_in_use=in_use)
        self._before = self._before or shown.status
        is_news = without_heartbeats(shown.status) != without_heartbeats(status)
        if is_news or asyncio.get_running_loop().time() >= self._due:
            is_first = self._due == 0.0
            self._shown = await api.patch_status(name, status_patch(shown.status, status))
            self._plan_next(is_news=is_news or is_first)
        self._tell(self._before, status)
        self._tell_schedulable(bool((self._shown or shown).spec.unschedulable))
        if any(each.type == READY and each.status == "True" for each in status.conditions):
            self._reach("registered", "ready")
        self._keep(self._shown or shown)

    def _plan_next(self, *, is_news: bool) -> None:
        """After news at any moment of half to one and a half periods: nodes that changed together part again."""
        share = random.uniform(0.5, 1.5) if is_news else 1.0
        self._due = asyncio.get_running_loop().time() + self._settings.report_period * share

    def _keep(self, node: Node) -> None:
        if self._node is None or _without_versions(self._node) != _without_versions(node):
            self._node = node
            if self._before_us is not None:
                self._before_us.save("node", content=lambda: codec.encode(_for_later(node)))

    def _reach(
        self, before: Literal["", "registering", "registered"], stage: Literal["registering", "registered", "ready"]
    ) -> None:
        """Each once in an agent's life, and only those of a node that it has registered itself."""
        if self._stage == before:
            self._stage = stage
            self._journal.note(NodeStage(stage))

    def _tell(self, before: NodeStatus, after: NodeStatus) -> None:
        self._before = None
        if self._recorder is None:
            return
        name, boot_id = self._settings.name, after.node_info.boot_id
        if before.node_info.boot_id not in ("", boot_id):
            self._recorder.node_event("Warning", "Rebooted", f"Node {name} has been rebooted, boot id: {boot_id}")
        for reason in transitions(before, after):
            self._recorder.node_event("Normal", reason, f"Node {name} status is now: {reason}")

    def _tell_schedulable(self, is_unschedulable: bool) -> None:
        if is_unschedulable != self._was_unschedulable and self._recorder is not None:
            reason = "NodeNotSchedulable" if is_unschedulable else "NodeSchedulable"
            self._recorder.node_event("Normal", reason, f"Node {self._settings.name} status is now: {reason}")
        self._was_unschedulable = is_unschedulable

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._settings.update_period):
                await self._woken.wait()
        except TimeoutError:
            pass


class _Complaints:
    """Why the node cannot be reported, told to the log: the same once; what keeps it from being used at all, once a
    minute."""

    def __init__(self, node: str) -> None:
        self.text = ""
        self._node = node
        self._subject = ""
        """What the complaint is about, however it is worded."""
        self._again = 0.0

    def complain(self, error: PykubeletError) -> None:
        now = asyncio.get_running_loop().time()
        if isinstance(error, InUse):
            text, subject, is_due = str(error), error.machine, now >= self._again
        else:
            text = subject = f"node {self._node} cannot be reported: {error}"
            is_due = False
        is_news = is_due or not self.text or subject != self._subject
        if is_news:
            self._again = now + _COMPLAIN_EVERY
        log.log(logging.WARNING if is_news else logging.DEBUG, "%s", text)
        self.text, self._subject = text, subject


def _without_versions(node: Node) -> Node:
    """All of it that does not change with each heartbeat."""
    metadata = changed(node.metadata, resource_version="", managed_fields=())
    return changed(node, metadata=metadata, status=without_heartbeats(node.status))


def _for_later(node: Node) -> Node:
    """What others have said of it, and pods were sent here for."""
    spec = NodeSpec(pod_cidr=node.spec.pod_cidr, pod_cidrs=node.spec.pod_cidrs)
    return Node(metadata=ObjectMeta(labels=node.metadata.labels), spec=spec)


def _as_before(node: Node, content: bytes | None) -> Node:
    """With what an earlier agent knew of it: pods that were let in then are let in again while the server is away."""
    try:
        known = codec.decode(Node, content or b"{}")
    except DecodeError:
        return node
    labels = {**known.metadata.labels, **node.metadata.labels}
    spec = changed(node.spec, pod_cidr=known.spec.pod_cidr, pod_cidrs=known.spec.pod_cidrs)
    return changed(node, metadata=changed(node.metadata, labels=labels), spec=spec)

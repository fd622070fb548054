"""The sandboxes and containers that the agent knows, in memory, and how they look from outside."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Final

from pykubelet.base.errors import Retry
from pykubelet.pod.container.labels import CONTAINER_HASH, TERMINATION_GRACE_PERIOD
from pykubelet.pod.observed import EnforcedLimits, ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.runtime.process.process import Process
from pykubelet.runtime.process.store import ContainerEnd, ContainerRecord, ContainerRun, SandboxRecord, SandboxRun

_NUMBERS: Final = itertools.count()  # the order in which they were made, whatever the clock says


class Sandbox:
    def __init__(self, record: SandboxRecord) -> None:
        self.record = record
        self.containers: list[Container] = []
        self.run: SandboxRun | None = None
        self.process: Process | None = None
        """Its holder, while that is alive."""
        self.ended = asyncio.Event()

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def uid(self) -> str:
        return self.record.config.pod.metadata.uid

    def observed(self, machine_ips: tuple[str, ...]) -> ObservedSandbox:
        """Every sandbox shares this machine's network, asked for or not, and has its addresses."""
        host_network = bool(self.record.config.pod.spec.host_network)
        return ObservedSandbox(
            id=self.id,
            ready=self.process is not None,
            attempt=self.record.config.attempt,
            created_at=self.record.created_at,
            ips=() if host_network else machine_ips,
            host_network=host_network,
        )


class Container:
    def __init__(self, record: ContainerRecord, sandbox: Sandbox) -> None:
        self.number = next(_NUMBERS)
        self.record = record
        self.sandbox = sandbox
        self.run: ContainerRun | None = None
        self.end: ContainerEnd | None = None
        self.last_words = ""
        self.process: Process | None = None
        """Its monitor, while that is alive."""
        self.is_starting = False
        self.start_over = asyncio.Event()
        self.start_over.set()
        self.was_asked_to_stop = False
        self.ended = asyncio.Event()

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def state(self) -> State:
        if self.end is not None:
            return State.EXITED
        return State.CREATED if self.run is None else State.RUNNING

    def observed(self) -> ObservedContainer:
        config, run, end = self.record.config, self.run, self.end
        grace = config.annotations.get(TERMINATION_GRACE_PERIOD, "")
        return ObservedContainer(
            id=self.id,
            name=config.name,
            state=self.state,
            sandbox_id=self.sandbox.id,
            attempt=config.attempt,
            hash=config.annotations.get(CONTAINER_HASH, ""),
            image=config.image,
            image_id=self.record.image_ref or self.record.image_id,
            volume_images=tuple(mount.image_id for mount in config.mounts if mount.image_id),
            created_at=self.record.created_at,
            started_at=run.started_at if run else None,
            finished_at=end.finished_at if end else None,
            exit_code=end.exit_code if end else 0,
            reason=end.reason if end else "",
            message=self.last_words or (end.message if end else ""),
            peak=end.peak if end else 0,
            stop_signal=config.stop_signal or None,
            grace_seconds=int(grace) if grace.lstrip("-").isdigit() else None,
            limits=self._limits if self.record.placement.folders else None,
        )

    @property
    def _limits(self) -> EnforcedLimits:
        told = self.record.config.limits
        quota = told.cpu_quota if told.cpu_quota and told.cpu_quota > 0 else None
        return EnforcedLimits(cpu_shares=told.cpu_shares, cpu_quota=quota, memory=told.memory)


async def ended_within(event: asyncio.Event, seconds: float, what: str) -> None:
    """Raises Retry."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        raise Retry(f"{what} was killed, but has not ended yet") from None


def observed_pod(uid: str, sandboxes: Sequence[Sandbox], machine_ips: tuple[str, ...]) -> ObservedPod:
    """Those of one pod, newest last."""
    if not sandboxes:
        return ObservedPod(uid=uid)
    meta = sandboxes[-1].record.config.pod.metadata
    containers = sorted((c for s in sandboxes for c in s.containers), key=lambda c: c.number, reverse=True)
    return ObservedPod(
        uid=uid,
        name=meta.name,
        namespace=meta.namespace,
        sandboxes=tuple(sandbox.observed(machine_ips) for sandbox in reversed(sandboxes)),
        containers=tuple(container.observed() for container in containers),
    )

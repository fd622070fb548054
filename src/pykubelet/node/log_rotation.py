"""Every ten seconds: look at the logs of the containers that run, and rotate those that have grown too large. For
runtimes that leave that to the agent, as those that speak CRI do; logs are kept tidy for all."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

from msgspec import Struct

from pykubelet.base.errors import Invalid, NotFound, PykubeletError
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.ports.runtime import Runtime

log = logging.getLogger(__name__)

_STAMP: Final = "%Y%m%d-%H%M%S"


class RotationSettings(Struct, frozen=True, kw_only=True):
    max_size: int = 10 << 20
    """Bytes. Negative: nothing is rotated."""
    max_files: int = 5
    """Of one container, with the one that is written to."""
    period: float = 10.0
    max_workers: int = 1
    """Logs that are rotated at a time: packing is work for a whole processor, and pods need that more."""

    def __post_init__(self) -> None:
        if self.max_files < 2:
            raise Invalid(f"containerLogMaxFiles has to be 2 or more, not {self.max_files}")
        if self.period <= 0:
            raise Invalid("containerLogMonitorInterval has to be longer than nothing")


class Logs(Protocol):
    """The log files of this machine. Raises base.errors."""

    def path(self, namespace: str, pod: str, uid: str, container: str, attempt: int) -> str: ...

    async def sizes(self, paths: Iterable[str]) -> Mapping[str, int | None]:
        """None for a file that is not there. What cannot be looked at is left out."""
        ...

    async def make_room(self, path: str, most: int) -> None: ...

    async def move_away(self, path: str, stamp: str) -> str: ...

    async def put_back(self, moved: str, path: str) -> None: ...

    async def tidy(self, pods: Iterable[ObservedPod]) -> None: ...


class LogRotation:
    """As many logs at a time as the settings allow."""

    def __init__(
        self,
        runtime: Runtime,
        logs: Logs,
        settings: RotationSettings | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._runtime = runtime
        self._logs = logs
        self.settings = settings or RotationSettings()
        self._now = now
        self._complaints: dict[str, str] = {}
        """By container: what was said of it last."""

    async def run(self, pods: Callable[[], Collection[ObservedPod]]) -> None:
        """Until cancelled. `pods` are those that the runtime was last seen to hold."""
        while True:
            try:
                await self.turn(tuple(pods()))
            except PykubeletError as error:
                log.debug("logs cannot be looked at: %s", error)
            await asyncio.sleep(self.settings.period)

    async def turn(self, pods: Collection[ObservedPod]) -> None:
        """One look at the logs of all pods."""
        if self.settings.max_size >= 0:
            await self._rotate_all(dict(self._running(pods)))
        await self._logs.tidy(pods)

    # --- inside

    def _running(self, pods: Iterable[ObservedPod]) -> Iterator[tuple[str, str]]:
        """The containers that may write, with the paths of their logs. What has ended writes no more."""
        for pod in pods:
            for each in pod.containers:
                if each.state is State.RUNNING and pod.name:
                    try:
                        yield each.id, self._logs.path(pod.namespace, pod.name, pod.uid, each.name, each.attempt)
                    except Invalid as error:
                        self._complain(each.id, error)

    async def _rotate_all(self, paths: Mapping[str, str]) -> None:
        self._complaints = {key: said for key, said in self._complaints.items() if key in paths}
        sizes = await self._logs.sizes(paths.values())
        left = iter(paths.items())

        async def work() -> None:
            for container_id, path in left:
                await self._rotate_one(container_id, path, sizes.get(path, 0))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self.settings.max_workers, len(paths))):
                tasks.create_task(work())

    async def _rotate_one(self, container_id: str, path: str, size: int | None) -> None:
        try:
            if size is None:  # an agent was killed between moving it away and saying so
                await self._runtime.reopen_log(container_id)
            elif size >= self.settings.max_size:
                await self._rotate(container_id, path)
        except NotFound:  # it has gone since it was seen
            pass
        except PykubeletError as error:
            self._complain(container_id, error)
        else:
            self._complaints.pop(container_id, None)

    async def _rotate(self, container_id: str, path: str) -> None:
        await self._logs.make_room(path, self.settings.max_files)
        moved = await self._logs.move_away(path, self._now().strftime(_STAMP))
        try:
            await self._runtime.reopen_log(container_id)
        except PykubeletError:
            await self._logs.put_back(moved, path)
            raise
        log.debug("rotated the log %s of container %s", path, container_id)

    def _complain(self, container_id: str, error: PykubeletError) -> None:
        """Loudly once: it is tried again every few seconds."""
        text = str(error)
        level = logging.DEBUG if self._complaints.get(container_id) == text else logging.WARNING
        log.log(level, "the log of container %s cannot be rotated: %s", container_id, text)
        self._complaints[container_id] = text

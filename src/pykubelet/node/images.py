"""The images that containers need: who pulls, when, with whose credentials, and how often it is tried."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.image import parse_image
from pykubelet.api.objects import Secret
from pykubelet.api.pod import Pod
from pykubelet.api.volumes import ImageVolumeSource
from pykubelet.base.errors import PykubeletError, Retry, as_it_came
from pykubelet.base.rate_limit import TokenBucket
from pykubelet.base.timed import CANCELLED
from pykubelet.node.not_started import NotStarted
from pykubelet.pod import moments as m
from pykubelet.pod.container.field_path import field_path
from pykubelet.pod.images.image_backoff import ImageBackoff
from pykubelet.pod.images.pull_messages import combined, hidden, pull_failure, pulled_message, quoted
from pykubelet.pod.images.pull_secrets import credentials_for
from pykubelet.pod.moments import Journal, about
from pykubelet.pod.ports.api import Keyring, Recorder
from pykubelet.pod.ports.runtime import Image, PullCredentials, RegistryUnreachable, Runtime

_SOON: Final = 10.0
_SLOWLY: Final = 30.0
_TELL_EVERY: Final = 10.0
_TELL_SELDOM: Final = 60.0
"""After the first minute."""


PullSecrets = Callable[[Pod], Awaitable[tuple[Secret, ...]]]


class _Pulled(Struct, frozen=True):
    image: Image
    seconds: float
    credentials: tuple[PullCredentials, ...]


class _Wanted(Struct, frozen=True):
    """An image, and for which container."""

    name: str
    policy: str
    container: Container
    is_volume: bool = False


class _Turn:
    """Those who wait for one image now. What the last pull brought is forgotten when nobody waits any more."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0
        self.pulls = 0
        """How many have ended well."""
        self.last: _Pulled | None = None


class ImagePullSettings(Struct, frozen=True, kw_only=True):
    serialize: bool = False
    max_parallel: int | None = None
    """None: any number."""
    qps: float = 5.0
    """Pulls that may begin in a second, after as many as `burst` at once; 0: any number."""
    burst: int = 10

    @property
    def most_at_once(self) -> int | None:
        return 1 if self.serialize else self.max_parallel


class Images:
    """Pods that wait for the same image share one pull; how many go on at once and how often one begins, is for
    `settings` to say. The credentials of `pull_secrets` are tried first, then those of `keyring`; `used` is told of
    images that must not be cleared away now."""

    def __init__(
        self,
        runtime: Runtime,
        recorder: Recorder,
        journal: Journal,
        pull_secrets: PullSecrets,
        *,
        now: Callable[[], datetime],
        keyring: Keyring | None = None,
        settings: ImagePullSettings | None = None,
        used: Callable[[str], None] = lambda image_id: None,
    ) -> None:
        self._runtime = runtime
        self._recorder = recorder
        self._journal = journal
        self._pull_secrets = pull_secrets
        self._now = now
        self._keyring = keyring
        self._used = used
        settings = settings or ImagePullSettings()
        self._room = asyncio.Semaphore(settings.most_at_once) if settings.most_at_once else None
        self._pace = TokenBucket(settings.qps, settings.burst)
        self._turns: dict[str, _Turn] = {}
        self._backoffs: dict[str, ImageBackoff] = {}
        """By uid."""

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._backoffs.pop(uid, None)

    async def ensure(self, pod: Pod, container: Container) -> Image:
        """The container's image, pulled when its policy asks for that. Raises NotStarted."""
        try:
            return await self._kept(pod, _Wanted(container.image, container.image_pull_policy, container))
        except NotStarted as failure:
            self.tell_failure(pod, container, failure)
            raise

    async def of_volume(self, pod: Pod, container: Container, volume: ImageVolumeSource) -> Image:
        """The same for the image that a container mounts. Who wants it has to tell of a failure himself."""
        return await self._kept(pod, _Wanted(volume.reference, volume.pull_policy, container, is_volume=True))

    def tell_failure(self, pod: Pod, container: Container, failure: NotStarted) -> None:
        where = field_path(pod, container.name)
        self._recorder.event(pod, "Warning", "Failed", f"Error: {failure.waiting.reason}", field_path=where)

    async def _kept(self, pod: Pod, wanted: _Wanted) -> Image:
        image = await self._find_or_pull(pod, wanted)
        self._used(image.id)
        return image

    async def _find_or_pull(self, pod: Pod, wanted: _Wanted) -> Image:
        name, policy = wanted.name, wanted.policy
        try:
            parse_image(name)
        except ValueError as error:
            message = f"Failed to apply default image tag {quoted(name)}: {error}"
            self._tell(pod, wanted, "Warning", "InspectFailed", message)
            raise NotStarted("InvalidImageName", message, again_in=_SLOWLY) from None
        if policy != "Always" or self._runtime.capabilities.stand_in is not None:
            here = await self._here(pod, wanted)
            if here is not None and (policy != "Always" or here.built_in):
                self._tell(
                    pod, wanted, "Normal", "Pulled", f"Container image {quoted(name)} already present on machine"
                )
                return here
        if policy == "Never":
            message = f"Container image {quoted(name)} is not present with pull policy of Never"
            self._tell(pod, wanted, "Warning", "ErrImageNeverPull", message)
            raise NotStarted("ErrImageNeverPull", message, again_in=_SLOWLY)
        self._check_back_off(pod, wanted)
        try:
            return await self._pull(pod, wanted, must_be_own=policy == "Always")
        except RegistryUnreachable as error:
            return await self._instead(pod, wanted, error)

    async def _instead(self, pod: Pod, wanted: _Wanted, error: RegistryUnreachable) -> Image:
        """Some runtimes can do without the image, if nobody is there who could say that there is none."""
        stand_in = self._runtime.capabilities.stand_in
        image = await stand_in(wanted.container) if stand_in is not None and not wanted.is_volume else None
        if image is None:
            is_here = stand_in is not None and await self._here(pod, wanted) is not None
            policy = "pullPolicy" if wanted.is_volume else "imagePullPolicy"
            remedy = f"; it is here, and would be used with {policy}: IfNotPresent" if is_here else ""
            raise self._failure(pod, wanted, f"{error}{remedy}")
        message = f"Image {quoted(wanted.name)} was not pulled, this machine's programs run instead: {error}"
        self._tell(pod, wanted, "Warning", "ImageNotPulled", message)
        return image

    async def _here(self, pod: Pod, wanted: _Wanted) -> Image | None:
        name = wanted.name
        try:
            return await self._runtime.image(name)
        except PykubeletError as error:
            message = f"Failed to inspect image {quoted(name)}: {error}"
            self._tell(pod, wanted, "Warning", "InspectFailed", message)
            again_in = _SOON if isinstance(error, Retry) else _SLOWLY
            raise NotStarted("ImageInspectError", message, again_in=again_in) from None

    def _check_back_off(self, pod: Pod, wanted: _Wanted) -> None:
        """Events tell of the wait alone, so that they are the same each time; the status also says what went wrong."""
        name, now, backoff = wanted.name, self._now(), self._backoff(pod)
        wait = backoff.wait(name, now)
        if wait > 0:
            self._note(pod, m.BackedOff(wanted.container.name, now + timedelta(seconds=wait), name))
            message = f"Back-off pulling image {quoted(name)}"
            self._tell(pod, wanted, "Normal", "BackOff", message)
            raise NotStarted("ImagePullBackOff", f"{message}: {backoff.failures[name].why}", again_in=wait)

    def _backoff(self, pod: Pod) -> ImageBackoff:
        return self._backoffs.get(pod.metadata.uid, ImageBackoff())

    # --- pulling

    async def _pull(self, pod: Pod, wanted: _Wanted, *, must_be_own: bool) -> Image:
        """A pod whose policy is Always has to show that it may have the image: it shares only the pulls of those who
        have the same credentials."""
        loop, name = asyncio.get_running_loop(), wanted.name
        self._tell(pod, wanted, "Normal", "Pulling", f"Pulling image {quoted(name)}")
        asked = loop.time()
        with self._telling(pod, name), self._turn(name) as turn:
            before = turn.pulls
            credentials = await self._credentials(pod, name)
            if turn.lock.locked():
                self._note(pod, m.Awaiting("pull", name))
            async with turn.lock:
                pulled = turn.last if turn.pulls > before else None
                is_shared = pulled is not None and not (must_be_own and pulled.credentials != credentials)
                if pulled is None or not is_shared:
                    pulled = await self._pull_now(pod, wanted, credentials)
                    turn.last, turn.pulls = pulled, turn.pulls + 1
        if pod.metadata.uid in self._backoffs:
            self._backoffs[pod.metadata.uid] = self._backoff(pod).pulled(name)
        whole = loop.time() - asked
        self._note(pod, m.PullEnded(name, pulled.seconds, whole, pulled.image.size, is_shared))
        self._tell(pod, wanted, "Normal", "Pulled", pulled_message(name, pulled.image, pulled.seconds, whole))
        return pulled.image

    async def _pull_now(self, pod: Pod, wanted: _Wanted, credentials: tuple[PullCredentials, ...]) -> _Pulled:
        loop, name = asyncio.get_running_loop(), wanted.name
        async with AsyncExitStack() as stack:
            if self._room is not None:
                if self._room.locked():
                    self._note(pod, m.Awaiting("pull slot", name))
                await stack.enter_async_context(self._room)
            # A registry that is asked too often sends everybody away: rather wait than fail.
            await self._pace.wait()
            began = loop.time()
            try:
                image = await self._try_credentials(name, credentials)
            except RegistryUnreachable:
                raise
            except PykubeletError as error:
                raise self._failure(pod, wanted, str(error)) from None
            return _Pulled(image, loop.time() - began, credentials)

    def _failure(self, pod: Pod, wanted: _Wanted, error: str) -> NotStarted:
        name = wanted.name
        reason, message = pull_failure(name, error)
        backoff = self._backoff(pod).failed(name, f"{reason}: {message}", self._now())
        self._backoffs[pod.metadata.uid] = backoff
        self._tell(pod, wanted, "Warning", "Failed", f"Failed to pull image {quoted(name)}: {error}")
        # Soon, and before the next try: then the status says that the image waits, as people know it.
        return NotStarted(reason, message, again_in=min(backoff.length(name), _SOON))

    async def _credentials(self, pod: Pod, name: str) -> tuple[PullCredentials, ...]:
        secrets = await self._pull_secrets(pod)
        more = await self._keyring.credentials(name, pod) if self._keyring is not None else ()
        return (*credentials_for(name, secrets), *more)

    async def _try_credentials(self, name: str, credentials: tuple[PullCredentials, ...]) -> Image:
        """Each in their order; none at all when there are none. Raises Retry with everything that was said, and
        RegistryUnreachable when nobody has said anything."""
        errors: list[str] = []
        kind: type[Retry] = RegistryUnreachable
        for each in credentials or (None,):
            try:
                return await self._runtime.pull_image(name, each)
            except PykubeletError as error:
                errors.append(hidden(as_it_came(error), credentials))
                kind = kind if isinstance(error, RegistryUnreachable) else Retry
        raise kind(combined(errors))

    @contextmanager
    def _turn(self, name: str) -> Iterator[_Turn]:
        turn = self._turns.setdefault(name, _Turn())
        turn.waiting += 1
        try:
            yield turn
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[name]

    # --- telling

    @contextmanager
    def _telling(self, pod: Pod, name: str) -> Iterator[None]:
        """As long as it takes, the journal says now and then that it still goes on."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._note(pod, m.PullBegun(name))
        timer: asyncio.TimerHandle

        def tell() -> None:
            nonlocal timer
            so_far = loop.time() - began
            self._note(pod, m.PullProgressed(name, so_far))
            timer = loop.call_later(_TELL_EVERY if so_far < _TELL_SELDOM else _TELL_SELDOM, tell)

        timer = loop.call_later(_TELL_EVERY, tell)
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            so_far = loop.time() - began
            self._note(pod, m.PullEnded(name, so_far, so_far, error=str(error) or CANCELLED))
            raise
        finally:
            timer.cancel()

    def _tell(self, pod: Pod, wanted: _Wanted, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        where = "" if wanted.is_volume else field_path(pod, wanted.container.name)
        self._recorder.event(pod, kind, reason, message, field_path=where)

    def _note(self, pod: Pod, moment: m.Moment) -> None:
        self._journal.note(moment, about(pod))

"""The images that containers need: who pulls, when, with whose credentials, and how often it is tried."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.image import parse_image
from pykubelet.api.objects import Secret
from pykubelet.api.pod import Pod
from pykubelet.base.errors import PykubeletError
from pykubelet.base.journal import Journal
from pykubelet.node.scene import NotStarted, Scene
from pykubelet.pod.ports import Image, Recorder, Runtime
from pykubelet.pod.pull_secrets import credentials_for

_SLOWLY: Final = 30.0


class Images:
    """Pods that wait for the same image share one pull; at most `most_pulls` go on at once (None: any number)."""

    def __init__(
        self,
        runtime: Runtime,
        recorder: Recorder,
        journal: Journal,
        *,
        now: Callable[[], datetime],
        most_pulls: int | None = None,
    ) -> None:
        self._runtime = runtime
        self._recorder = recorder
        self._journal = journal
        self._now = now
        self._room = asyncio.Semaphore(most_pulls) if most_pulls else None
        self._turns: dict[str, asyncio.Lock] = {}
        self._pulled: dict[str, tuple[float, Image]] = {}
        """By name: when the last pull ended, on the loop's clock, and what it brought."""

    async def ensure(self, scene: Scene, container: Container) -> Image:
        """The container's image, pulled when its policy asks for that. Raises NotStarted."""
        pod, name, policy = scene.pod, container.image, container.image_pull_policy
        try:
            parse_image(name)
        except ValueError as error:
            message = f"Failed to apply default image tag {name!r}: {error}"
            self._recorder.event(pod, "Warning", "InspectFailed", message)
            raise NotStarted("InvalidImageName", message, again_in=_SLOWLY) from None
        here = await self._here(pod, name)
        if here is not None and policy != "Always":
            self._recorder.event(pod, "Normal", "Pulled", f"Container image {name!r} already present on machine")
            return here
        if here is None and policy == "Never":
            message = f"Container image {name!r} is not present with pull policy of Never"
            self._recorder.event(pod, "Warning", "ErrImageNeverPull", message)
            raise NotStarted("ErrImageNeverPull", message, again_in=_SLOWLY)
        self._check_back_off(scene, name)
        return await self._pull(scene, name)

    async def _here(self, pod: Pod, name: str) -> Image | None:
        try:
            return await self._runtime.image(name)
        except PykubeletError as error:
            self._recorder.event(pod, "Warning", "InspectFailed", f"Failed to inspect image {name!r}: {error}")
            raise NotStarted("ImageInspectError", str(error), again_in=_SLOWLY) from None

    def _check_back_off(self, scene: Scene, name: str) -> None:
        memory = scene.memory
        wait = memory.pulls.wait(name, memory.failed_pulls.get(name), self._now())
        if wait > 0:
            message = f"Back-off pulling image {name!r}"
            self._recorder.event(scene.pod, "Normal", "BackOff", message)
            raise NotStarted("ImagePullBackOff", message, again_in=wait)

    async def _pull(self, scene: Scene, name: str) -> Image:
        loop, pod = asyncio.get_running_loop(), scene.pod
        asked = loop.time()
        async with self._turns.setdefault(name, asyncio.Lock()), AsyncExitStack() as stack:
            ended, image = self._pulled.get(name, (-1.0, None))
            if image is not None and ended >= asked:  # somebody else's pull ended while we waited: it is ours too
                return image
            if self._room is not None:
                await stack.enter_async_context(self._room)
            self._recorder.event(pod, "Normal", "Pulling", f"Pulling image {name!r}")
            began = loop.time()
            try:
                image = await self._try_credentials(name, scene.pull_secrets)
            except PykubeletError as error:
                now = self._now()
                scene.memory.failed_pulls[name] = now
                scene.memory.pulls = scene.memory.pulls.started(name, now, now)
                self._recorder.event(pod, "Warning", "Failed", f"Failed to pull image {name!r}: {error}")
                raise NotStarted("ErrImagePull", str(error), again_in=scene.memory.pulls.length(name)) from None
            seconds = loop.time() - began
            self._pulled[name] = loop.time(), image
        what = f"Successfully pulled image {name!r} in {seconds:.3g}s. Image size: {image.size} bytes."
        self._recorder.event(pod, "Normal", "Pulled", what)
        meta = pod.metadata
        self._journal.note(meta.uid, f"{meta.namespace}/{meta.name}", "image", f"{name} in {seconds:.3g} s")
        return image

    async def _try_credentials(self, name: str, secrets: tuple[Secret, ...]) -> Image:
        """Each that fits, in their order; none at all when none does. The last word counts."""
        *others, last = credentials_for(name, secrets) or (None,)
        for credentials in others:
            try:
                return await self._runtime.pull_image(name, credentials)
            except PykubeletError:
                continue
        return await self._runtime.pull_image(name, last)

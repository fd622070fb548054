"""Devices for pods, from whoever brings them: what plug-ins give to containers, and what was allocated by claims."""

import logging

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.node.dependencies import Dependencies
from pykubelet.node.not_started import awaited
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.devices.merged import merged
from pykubelet.pod.moments import about
from pykubelet.pod.ports.devices import ContainerDevices

log = logging.getLogger(__name__)


class PodDevices:
    def __init__(self, outside: Dependencies) -> None:
        self._devices = outside.devices
        self._claims = outside.claims
        self._recorder = outside.recorder
        self._journal = outside.journal

    async def prepare(self, pod: Pod) -> None:
        """Have its claims made ready, before anything of it runs. Raises ClaimFailed."""
        if self._claims is None:
            return
        try:
            await self._claims.prepare(pod)
        except ClaimFailed as error:
            what = f"Failed to prepare dynamic resources: prepare dynamic resources: {error}"
            self._recorder.event(pod, "Warning", "FailedPrepareDynamicResources", what)
            self._note(pod, error)
            raise

    async def give_back(self, pod: Pod) -> None:
        """Nothing of it runs any more, and nobody has heard of its end: then others may have its devices. Raises
        ClaimFailed."""
        if self._claims is None:
            return
        try:
            await self._claims.unprepare(pod.metadata.uid)
        except ClaimFailed as error:
            self._note(pod, error)
            raise

    async def take_up(self, pod: Pod) -> None:
        """Of a pod that runs: claims that an earlier agent had prepared, if that was not remembered. Else nobody would
        give them back."""
        if self._claims is not None and self._claims.lacks(pod):
            try:
                await self._claims.prepare(pod)
            except ClaimFailed as error:
                log.warning("pod %s runs, and its claims cannot be taken up: %s", about(pod), error)

    async def given(self, pod: Pod, container: Container) -> ContainerDevices:
        """What to start a container with. Raises base.errors."""
        given = await self._devices.prepared(pod, container) if self._devices is not None else ContainerDevices()
        if self._claims is None or not (container.resources.claims or pod.status.extended_resource_claim_status):
            return given
        return merged((given, await self._claims.given(pod, container)))

    def _note(self, pod: Pod, error: ClaimFailed) -> None:
        if (awaiting := awaited(error)) is not None:
            self._journal.note(awaiting, about(pod))

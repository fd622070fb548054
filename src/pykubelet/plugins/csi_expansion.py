"""Volumes that have grown while they are used here, or before: the driver does what is left to do on the node, and the
claim is told. What has to be done is decided in `pod/container/volume_expansion.py`."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from pykubelet.api.objects import ObjectReference
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.api.storage import ClaimedVolume, PersistentVolumeClaim
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import PykubeletError, Retry, as_it_came
from pykubelet.pod.container.volume_expansion import IN_PROGRESS, Growth, failed, finished, growth, in_progress
from pykubelet.pod.container.volume_moments import VolumeChanged
from pykubelet.pod.moments import Journal
from pykubelet.pod.ports.api import ObjectRecorder
from pykubelet.pod.ports.csi import CsiApi, CsiVolume

if TYPE_CHECKING:
    from pykubelet.plugins.csi_driver import CsiDriver

_SOONEST: Final = 0.5
_LATEST: Final = 122.0
_NOT_OVER: Final = frozenset({"", "Canceled", "DeadlineExceeded", "Unavailable", "ResourceExhausted", "Aborted"})
"""After these the driver may still be at it."""
_NEVER: Final = frozenset({"InvalidArgument", "OutOfRange", "NotFound"})
_REFUSED: Final = "FailedPrecondition"
"""The driver does not do it while the volume is in use."""


class Published(Struct, frozen=True):
    """A volume where a pod uses it."""

    pod: Pod
    volume: CsiVolume
    path: str
    staged: str


class _Known(Struct):
    """Of one volume, for as long as it is here."""

    backoff: Backoff
    size: Quantity | None = None
    """For which this node has done its part."""
    again: float = 0.0
    """When it may be tried again, on the loop's clock."""
    has_failed: bool = False
    is_refused: bool = False


class Expansion:
    """Calls for one volume never overlap."""

    def __init__(
        self,
        node: str,
        api: CsiApi,
        recorder: ObjectRecorder | None,
        journal: Journal,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._node = node
        self._api = api
        self._recorder = recorder
        self._journal = journal
        self._now = now
        self._known: dict[tuple[str, str], _Known] = {}

    async def at_mount(self, of: Published, driver: "CsiDriver") -> None:
        """Before its pod may use it. Raises base.errors."""
        if of.volume.claimed is not None:
            await self._follow(of, of.volume.claimed, driver, in_use=False)

    async def in_use(self, of: Published, driver: "CsiDriver") -> None:
        """Its pod goes on whatever happens, and is told."""
        found, loop = of.volume.claimed, asyncio.get_running_loop()
        if found is None or loop.time() < (known := self._of(of.volume)).again:
            return
        try:
            await self._follow(of, found, driver, in_use=True)
            known.backoff.reset()
        except PykubeletError as error:
            known.again = loop.time() + known.backoff.next()
            text = f'NodeExpandVolume.NodeExpandVolume failed for volume "{of.volume.name}" : {error}'
            if self._recorder is not None:
                self._recorder.event(of.pod, "Warning", "VolumeResizeFailed", text)

    def forget(self, driver: str, handle: str) -> None:
        self._known.pop((driver, handle), None)

    def _of(self, volume: CsiVolume) -> _Known:
        backoff = Backoff(_SOONEST, _LATEST, now=asyncio.get_running_loop().time)
        return self._known.setdefault((volume.driver, volume.handle), _Known(backoff))

    async def _follow(self, of: Published, found: ClaimedVolume, driver: "CsiDriver", *, in_use: bool) -> None:
        known = self._of(of.volume)
        todo = growth(found, known.size if in_use else None)
        if todo.verdict == "nothing" and known.size is None:
            known.size = found.claim.status.capacity.get("storage")
        elif todo.verdict == "done":
            known.size = todo.size
        elif todo.verdict == "expand" and of.volume.read_only:
            if not in_use:
                self._tell(of, found.claim, "FileSystemResizeFailed", "failed", "requested read-only file system")
        elif todo.verdict == "expand" and not (in_use and known.is_refused):
            await self._expand(of, found.claim, driver, todo, known)

    async def _expand(
        self, of: Published, claim: PersistentVolumeClaim, driver: "CsiDriver", todo: Growth, known: _Known
    ) -> None:
        assert todo.size is not None
        if not driver.expands and (todo.is_known or not todo.is_followed):
            known.size = todo.size
            return
        step = claim.status.allocated_resource_statuses.get("storage")
        if todo.is_followed and not todo.is_known and step != IN_PROGRESS:
            claim = await self._api.patch_claim(claim, in_progress(claim))
        began = asyncio.get_running_loop().time()
        error = await self._asked(of, driver, todo.size)
        seconds = asyncio.get_running_loop().time() - began
        self._journal.note(
            VolumeChanged(f"kubernetes.io/csi:{of.volume.driver}", "volume_fs_resize", seconds, error[1])
        )
        if error[1]:
            await self._failed(claim, todo, known, *error)
            return
        if not todo.is_known:
            await self._api.patch_claim(claim, finished(claim, todo.size))
        known.size, known.has_failed, known.is_refused = todo.size, False, False
        self._tell(of, claim, "FileSystemResizeSuccessful", "succeeded", self._node)

    async def _asked(self, of: Published, driver: "CsiDriver", size: Quantity) -> tuple[str, str]:
        """-> gRPC's word for what went wrong, and a sentence; both empty: it is done."""
        from pykubelet.web.grpc_channel import code_of  # what it speaks takes long to load

        volume = of.volume
        if not driver.expands:
            return "Unimplemented", f"NodeExpand is not supported by the CSI driver {volume.driver}"
        try:
            secrets = await self._api.secret(volume.expand_secret) if volume.expand_secret is not None else {}
            await driver.expand(volume, of.path, staged=of.staged, size=size.value, secrets=secrets)
        except PykubeletError as error:
            return code_of(error), f"Expander.NodeExpand failed to expand the volume : {as_it_came(error)}"
        return "", ""

    async def _failed(self, claim: PersistentVolumeClaim, todo: Growth, known: _Known, code: str, text: str) -> None:
        if todo.is_followed and code not in _NOT_OVER:
            asked = claim.spec.resources.requests.get("storage")
            infeasible = code in _NEVER or (known.has_failed and asked != todo.size)
            known.has_failed = True
            if (patch := failed(claim, text, self._now(), infeasible=infeasible)) is not None:
                await self._api.patch_claim(claim, patch)
        if code != _REFUSED:
            raise Retry(text)
        known.is_refused = True

    def _tell(self, of: Published, claim: PersistentVolumeClaim, reason: str, how: str, more: str) -> None:
        if self._recorder is None:
            return
        text = f'MountVolume.NodeExpandVolume {how} for volume "{of.volume.name}" {more}'
        kind: Literal["Normal", "Warning"] = "Normal" if how == "succeeded" else "Warning"
        meta = claim.metadata
        about = ObjectReference(
            kind="PersistentVolumeClaim",
            api_version="v1",
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        self._recorder.event(of.pod, kind, reason, text)
        self._recorder.object_event(about, kind, reason, text)

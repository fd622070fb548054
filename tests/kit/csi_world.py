"""Storage drivers of an agent in a folder of its own, and what an API server would tell them."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from kit.csi_driver import StorageDriver
from kit.pods import make_pod
from kit.waiting import eventually
from pykubelet.api import codec
from pykubelet.api.node import AttachedVolume, NodeStatus
from pykubelet.api.objects import ObjectReference
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.storage import CSIDriverSpec, PersistentVolumeClaim, SecretReference
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.host import mount
from pykubelet.plugins.csi import CsiDrivers
from pykubelet.plugins.registry import CSI, PluginRegistry
from pykubelet.pod.node.volumes_in_use import VolumesInUse
from pykubelet.pod.ports.csi import CsiVolume


@contextmanager
def short_folder() -> Iterator[Path]:
    """The path of a socket has its limits. Whatever is mounted there at the end is unmounted."""
    with tempfile.TemporaryDirectory(prefix="pykubelet-") as folder:
        yield Path(folder)
        mount.unmount_below(folder)


class Events:
    """All that was told, in words."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def event(self, pod: Pod, kind: str, reason: str, message: str, **_: Any) -> None:
        self.told.append(f"{pod.metadata.name}: {reason}: {message}")

    def object_event(self, about: ObjectReference, kind: str, reason: str, message: str) -> None:
        self.told.append(f"{about.kind} {about.name}: {reason}: {message}")


class Api:
    def __init__(self, **spec: Any) -> None:
        self.spec = CSIDriverSpec(**{"attach_required": False, **spec})
        self.attachments: dict[str, Mapping[str, str]] = {}
        self.patches: list[Mapping[str, Any]] = []
        self.patch_trouble = ""
        self.installed: dict[str, tuple[str, Mapping[str, str], int]] = {}

    async def driver(self, name: str) -> CSIDriverSpec:
        return self.spec

    async def attached(self, attachment: str) -> Mapping[str, str]:
        if attachment not in self.attachments:
            raise Retry("volume attachment is being created")
        return self.attachments[attachment]

    async def patch_claim(self, claim: PersistentVolumeClaim, patch: Mapping[str, Any]) -> PersistentVolumeClaim:
        if self.patch_trouble:
            raise Retry(self.patch_trouble)
        self.patches.append(patch["status"])
        status = codec.convert(dict[str, Any], codec.to_builtins(claim.status))
        for field, value in patch["status"].items():
            if field == "conditions":
                continue
            after = {**status.get(field, {}), **value}
            status[field] = {name: each for name, each in after.items() if each is not None}
        return changed(claim, status=codec.convert(type(claim.status), status))

    async def secret(self, reference: SecretReference) -> Mapping[str, str]:
        return {"of": f"{reference.namespace}/{reference.name}"}

    async def token(self, pod: Pod, audience: str, seconds: int | None) -> str:
        return f"token-for-{audience}"

    async def install(self, driver: str, node_id: str, topology: Mapping[str, str], most_volumes: int) -> None:
        self.installed[driver] = node_id, topology, most_volumes

    async def uninstall(self, driver: str) -> None:
        del self.installed[driver]


class World:
    """An agent's drivers in a folder of its own."""

    def __init__(self, root: Path, api: Api) -> None:
        self.root = root
        self.api = api
        self.registry = root / "plugins_registry"
        self.registry.mkdir(exist_ok=True)
        self.events = Events()
        self.shown = NodeStatus()
        """The node's status, which tells of volumes in use as soon as there is something to tell, unless `is_mute`."""
        self.is_mute = False
        self.begin()

    def begin(self) -> None:
        """As an agent that has just come."""
        self.in_use = VolumesInUse(lambda: self.shown, self.report)
        self.drivers = CsiDrivers(
            str(self.root),
            "n1",
            self.api,
            is_mounted=mount.is_mount_point,
            in_use=self.in_use,
            recorder=self.events,
            with_health=True,
        )
        self.drivers.load()

    def report(self) -> None:
        if not self.is_mute:
            self.shown = changed(self.shown, volumes_in_use=self.in_use.names(self.shown))

    def attach(self, *names: str) -> None:
        self.shown = changed(self.shown, volumes_attached=tuple(AttachedVolume(each, "") for each in names))

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        task = asyncio.create_task(PluginRegistry(str(self.registry), {CSI: self.drivers}).run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    @asynccontextmanager
    async def with_driver(self, driver: StorageDriver) -> AsyncIterator[None]:
        async with driver.at(self.registry) as introduction, self.watching():
            await eventually(lambda: introduction.told == [""])
            yield

    def mounts(self) -> list[str]:
        return [os.path.relpath(path, self.root) for path in mount.mounts_below(str(self.root))]

    def left(self) -> list[str]:
        """What of volumes is on disk."""
        found = [
            *self.root.glob("pods/*/volumes/kubernetes.io~csi/*"),
            *self.root.glob("plugins/kubernetes.io/csi/*/*"),
            *self.root.glob("plugins/kubernetes.io/csi/volumeDevices/publish/*"),
        ]
        return [str(path.relative_to(self.root)) for path in found if path.name != "publish"]


def volume(**more: Any) -> CsiVolume:
    return CsiVolume(**{"driver": "disk.example.com", "handle": "vol-1", "name": "pv1", "fs_type": "ext4", **more})


def pod(uid: str = "u1", spec: Mapping[str, Any] | None = None) -> Pod:
    made = make_pod("p", uid=uid)
    given = {**codec.convert(dict[str, Any], codec.to_builtins(made.spec)), **(spec or {})}
    return changed(made, spec=codec.convert(PodSpec, given))

"""Devices for containers: who brings them, who has them, and what is remembered of both.

What a container was given stays its own until its pod has ended, however often it, the plug-in or the agent is started
again. A plug-in that goes leaves its devices behind as unhealthy ones; when it does not come back within minutes, there
are none any more.
"""

import asyncio
import logging
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykubelet.api.container import Container
from pykubelet.api.node import Node
from pykubelet.api.pod import Pod
from pykubelet.api.validation.resources import is_extended
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.base.timed import timed
from pykubelet.base.whole_files import put_aside, write_whole
from pykubelet.plugins.cdi import expanded
from pykubelet.pod.devices.allocations import DeviceInventory, Holder
from pykubelet.pod.devices.checkpoint import Remembered, read, written
from pykubelet.pod.devices.choice import Device, Wanted, chosen, preference
from pykubelet.pod.devices.merged import merged
from pykubelet.pod.devices.moments import DevicesAllocated, DevicesOffered
from pykubelet.pod.devices.topology import hints_of, pod_hints_of
from pykubelet.pod.moments import Journal
from pykubelet.pod.pinning.topology_hints import Hints
from pykubelet.pod.ports.devices import ContainerDevices
from pykubelet.web.socket_door import keep_door

if TYPE_CHECKING:
    from pykubelet.plugins.device_plugin import DevicePlugin

log = logging.getLogger(__name__)

VERSION: Final = "v1beta1"
SOCKET: Final = "kubelet.sock"
CHECKPOINT: Final = "kubelet_internal_checkpoint"
_PATIENCE: Final = 300.0
"""Seconds for which a plug-in that has gone is expected back."""


class PluginDevices:
    """The Devices port, and the one who takes in device plug-ins. `folder` is where they find us, and where is
    remembered who has what."""

    def __init__(
        self,
        folder: str,
        *,
        on_change: Callable[[], None] = lambda: None,
        runtime_knows_cdi: Callable[[], bool] = lambda: False,
        journal: Journal | None = None,
    ) -> None:
        self.inventory = DeviceInventory()
        self._folder = folder
        self._near: dict[tuple[str, str], frozenset[int]] = {}
        """By uid and container: the NUMA nodes that its devices are to come from."""
        self._on_change = on_change
        self._runtime_knows_cdi = runtime_knows_cdi
        self._journal = journal or Journal()
        self._plugins: dict[str, tuple[DevicePlugin, asyncio.Task[None]]] = {}
        self._left_at: dict[str, float] = {}
        """By resource: when its plug-in went, by the loop's time."""
        self._turns: dict[str, asyncio.Lock] = {}
        self._unsure: set[str] = set()
        """Who had devices from an earlier agent, and has not been seen since."""
        self._changes = 0
        self._shown: tuple[tuple[int, int], Node, Node] | None = None
        """For which state, of which node, what pods are admitted to."""

    # --- plug-ins

    async def run(self) -> None:
        """Let plug-ins register with us, for ever."""
        os.makedirs(self._folder, 0o750, exist_ok=True)
        await asyncio.to_thread(_clear_sockets, self._folder)  # plug-ins see by this that they have to come again
        try:
            place = f"{self._folder}/{SOCKET}"
            await keep_door(place, self._answering, otherwise="device plug-ins cannot register")
        finally:
            for resource in list(self._plugins):
                await self._drop(resource)

    def load(self) -> None:
        """What an earlier agent has left behind. What cannot be read is told of, and put aside."""
        path = f"{self._folder}/{CHECKPOINT}"
        try:
            with open(path, "rb") as file:
                found = read(file.read())
        except FileNotFoundError:
            return
        except (OSError, Invalid) as error:
            put_aside(Path(path), error, "who has which devices is not known")
            return
        self.inventory = DeviceInventory(found.held)
        self.inventory.devices = {resource: {} for resource in found.registered}
        self._unsure = {holder.uid for holder in found.held}

    async def register(self, name: str, endpoint: str, versions: tuple[str, ...]) -> None:
        """Of the registry: `name` is the resource."""
        await self._take_in(name, endpoint, versions)

    async def deregister(self, name: str, endpoint: str) -> None:
        if name in self._plugins and self._plugins[name][0].endpoint == endpoint:
            await self._drop(name)
            self._lost(name)

    async def _take_in(self, resource: str, endpoint: str, versions: Collection[str]) -> None:
        from pykubelet.plugins.device_plugin import DevicePlugin  # what it speaks takes long to load

        if VERSION not in versions:
            told = f"requested API version {', '.join(versions)!r} is not supported by kubelet. "
            raise Invalid(f'{told}Supported version is ["{VERSION}"]')
        if not is_extended(resource):
            raise Invalid(f'the ResourceName "{resource}" is invalid')
        plugin = DevicePlugin(resource, endpoint)
        try:
            await plugin.connect()
        except (PykubeletError, asyncio.CancelledError):
            await plugin.close()
            raise
        await self._drop(resource)
        self._plugins[resource] = (
            plugin,
            asyncio.create_task(self._follow(resource, plugin), name=f"devices {resource}"),
        )

    async def _drop(self, resource: str) -> None:
        if (found := self._plugins.pop(resource, None)) is not None:
            found[1].cancel()
            await asyncio.gather(found[1], return_exceptions=True)

    async def _follow(self, resource: str, plugin: "DevicePlugin") -> None:
        """What the plug-in tells of its devices, until it ends."""
        told = "it has ended"
        try:
            async for devices in plugin.devices():
                self._left_at.pop(resource, None)
                self._learn(resource, devices)
        except PykubeletError as error:
            told = str(error)
        finally:
            await plugin.close()
        log.warning("the device plug-in of %s is gone: %s; its devices can be given to nobody", resource, told)
        self._lost(resource)

    def _lost(self, resource: str) -> None:
        known = self.inventory.devices.get(resource, {})
        self._left_at[resource] = asyncio.get_running_loop().time()
        self._learn(resource, {each: Device(each, False, known[each].nodes) for each in known})

    def _learn(self, resource: str, devices: dict[str, Device]) -> None:
        if self.inventory.devices.get(resource) != devices:
            self.inventory.devices[resource] = devices
            self._save()
            self._on_change()

    def counts(self) -> dict[str, tuple[int, int]]:
        """How many devices there are of each resource, and how many can be used."""
        now = asyncio.get_running_loop().time()
        for resource, left_at in list(self._left_at.items()):
            if now - left_at > _PATIENCE:
                del self._left_at[resource]
                self.inventory.devices[resource] = {}
        return self.inventory.counts()

    def _answering(self, path: str) -> AbstractAsyncContextManager[None]:
        return _registration(path, self._registered)

    async def _registered(self, resource: str, endpoint: str, version: str) -> None:
        if endpoint in ("", ".", "..", SOCKET) or "/" in endpoint or "\0" in endpoint:
            raise Invalid(f"{endpoint[:200]!r} is no name of a socket in {self._folder}")
        await self._take_in(resource, f"{self._folder}/{endpoint}", (version,))
        log.info("a device plug-in for %s has registered", resource)
        self._journal.note(DevicesOffered(resource))

    # --- pods

    def admitting(self, node: Node | None) -> Node | None:
        """The node that pods are admitted to. The same one for as long as nothing has changed."""
        if node is None or not self.inventory.held:
            return node
        key = id(node), self._changes
        if self._shown is None or self._shown[0] != key:
            self._shown = key, node, self.inventory.with_held(node)
        return self._shown[2]

    def wants(self, pod: Pod, *, is_running: bool) -> bool:
        if is_running:
            self._unsure.discard(pod.metadata.uid)
            return False
        return pod.metadata.uid in self._unsure or any(True for _ in self._missing(pod))

    def _missing(self, pod: Pod) -> Iterator[tuple[Container, str, int]]:
        for container, resource, count in self.inventory.wants(pod):
            if Holder(pod.metadata.uid, container.name, resource) not in self.inventory.held:
                yield container, resource, count

    async def allocate(self, pod: Pod) -> None:
        asked = list(self.inventory.wants(pod) if pod.metadata.uid in self._unsure else self._missing(pod))
        self._unsure.discard(pod.metadata.uid)
        for container, resource, count in asked:
            async with self._turns.setdefault(resource, asyncio.Lock()):
                await self._give(pod, container, resource, count)

    async def _give(self, pod: Pod, container: Container, resource: str, count: int) -> None:
        uid = pod.metadata.uid
        wanted = self.inventory.wanted(pod, container, resource, count, self._near.get((uid, container.name)))
        if wanted is None:
            return
        plugin = self._plugin(resource)
        try:
            ids = await self._chosen(plugin, wanted)
            with timed(self._journal, lambda seconds, error: DevicesAllocated(resource, seconds, error)):
                answer = await plugin.allocate(ids)
        except PykubeletError as error:
            raise Invalid(str(error)) from error
        self.inventory.give(Holder(uid, container.name, resource), ids, answer)
        self._save()

    async def _chosen(self, plugin: "DevicePlugin", wanted: Wanted) -> frozenset[str]:
        asked = preference(wanted)
        return chosen(wanted, await plugin.preferred(asked) if asked is not None else ())

    async def prepared(self, pod: Pod, container: Container) -> ContainerDevices:
        await self.allocate(pod)  # of a pod that was here before its plug-in was
        held = self.inventory.of(pod.metadata.uid, container.name)
        if not held:
            return ContainerDevices()
        from pykubelet.plugins.device_plugin import given

        for resource, allocation in held.items():
            known = self.inventory.devices.get(resource, {})
            if missing := sorted(each for each in allocation.all if each not in known or not known[each].is_healthy):
                raise Retry(
                    f"{resource}: {', '.join(missing)} cannot be used: its plug-in is away or says it is unwell"
                )
            await self._plugin(resource).before_start(allocation.all)
        found = merged(given(allocation.answer) for allocation in held.values())
        if not found.cdi_devices or self._runtime_knows_cdi():
            return found
        return await asyncio.to_thread(expanded, found)

    def release(self, uid: str) -> None:
        self._near = {key: nodes for key, nodes in self._near.items() if key[0] != uid}
        self._unsure.discard(uid)
        if self.inventory.release(uid):
            self._save()

    def retain(self, uids: Collection[str]) -> None:
        for uid in {holder.uid for holder in self.inventory.held}.union(uid for uid, _ in self._near).difference(uids):
            self.release(uid)

    def hints(self, pod: Pod, container: Container, nodes: tuple[int, ...]) -> Hints:
        return hints_of(self.inventory, pod, container, nodes)

    def pod_hints(self, pod: Pod, nodes: tuple[int, ...]) -> Hints:
        return pod_hints_of(self.inventory, pod, nodes)

    def keep_to(self, uid: str, container: str, nodes: tuple[int, ...] | None) -> None:
        self._near.pop((uid, container), None)
        if nodes is not None:
            self._near[uid, container] = frozenset(nodes)

    def _plugin(self, resource: str) -> "DevicePlugin":
        found = self._plugins.get(resource)
        if found is None:
            raise Retry(f"the device plug-in of {resource} is away")
        return found[0]

    def _save(self) -> None:
        self._changes += 1
        well = {
            name: tuple(each.id for each in known.values() if each.is_healthy)
            for name, known in self.inventory.devices.items()
        }
        path = f"{self._folder}/{CHECKPOINT}"
        try:
            # Where the power went, no container is left that has devices: the loop need not wait for the disk.
            write_whole(Path(path), written(Remembered(self.inventory.held, well)), outlives_power=False)
        except OSError as error:
            log.error("who has which devices cannot be remembered: %s: %s", path, error.strerror)


@asynccontextmanager
async def _registration(path: str, registered: Callable[[str, str, str], Awaitable[None]]) -> AsyncIterator[None]:
    """Loaded when the first plug-in comes."""
    from pykubelet.plugins._gen.device_plugin_pb2 import Empty, RegisterRequest
    from pykubelet.web.grpc_server import Call, answering

    async def register(asked: RegisterRequest) -> Empty:
        await registered(asked.resource_name, asked.endpoint, asked.version)
        return Empty()

    async with answering(path, {f"{VERSION}.Registration/Register": Call(RegisterRequest, register)}):
        yield


def _clear_sockets(folder: str) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                    os.unlink(entry.path)

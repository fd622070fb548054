"""Volumes of storage drivers: staged once on the node, and published to each pod that uses them.

What is done is written down beside it before it is done (`csi_records.py`): whoever comes later can undo it.
"""

import asyncio
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from pykubelet.api.pod import Pod
from pykubelet.api.rules.csi_names import attachment_name, own_handle, unique_name
from pykubelet.api.storage import CSIDriverSpec
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.plugins.csi_expansion import Expansion, Published
from pykubelet.plugins.csi_records import CsiRecords, Record, Unreadable
from pykubelet.pod.moments import Journal
from pykubelet.pod.node.volumes_in_use import VolumesInUse
from pykubelet.pod.ports.api import ObjectRecorder
from pykubelet.pod.ports.csi import CsiApi, CsiMounted, CsiVolume
from pykubelet.pod.stats.stats import Disk, VolumeHealth

if TYPE_CHECKING:
    from pykubelet.plugins.csi_driver import CsiDriver

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,61}[a-zA-Z0-9])?")
_SOON: Final = 2.0
_PATIENCE: Final = 3.0
_GLANCE: Final = 0.05
"""Seconds that a pod waits for the node's status to be told and answered, and between two looks at it."""


class CsiDrivers:
    """The CsiVolumes port, and the one who takes in drivers. `root` is the agent's, and `api` what drivers need of an
    API server; None: they have to do without. `is_mounted` says whether something is mounted at a path. `in_use` is
    None where volumes are not attached by a controller. `with_health`: drivers are asked how well volumes are."""

    def __init__(
        self,
        root: str,
        node: str,
        api: CsiApi | None,
        *,
        is_mounted: Callable[[str], bool],
        in_use: VolumesInUse | None = None,
        recorder: ObjectRecorder | None = None,
        journal: Journal | None = None,
        with_health: bool = False,
        has_selinux: bool | None = None,
    ) -> None:
        self._node = node
        self._api = api
        self._is_mounted = is_mounted
        self._in_use = in_use
        self._journal = journal or Journal()
        self._with_health = with_health
        self._has_selinux = os.path.exists("/sys/fs/selinux/enforce") if has_selinux is None else has_selinux
        self._records = CsiRecords(root, node)
        self._expansion = Expansion(node, api, recorder, self._journal) if api is not None else None
        self._drivers: dict[str, tuple[CsiDriver, tuple[int, ...]]] = {}
        self._staged: set[tuple[str, str]] = set()
        """By driver and handle: what this agent has staged, until a pod cannot be given it."""
        self._growing: set[tuple[str, str]] = set()
        """By uid and name: what is mounted, and was to be made larger first."""
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """By driver and handle, for as long as somebody holds or awaits one: handles come and go."""

    def load(self) -> None:
        """What an earlier agent has left is in use. Before anything else."""
        for each in self._records.all():
            if self._in_use is not None and isinstance(each, Record) and not each.is_ephemeral:
                self._in_use.found(unique_name(each.driver, each.handle), each.uid)

    # --- drivers

    async def register(self, name: str, endpoint: str, versions: tuple[str, ...]) -> None:
        from pykubelet.plugins.csi_driver import CsiDriver  # what it speaks takes long to load

        if not _NAME.fullmatch(name):
            raise Invalid(f"{name[:100]!r} is no name of a CSI driver: up to 63 letters, digits, dots and dashes")
        newest = max((each for each in map(_version, versions) if each[:1] == (1,)), default=())
        if not newest:
            raise Invalid(f"none of the versions {', '.join(versions) or '(none)'} is supported: it takes CSI 1.x")
        before = self._drivers.get(name)
        if before is not None and before[0].endpoint != endpoint and before[1] >= newest:
            raise Invalid(f"another driver with the name {name} is registered with a version that is not older")
        driver = CsiDriver(name, endpoint, self._journal)
        try:
            told = await driver.connect()
            if self._api is not None:
                topology = dict(told.accessible_topology.segments)
                await self._api.install(name, told.node_id, topology, told.max_volumes_per_node)
        except (PykubeletError, asyncio.CancelledError):
            await driver.close()
            raise
        self._drivers[name] = driver, newest
        if before is not None:
            await before[0].close()
        await self._sweep(name, driver)

    async def deregister(self, name: str, endpoint: str) -> None:
        found = self._drivers.get(name)
        if found is None or found[0].endpoint != endpoint:
            return
        del self._drivers[name]
        await found[0].close()
        try:
            if self._api is not None:
                await self._api.uninstall(name)
        except PykubeletError as error:
            log.warning("it cannot be told that the CSI driver %s is gone: %s", name, error)

    def _driver(self, name: str) -> "CsiDriver":
        if name not in self._drivers:
            raise Retry(f"driver name {name} not found in the list of registered CSI drivers", after=_SOON)
        return self._drivers[name][0]

    async def _sweep(self, name: str, driver: "CsiDriver") -> None:
        """What is staged for nobody: the record of its pod was lost."""
        for handle in await asyncio.to_thread(self._records.staged, name):
            async with self._turn(name, handle):
                try:
                    if not await asyncio.to_thread(self._records.is_used, name, handle):
                        log.info("volume %s of the CSI driver %s is staged for nobody: it is given back", handle, name)
                        await self._unstage(driver, name, handle)
                except (PykubeletError, OSError) as error:
                    log.warning("volume %s of the CSI driver %s cannot be given back: %s", handle, name, error)

    # --- volumes

    async def set_up(self, pod: Pod, volume: CsiVolume, group: int | None) -> CsiMounted:
        _check(volume)
        driver, told, uid = self._driver(volume.driver), await self._told(volume.driver), pod.metadata.uid
        handle = volume.handle or own_handle(uid, volume.name)
        mode = "Ephemeral" if volume.is_ephemeral else "Persistent"
        if mode not in (told.volume_lifecycle_modes or ("Persistent",)):
            raise Retry(f'volume mode "{mode}" not supported by driver {volume.driver}')
        if self._has_selinux and told.se_linux_mount:
            _check_label(pod, volume)
        target = self._records.target(uid, volume.name, is_block=volume.is_block)
        async with self._turn(volume.driver, handle):
            self._hold(uid, volume, told)
            is_there = await asyncio.to_thread(self._is_mounted, target)
            staged = self._records.staged_at(volume.driver, handle) if self._stages(driver, volume) else ""
            if not is_there or told.requires_republish:
                context = await self._attached(volume, told)
                attachment = attachment_name(volume.driver, handle, self._node)
                await asyncio.to_thread(self._records.write, uid, volume, handle, mode, attachment)
                await self._stage(volume, driver, context, group)
                attributes = {**volume.attributes, **await self._about_pod(pod, volume, told)}
                secrets = await self._secrets(volume.publish_secret)
                try:
                    await driver.publish(
                        volume,
                        handle,
                        target,
                        staged=staged,
                        context=context,
                        attributes=attributes,
                        secrets=secrets,
                        group=group,
                    )
                except PykubeletError:
                    self._staged.discard((volume.driver, handle))  # the driver may have lost it: look again
                    raise
            await self._follow_growth(Published(pod, volume, target, staged), driver, is_there=is_there)
        return CsiMounted(target, self._wants_group(volume, told, driver, group))

    async def _follow_growth(self, published: Published, driver: "CsiDriver", *, is_there: bool) -> None:
        """What was not grown when it was mounted is not the pod's yet, however often it is tried."""
        if self._expansion is None:
            return
        key = published.pod.metadata.uid, published.volume.name
        if is_there and key not in self._growing:
            await self._expansion.in_use(published, driver)
            return
        self._growing.add(key)
        await self._expansion.at_mount(published, driver)
        self._growing.discard(key)

    async def tear_down(self, uid: str, name: str) -> None:
        try:
            record = await asyncio.to_thread(self._records.read, uid, name)
        except Unreadable as error:
            await asyncio.to_thread(self._discard, uid, name, error)
            return
        if record is None:
            await asyncio.to_thread(self._records.forget, uid, name)
            return
        async with self._turn(record.driver, record.handle):
            driver = self._driver(record.driver)
            await driver.unpublish(record.handle, record.target)
            await asyncio.to_thread(self._clear, record.target)
            if not record.is_ephemeral and not await asyncio.to_thread(self._is_used, record):
                await self._unstage(driver, record.driver, record.handle)
            if self._in_use is not None:
                self._in_use.let_go(unique_name(record.driver, record.handle), uid)
            await asyncio.to_thread(self._records.forget, uid, name)  # the last to go: it shows that work is left

    def forget(self, uid: str) -> None:
        self._growing = {each for each in self._growing if each[0] != uid}
        if self._in_use is not None:
            self._in_use.forget(uid)

    async def usage(self, uid: str, name: str) -> tuple[Disk, VolumeHealth | None] | None:
        record = await asyncio.to_thread(self._records.read, uid, name)
        driver = self._drivers[record.driver][0] if record is not None and record.driver in self._drivers else None
        if record is None or driver is None or not driver.tells_usage:
            return None
        return await driver.usage(record.handle, record.target, with_health=self._with_health)

    def _turn(self, driver: str, handle: str) -> asyncio.Lock:
        return self._turns.setdefault((driver, handle), asyncio.Lock())

    def _stages(self, driver: "CsiDriver", volume: CsiVolume) -> bool:
        return driver.stages and not volume.is_ephemeral

    async def _stage(
        self, volume: CsiVolume, driver: "CsiDriver", context: Mapping[str, str], group: int | None
    ) -> None:
        key = volume.driver, volume.handle
        if not self._stages(driver, volume) or key in self._staged:
            return
        path = self._records.staged_at(*key)
        if not await asyncio.to_thread(self._is_staged_before, *key):
            secrets = await self._secrets(volume.stage_secret)
            await driver.stage(volume, path, context=context, secrets=secrets, group=group)
        self._staged.add(key)

    def _is_staged_before(self, driver: str, handle: str) -> bool:
        """By an earlier agent; else it is written down that it will be."""
        path = self._records.staged_at(driver, handle)
        if self._records.is_staged(driver, handle) and self._is_mounted(path):
            return True
        self._records.write_stage(driver, handle)
        return False

    def _is_used(self, record: Record) -> bool:
        return self._records.is_used(record.driver, record.handle, besides=(record.uid, record.name))

    async def _unstage(self, driver: "CsiDriver", name: str, handle: str) -> None:
        """Nobody here uses it any more."""
        if self._expansion is not None:
            self._expansion.forget(name, handle)
        if not await asyncio.to_thread(self._records.is_staged, name, handle):
            return
        path = self._records.staged_at(name, handle)
        self._staged.discard((name, handle))
        if driver.stages:
            await driver.unstage(handle, path)
        await asyncio.to_thread(self._clear, path)
        await asyncio.to_thread(self._records.forget_stage, name, handle)

    def _discard(self, uid: str, name: str, error: Unreadable) -> None:
        """Nobody knows any more whose it is: it goes if nothing is mounted there. What was staged for it goes when its
        driver comes the next time."""
        targets = [self._records.target(uid, name, is_block=is_block) for is_block in (False, True)]
        for target in targets if not os.path.islink(self._records.folder(uid, name)) else targets[1:]:
            if self._is_mounted(target):
                raise Retry(f"{error}; unmount {target}, and it is cleared away")
            self._clear(target)
        log.warning("%s: nothing is mounted there, and it is cleared away", error)
        self._records.forget(uid, name)

    def _clear(self, target: str) -> None:
        """What is left after the driver has taken its own away. What it has left mounted is not removed: Retry."""
        if self._is_mounted(target):
            raise Retry(f"{target} is still mounted, though its driver has given it back")
        with suppress(FileNotFoundError, NotADirectoryError):
            if os.path.isdir(target) and not os.path.islink(target):
                os.rmdir(target)
            else:
                os.unlink(target)

    # --- what a driver is told

    async def _told(self, driver: str) -> CSIDriverSpec:
        return await self._api.driver(driver) if self._api is not None else CSIDriverSpec()

    def _is_attached(self, volume: CsiVolume, told: CSIDriverSpec) -> bool:
        """By somebody of the cluster, that is."""
        return not volume.is_ephemeral and told.attach_required is not False and self._api is not None

    def _hold(self, uid: str, volume: CsiVolume, told: CSIDriverSpec) -> None:
        if self._in_use is not None and self._is_attached(volume, told):
            self._in_use.hold(unique_name(volume.driver, volume.handle), uid)

    async def _attached(self, volume: CsiVolume, told: CSIDriverSpec) -> Mapping[str, str]:
        """Only what the node's status says to be in use is safe from being taken away meanwhile."""
        if not self._is_attached(volume, told):
            return {}
        assert self._api is not None
        if self._in_use is not None:
            name, until = unique_name(volume.driver, volume.handle), asyncio.get_running_loop().time() + _PATIENCE
            while why := self._in_use.awaited(name):
                if asyncio.get_running_loop().time() >= until:
                    raise Retry(f"volume {volume.name} cannot be mounted yet: {why}", after=_SOON)
                await asyncio.sleep(_GLANCE)
        return await self._api.attached(attachment_name(volume.driver, volume.handle, self._node))

    async def _about_pod(self, pod: Pod, volume: CsiVolume, told: CSIDriverSpec) -> dict[str, str]:
        found: dict[str, str] = {}
        prefix, metadata, account = "csi.storage.k8s.io", pod.metadata, pod.spec.service_account_name
        if told.pod_info_on_mount:
            found = {
                f"{prefix}/pod.name": metadata.name,
                f"{prefix}/pod.namespace": metadata.namespace,
                f"{prefix}/pod.uid": metadata.uid,
                f"{prefix}/serviceAccount.name": account,
                f"{prefix}/ephemeral": str(volume.is_ephemeral).lower(),
            }
        if told.token_requests and self._api is not None:
            tokens = {
                each.audience: await self._api.token(pod, each.audience, each.expiration_seconds)
                for each in told.token_requests
            }
            found[f"{prefix}/serviceAccount.tokens"] = json.dumps({name: _token(text) for name, text in tokens.items()})
        return found

    async def _secrets(self, reference: Any) -> Mapping[str, str]:
        if reference is None or self._api is None:
            return {}
        return await self._api.secret(reference)

    def _wants_group(self, volume: CsiVolume, told: CSIDriverSpec, driver: "CsiDriver", group: int | None) -> bool:
        policy = told.fs_group_policy or "ReadWriteOnceWithFSType"
        if group is None or policy == "None" or volume.read_only or volume.is_block or driver.gives_to_groups:
            return False
        if policy == "File":
            return True
        is_one_nodes = bool({"ReadWriteOnce", "ReadWriteOncePod"}.intersection(volume.access_modes))
        return bool(volume.fs_type) and is_one_nodes


def _check(volume: CsiVolume) -> None:
    """Names become folders."""
    if not _NAME.fullmatch(volume.driver):
        raise Invalid(f"{volume.driver[:100]!r} is no name of a CSI driver")
    if "/" in volume.name or volume.name in ("", ".", ".."):
        raise Invalid(f"{volume.name[:100]!r} is no name of a volume")


def _check_label(pod: Pod, volume: CsiVolume) -> None:
    """Where the Go kubelet would mount it with the pod's label."""
    shared = pod.spec.security_context
    labels = [each.security_context for each in (*pod.spec.init_containers, *pod.spec.containers)]
    wants = any(each is not None and each.se_linux_options is not None for each in (shared, *labels))
    is_recursive = shared is not None and shared.se_linux_change_policy == "Recursive"
    if wants and not is_recursive and volume.access_modes == ("ReadWriteOncePod",):
        raise Invalid(
            f"volume {volume.name} would have to be mounted with the pod's SELinux label (seLinuxMount of CSIDriver "
            f"{volume.driver}), which is not done here: set seLinuxChangePolicy: Recursive in the pod"
        )


def _version(text: str) -> tuple[int, ...]:
    parts = text.removeprefix("v").split(".")
    return tuple(int(each) for each in parts) if all(each.isdecimal() for each in parts) else ()


def _token(text: str) -> dict[str, str]:
    """With when it ends, which the token says itself."""
    import base64
    from datetime import UTC, datetime

    from pykubelet.api.struct import rfc3339

    body = text.split(".")[1] if text.count(".") == 2 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        until = rfc3339(datetime.fromtimestamp(claims["exp"], UTC))
    except (ValueError, KeyError, TypeError):
        until = ""
    return {"token": text, "expirationTimestamp": until}

"""Volumes of storage drivers: staged once on the node, and published to each pod that uses them.

What was done is written down beside it before it is done, in the Go kubelet's files and folders: whoever comes later
can undo it without asking anybody.
"""

import asyncio
import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from pykubelet.api.pod import Pod
from pykubelet.api.storage import CSIDriverSpec
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.base.whole_files import draft_of, write_whole
from pykubelet.pod.ports.csi import CsiApi, CsiMounted, CsiVolume

if TYPE_CHECKING:
    from pykubelet.plugins.csi_driver import CsiDriver

log = logging.getLogger(__name__)

PLUGIN: Final = "kubernetes.io/csi"
FOLDER: Final = "kubernetes.io~csi"
DATA: Final = "vol_data.json"
_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,61}[a-zA-Z0-9])?")
_SOON: Final = 2.0


class CsiDrivers:
    """The CsiVolumes port, and the one who takes in drivers. `root` is the agent's, and `api` what drivers need of an
    API server; None: they have to do without. `is_mounted` says whether something is mounted at a path."""

    def __init__(self, root: str, node: str, api: CsiApi | None, *, is_mounted: Callable[[str], bool]) -> None:
        self._root = root
        self._node = node
        self._api = api
        self._is_mounted = is_mounted
        self._drivers: dict[str, tuple[CsiDriver, tuple[int, ...]]] = {}
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """By driver and handle, for as long as somebody holds or awaits one: handles come and go."""

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
        driver = CsiDriver(name, endpoint)
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

    # --- volumes

    async def set_up(self, pod: Pod, volume: CsiVolume, group: int | None) -> CsiMounted:
        _check(volume)
        driver, told = self._driver(volume.driver), await self._told(volume.driver)
        handle = volume.handle or own_handle(pod.metadata.uid, volume.name)
        mode = "Ephemeral" if volume.is_ephemeral else "Persistent"
        if mode not in (told.volume_lifecycle_modes or ("Persistent",)):
            raise Retry(f'volume mode "{mode}" not supported by driver {volume.driver}')
        target = self._target(pod.metadata.uid, volume)
        async with self._turns.setdefault((volume.driver, handle), asyncio.Lock()):
            if not told.requires_republish and await asyncio.to_thread(self._is_mounted, target):
                return CsiMounted(target, self._wants_group(volume, told, driver, group))
            context = await self._attached(volume, told)
            staged = await self._staged(volume, driver, context, group)
            await asyncio.to_thread(self._write_down, pod, volume, handle, mode)
            await driver.publish(
                volume,
                handle,
                target,
                staged=staged,
                context=context,
                attributes={**volume.attributes, **await self._about_pod(pod, volume, told)},
                secrets=await self._secrets(volume.publish_secret),
                group=group,
            )
        return CsiMounted(target, self._wants_group(volume, told, driver, group))

    async def tear_down(self, uid: str, name: str) -> None:
        folder = f"{self._root}/pods/{uid}/volumes/{FOLDER}/{name}"
        known = await asyncio.to_thread(_read, f"{folder}/{DATA}")
        if known is None:
            await asyncio.to_thread(_remove_empty, folder)
            return
        driver_name, handle = known["driverName"], known["volumeHandle"]
        async with self._turns.setdefault((driver_name, handle), asyncio.Lock()):
            driver = self._driver(driver_name)
            block = f"{self._devices()}/publish/{name}/{uid}"
            target = block if known.get("volumeMode") == "Block" else f"{folder}/mount"
            await driver.unpublish(handle, target)
            await asyncio.to_thread(self._clear, target)
            if known.get("volumeLifecycleMode") != "Ephemeral":
                await self._unstaged(driver, driver_name, handle, folder)
            await asyncio.to_thread(_forget, folder)  # the last to go: by it is seen that work is left

    async def _staged(
        self, volume: CsiVolume, driver: "CsiDriver", context: Mapping[str, str], group: int | None
    ) -> str:
        """-> where; empty: this driver, or this volume, needs no stage."""
        if not driver.stages or volume.is_ephemeral:
            return ""
        folder = self._stage(volume.driver, volume.handle)
        path = f"{folder}/globalmount"
        if await asyncio.to_thread(self._is_mounted, path):
            return path
        secrets = await self._secrets(volume.stage_secret)
        data = {"driverName": volume.driver, "volumeHandle": volume.handle}
        await asyncio.to_thread(_prepare, path, folder, data)
        await driver.stage(volume, path, context=context, secrets=secrets, group=group)
        return path

    async def _unstaged(self, driver: "CsiDriver", name: str, handle: str, besides: str) -> None:
        """Once nobody here uses it, besides the one that gives it back now."""
        folder = self._stage(name, handle)
        if await asyncio.to_thread(self._is_used, name, handle, besides):
            return
        path = f"{folder}/globalmount"
        if driver.stages:
            await driver.unstage(handle, path)
        await asyncio.to_thread(self._clear, path)
        await asyncio.to_thread(_forget, folder)

    def _clear(self, target: str) -> None:
        """What is left after the driver has taken its own away. What it has left mounted is not removed: Retry."""
        if self._is_mounted(target):
            raise Retry(f"{target} is still mounted, though its driver has given it back")
        with suppress(FileNotFoundError):
            if os.path.isdir(target) and not os.path.islink(target):
                os.rmdir(target)
            else:
                os.unlink(target)

    def _is_used(self, driver: str, handle: str, besides: str) -> bool:
        """Or was never staged."""
        if not os.path.isdir(self._stage(driver, handle)):
            return True
        return any(
            (known["driverName"], known["volumeHandle"]) == (driver, handle)
            for folder, known in self._written_down()
            if folder != besides
        )

    def _written_down(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        for uid in _names(f"{self._root}/pods"):
            volumes = f"{self._root}/pods/{uid}/volumes/{FOLDER}"
            for name in _names(volumes):
                if (known := _read(f"{volumes}/{name}/{DATA}")) is not None:
                    yield f"{volumes}/{name}", known

    def _write_down(self, pod: Pod, volume: CsiVolume, handle: str, mode: str) -> None:
        uid = pod.metadata.uid
        data = {
            "specVolID": volume.name,
            "volumeHandle": handle,
            "driverName": volume.driver,
            "nodeName": self._node,
            "volumeLifecycleMode": mode,
            "attachmentID": attachment_name(handle, volume.driver, self._node),
            **({"volumeMode": "Block"} if volume.is_block else {}),
        }
        folder = f"{self._root}/pods/{uid}/volumes/{FOLDER}/{volume.name}"
        _prepare(folder, folder, data)
        os.makedirs(os.path.dirname(self._target(uid, volume)), 0o750, exist_ok=True)

    # --- what a driver is told

    async def _told(self, driver: str) -> CSIDriverSpec:
        if self._api is None:
            return CSIDriverSpec()
        with suppress(NotFound):
            return await self._api.driver(driver)
        return CSIDriverSpec()

    async def _attached(self, volume: CsiVolume, told: CSIDriverSpec) -> Mapping[str, str]:
        if volume.is_ephemeral or told.attach_required is False or self._api is None:
            return {}
        return await self._api.attached(attachment_name(volume.handle, volume.driver, self._node))

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

    # --- places

    def _target(self, uid: str, volume: CsiVolume) -> str:
        if volume.is_block:
            return f"{self._devices()}/publish/{volume.name}/{uid}"
        return f"{self._root}/pods/{uid}/volumes/{FOLDER}/{volume.name}/mount"

    def _devices(self) -> str:
        return f"{self._root}/plugins/{PLUGIN}/volumeDevices"

    def _stage(self, driver: str, handle: str) -> str:
        return f"{self._root}/plugins/{PLUGIN}/{driver}/{hashlib.sha256(handle.encode()).hexdigest()}"


def own_handle(uid: str, name: str) -> str:
    """Of a volume that comes and goes with its pod."""
    return f"csi-{hashlib.sha256(f'{uid}{name}'.encode()).hexdigest()}"


def attachment_name(handle: str, driver: str, node: str) -> str:
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def _check(volume: CsiVolume) -> None:
    """Names become folders."""
    if not _NAME.fullmatch(volume.driver):
        raise Invalid(f"{volume.driver[:100]!r} is no name of a CSI driver")
    if "/" in volume.name or volume.name in ("", ".", ".."):
        raise Invalid(f"{volume.name[:100]!r} is no name of a volume")


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


def _prepare(path: str, folder: str, data: Mapping[str, str]) -> None:
    os.makedirs(path, 0o750, exist_ok=True)
    write_whole(Path(folder, DATA), f"{json.dumps(data)}\n".encode())  # half of it, and nobody could undo what was done


def _read(path: str) -> dict[str, str] | None:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Retry(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict) or not {"driverName", "volumeHandle"} <= found.keys():
        raise Retry(f"{path} does not say which volume it is of")
    return {str(key): str(value) for key, value in found.items()}


def _forget(folder: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(f"{folder}/{DATA}")
    _remove_empty(folder)


def _remove_empty(folder: str) -> None:
    with suppress(FileNotFoundError):
        with suppress(FileNotFoundError, NotADirectoryError):
            os.rmdir(f"{folder}/mount")
        draft_of(Path(folder, DATA)).unlink(missing_ok=True)
        os.rmdir(folder)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []

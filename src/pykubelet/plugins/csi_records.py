"""What is written down of storage drivers' volumes, in the Go kubelet's files and folders: whoever comes later can undo
what was done without asking anybody."""

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Retry
from pykubelet.base.whole_files import draft_of, write_whole
from pykubelet.pod.ports.csi import CsiVolume

log = logging.getLogger(__name__)

PLUGIN: Final = "kubernetes.io/csi"
FOLDER: Final = "kubernetes.io~csi"
DATA: Final = "vol_data.json"


class Unreadable(Retry):
    """What was written down, and nobody can make sense of."""


class Record(Struct, frozen=True, kw_only=True):
    """Of one volume of one pod."""

    uid: str
    name: str
    """Of the persistent volume, or of the pod's."""
    driver: str
    handle: str
    target: str
    """Where it was to be published."""
    is_ephemeral: bool = False


class CsiRecords:
    """`root` is the agent's, `node` this node's name. Everything here may block."""

    def __init__(self, root: str, node: str) -> None:
        self._root = root
        self._node = node

    # --- places

    def folder(self, uid: str, name: str) -> str:
        return f"{self._root}/pods/{uid}/volumes/{FOLDER}/{name}"

    def target(self, uid: str, name: str, *, is_block: bool) -> str:
        if is_block:
            return f"{self._root}/plugins/{PLUGIN}/volumeDevices/publish/{name}/{uid}"
        return f"{self.folder(uid, name)}/mount"

    def stage(self, driver: str, handle: str) -> str:
        """The folder of what all pods share."""
        return f"{self._root}/plugins/{PLUGIN}/{driver}/{hashlib.sha256(handle.encode()).hexdigest()}"

    def staged_at(self, driver: str, handle: str) -> str:
        return f"{self.stage(driver, handle)}/globalmount"

    # --- what is there

    def read(self, uid: str, name: str) -> Record | None:
        """None: nothing was done. Raises Unreadable."""
        if os.path.islink(self.folder(uid, name)):
            raise Unreadable(f"{self.folder(uid, name)} is a link, which nobody follows")
        known = _read(f"{self.folder(uid, name)}/{DATA}")
        if known is None:
            return None
        return Record(
            uid=uid,
            name=name,
            driver=known["driverName"],
            handle=known["volumeHandle"],
            target=self.target(uid, name, is_block=known.get("volumeMode") == "Block"),
            is_ephemeral=known.get("volumeLifecycleMode") == "Ephemeral",
        )

    def all(self) -> Iterator[Record | tuple[str, str]]:
        """Of one that cannot be read, the uid of the pod and the volume's name."""
        for uid in _names(f"{self._root}/pods"):
            for name in _names(f"{self._root}/pods/{uid}/volumes/{FOLDER}"):
                try:
                    if (found := self.read(uid, name)) is not None:
                        yield found
                except Unreadable as error:
                    log.warning("%s", error)
                    yield uid, name

    def is_used(self, driver: str, handle: str, *, besides: tuple[str, str] = ("", "")) -> bool:
        """By a pod other than the one whose uid and volume are named. One whose record cannot be read counts for the
        volume that its folder is named after, and for no other."""
        found = [each for each in self.all() if _owner(each) != besides]
        ours = {besides[1]} | {each.name for each in found if isinstance(each, Record) and _is_of(each, driver, handle)}
        return any(
            _is_of(each, driver, handle) if isinstance(each, Record) else each[1] in ours - {""} for each in found
        )

    def is_staged(self, driver: str, handle: str) -> bool:
        """Or was about to be."""
        return os.path.isdir(self.stage(driver, handle))

    def staged(self, driver: str) -> list[str]:
        """The handles of those of a driver's volumes that are staged, or were about to be."""
        place, found = f"{self._root}/plugins/{PLUGIN}/{driver}", []
        for name in _names(place):
            try:
                known = _read(f"{place}/{name}/{DATA}")
            except Unreadable as error:
                log.warning("%s", error)
                continue
            if known is not None and self.stage(driver, known["volumeHandle"]) == f"{place}/{name}":
                found.append(known["volumeHandle"])
        return found

    # --- what is done

    def write(self, uid: str, volume: CsiVolume, handle: str, mode: str, attachment: str) -> None:
        data = {
            "specVolID": volume.name,
            "volumeHandle": handle,
            "driverName": volume.driver,
            "nodeName": self._node,
            "volumeLifecycleMode": mode,
            "attachmentID": attachment,
            **({"volumeMode": "Block"} if volume.is_block else {}),
        }
        folder = self.folder(uid, volume.name)
        _prepare(folder, folder, data)
        os.makedirs(os.path.dirname(self.target(uid, volume.name, is_block=volume.is_block)), 0o750, exist_ok=True)

    def write_stage(self, driver: str, handle: str) -> None:
        data = {"driverName": driver, "volumeHandle": handle}
        _prepare(self.staged_at(driver, handle), self.stage(driver, handle), data)

    def forget(self, uid: str, name: str) -> None:
        if os.path.islink(self.folder(uid, name)):
            os.unlink(self.folder(uid, name))
            return
        with suppress(OSError):  # other pods may have it as well
            os.rmdir(os.path.dirname(self.target(uid, name, is_block=True)))
        _forget(self.folder(uid, name))

    def forget_stage(self, driver: str, handle: str) -> None:
        _forget(self.stage(driver, handle))


def _is_of(record: Record, driver: str, handle: str) -> bool:
    return (record.driver, record.handle) == (driver, handle)


def _owner(found: Record | tuple[str, str]) -> tuple[str, str]:
    return (found.uid, found.name) if isinstance(found, Record) else found


def _prepare(path: str, folder: str, data: Mapping[str, str]) -> None:
    """Half of it, and nobody could undo what was done. After a power cut nothing is mounted, and a record that is lost
    is cleared away: pods need not wait for the disk."""
    os.makedirs(path, 0o750, exist_ok=True)
    write_whole(Path(folder, DATA), f"{json.dumps(data)}\n".encode(), outlives_power=False)


def _read(path: str) -> dict[str, str] | None:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict) or not {"driverName", "volumeHandle"} <= found.keys():
        raise Unreadable(f"{path} does not say which volume it is of")
    return {str(key): str(value) for key, value in found.items()}


def _forget(folder: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(f"{folder}/{DATA}")
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

"""Static pods from a manifest file or a folder of them.

The kernel tells of changes at once; a full re-read every `period` seconds is the safety net. A file that breaks keeps
the pods of its last good content, and its faults are reported once.
"""

import asyncio
import hashlib
import logging
import os
import stat
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import suppress
from typing import Final

from msgspec import Struct

from pykubelet.api.documents import MAX_BYTES
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import FILE_SOURCE, full_name
from pykubelet.api.validation.options import DEFAULT_OPTIONS, PodValidationOptions
from pykubelet.pod.lifecycle.pod_update import Listed
from pykubelet.sources.inotify import FolderWatch
from pykubelet.sources.manifest import BadManifest, Manifest, Place, read_manifest
from pykubelet.sources.static_objects import ObjectKey, StaticObjects

log = logging.getLogger(__name__)

_SETTLE: Final = 0.01
"""Editors and `sed -i` write a second file and rename it over the first: look when they are done."""


class _Content(Struct, frozen=True):
    """What was last found at a path."""

    digest: bytes
    manifest: Manifest
    """This content, or the last good one before it."""


class FileSource:
    """`watch` yields the whole truth at first and whenever it changes."""

    def __init__(
        self,
        path: str,
        node_name: str,
        *,
        period: float = 20.0,
        objects: StaticObjects | None = None,
        lenient: bool = False,
        validation: PodValidationOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._path = path.rstrip("/") or "/"
        self._node_name = node_name
        self._period = period
        self._lenient = lenient
        self._validation = validation
        self._objects = objects or StaticObjects()
        self._contents: dict[str, _Content] = {}
        self._reported: dict[tuple[str, str], tuple[str, ...]] = {}
        self._owners: dict[str, str] = {}
        self._is_folder = False
        self._changed = asyncio.Event()
        self._watch: FolderWatch | None = None

    async def watch(self) -> AsyncGenerator[Listed, None]:
        told: tuple[Pod, ...] | None = None
        try:
            while True:
                self._changed.clear()
                self._keep_watching()
                removed = self._watch.removed() if self._watch is not None else ()
                await asyncio.to_thread(self._read_all)
                self._objects.replace(objects := self._all_objects())
                pods = self._without_needy(self._without_duplicates(), objects, told or ())
                kept = self._without_removed(told or (), removed)
                if told is not None and kept != told:  # also what is back by now: people restart a pod that way
                    told = kept
                    yield Listed(kept)
                if pods != told:
                    told = pods
                    yield Listed(pods)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._period):
                        await self._changed.wait()
                        await asyncio.sleep(_SETTLE)
        finally:
            self._stop_watching()

    # --- word from the kernel

    def _keep_watching(self) -> None:
        """Watch the folder, or, while there is none and for a single file, the one above it."""
        folder = self._path if os.path.isdir(self._path) else os.path.dirname(self._path) or "."
        if self._watch is not None and self._watch.covers(folder):
            return
        self._stop_watching()
        try:
            self._watch = FolderWatch(folder, self._changed.set)
            self._note_mended("watch", folder)
        except OSError as error:
            self._report(
                "watch", folder, f"{folder}: changes are noticed only every {self._period:g} s: {error.strerror}"
            )

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _without_removed(self, told: tuple[Pod, ...], names: Collection[str]) -> tuple[Pod, ...]:
        folder = self._folder() if self._is_folder else os.path.dirname(self._path)
        removed = (self._contents.get(os.path.join(folder, name)) for name in names)
        uids = {pod.metadata.uid for content in removed if content is not None for pod in content.manifest.pods}
        return tuple(pod for pod in told if pod.metadata.uid not in uids)

    def _folder(self) -> str:
        """Pods' identities are made from their paths: as every agent writes them."""
        return os.path.normpath(self._path).replace("//", "/")

    # --- reading, in a thread: a slow disk must not stop the agent

    def _read_all(self) -> None:
        paths = self._paths()
        if paths is not None:
            self._contents = {path: content for path in paths if (content := self._read(path)) is not None}
            self._forget_all_but("path", paths)
            for about in ("content", "mode"):
                self._forget_all_but(about, self._contents)

    def _paths(self) -> list[str] | None:
        """The manifests' paths in order, or None when they cannot be known now: then what was read before stays."""
        try:
            self._is_folder = stat.S_ISDIR(os.stat(self._path).st_mode)
            if self._is_folder:
                names = sorted(name for name in os.listdir(self._path) if not name.startswith("."))
                paths = [os.path.join(self._folder(), name) for name in names]
            else:
                paths = [self._path]
        except FileNotFoundError:
            if (
                self._is_folder and self._contents
            ):  # a file that goes is a pod that goes; a folder that goes is an accident
                self._report("folder", self._path, f"{self._path}: has disappeared; its pods go on without it")
                return None
            self._report("folder", self._path, f"{self._path}: does not exist; waiting for it")
            return []
        except OSError as error:
            self._report("folder", self._path, f"{self._path}: cannot be read: {error.strerror}")
            return None
        self._note_mended("folder", self._path)
        return paths

    def _read(self, path: str) -> _Content | None:
        before = self._contents.get(path)
        try:
            data, mode = _read_regular(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._report("path", path, f"{path}: cannot be read: {error.strerror or error}")
            return before
        if data is None:
            self._report(
                "path", path, f"{path}: is not a regular file; only the folder itself is read, not what is below"
            )
            return None
        self._note_mended("path", path)
        digest = hashlib.sha256(data).digest()
        content = before if before is not None and before.digest == digest else self._understood(path, data, digest)
        if mode & 0o007 and any(kind == "secret" for kind, _, _ in content.manifest.objects):
            self._report("mode", path, f"{path}: holds a secret that everybody on this machine may read: chmod 600 it")
        else:
            self._note_mended("mode", path)
        return content

    def _understood(self, path: str, data: bytes, digest: bytes) -> _Content:
        self._note_mended("content", path)
        before = self._contents.get(path)
        place = Place(origin=_as_text(path), source=FILE_SOURCE, node_name=self._node_name)
        try:
            manifest = read_manifest(data, place, lenient=self._lenient, validation=self._validation)
            self._report("content", path, *manifest.ignored, level=logging.WARNING)
            return _Content(digest, manifest)
        except BadManifest as error:
            kept = before.manifest if before else Manifest()
            names = ", ".join(pod.metadata.name for pod in kept.pods)
            running = [f"{path}: still running from before: {names}"] if kept.pods else []
            self._report("content", path, *error.faults, *running)
            return _Content(digest, kept)

    # --- what all files hold together

    def _all_objects(self) -> dict[ObjectKey, ConfigMap | Secret]:
        """An object belongs to the first file that has it."""
        found: dict[ObjectKey, ConfigMap | Secret] = {}
        ignored: set[str] = set()
        for path, content in self._contents.items():
            for key, each in content.manifest.objects.items():
                if found.setdefault(key, each) is not each:
                    kind, namespace, name = key
                    ignored.add(which := f"{path}#{key}")
                    self._report("object", which, f"{path}: {kind} {namespace}/{name} is ignored: it is defined before")
        self._forget_all_but("object", ignored)
        return found

    def _without_needy(
        self, pods: tuple[Pod, ...], objects: Mapping[ObjectKey, ConfigMap | Secret], told: tuple[Pod, ...]
    ) -> tuple[Pod, ...]:
        """A pod that needs what is not there is refused, as what refers to an API server is. One that runs goes on, as
        others do whose config map is deleted."""
        running = {pod.metadata.uid for pod in told}
        needs = {uid: all_ for content in self._contents.values() for uid, all_ in content.manifest.needs.items()}
        missing: dict[str, tuple[str, ...]] = {}
        for uid in (pod.metadata.uid for pod in pods):
            if faults := tuple(fault for key, fault in needs.get(uid, {}).items() if key not in objects):
                missing[uid] = faults
                self._report("need", uid, *faults)
        self._forget_all_but("need", missing)
        return tuple(pod for pod in pods if pod.metadata.uid not in missing or pod.metadata.uid in running)

    def _without_duplicates(self) -> tuple[Pod, ...]:
        """A name belongs to the file that had it first: a backup copy beside a manifest must not restart its pod."""
        claims: dict[str, list[tuple[str, Pod]]] = {}
        for path, content in self._contents.items():
            for pod in content.manifest.pods:
                claims.setdefault(full_name(pod), []).append((path, pod))
        chosen: list[Pod] = []
        owners: dict[str, str] = {}
        ignored: set[str] = set()
        for name, claimants in claims.items():
            path, pod = next((each for each in claimants if each[0] == self._owners.get(name)), claimants[0])
            owners[name] = path
            chosen.append(pod)
            for other, _ in claimants:
                if other != path:
                    shown = f"{pod.metadata.namespace}/{pod.metadata.name}"
                    ignored.add(key := f"{other}#{name}")
                    self._report("name", key, f"{other}: pod {shown} is ignored: {path} defines it already")
            if sum(other == path for other, _ in claimants) > 1:
                ignored.add(key := f"{path}#{name}")
                self._report("name", key, f"{path}: pod {pod.metadata.name} is defined twice; the first one counts")
        self._owners = owners
        self._forget_all_but("name", ignored)
        return tuple(chosen)

    # --- what is wrong is said once, until it changes or is mended

    def _report(self, about: str, which: str, *faults: str, level: int = logging.ERROR) -> None:
        if self._reported.get((about, which)) != faults:
            self._reported[about, which] = faults
            for fault in faults:
                log.log(level, "%s", fault)

    def _note_mended(self, about: str, which: str) -> None:
        self._reported.pop((about, which), None)

    def _forget_all_but(self, about: str, there: Collection[str]) -> None:
        for key in [key for key in self._reported if key[0] == about and key[1] not in there]:
            del self._reported[key]


def _as_text(path: str) -> str:
    """A name may be any bytes; what is made from it has to be text."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _read_regular(path: str) -> tuple[bytes | None, int]:
    """The content of a file, or None when it is not one: reading a pipe would never end. And its mode."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        return None, mode
    with open(fd, "rb") as file:
        return file.read(MAX_BYTES + 1), mode

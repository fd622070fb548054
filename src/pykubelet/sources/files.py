"""Static pods from a manifest file or a folder of them.

The kernel tells of changes at once; a full re-read every `period` seconds is the safety net. A file that breaks keeps
the pods of its last good content, and its faults are reported once.
"""

import asyncio
import hashlib
import logging
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from msgspec import Struct

from pykubelet.api.documents import MAX_BYTES
from pykubelet.api.pod import Pod
from pykubelet.pod.events import Listed
from pykubelet.pod.kinds import FILE_SOURCE, full_name
from pykubelet.sources.inotify import FolderWatch
from pykubelet.sources.manifest import BadManifest, Place, read_manifest

log = logging.getLogger(__name__)

_SETTLE: Final = 0.01
"""Editors and `sed -i` write a second file and rename it over the first: look when they are done."""


class _Content(Struct, frozen=True):
    """What was last found at a path."""

    digest: bytes
    pods: tuple[Pod, ...]
    """From this content, or from the last good one before it."""


class FileSource:
    """`watch` yields the whole truth at first and whenever it changes."""

    def __init__(self, path: str, node_name: str, *, period: float = 20.0) -> None:
        self._path = path.rstrip("/") or "/"
        self._node_name = node_name
        self._period = period
        self._contents: dict[str, _Content] = {}
        self._reported: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._watch: FolderWatch | None = None

    async def watch(self) -> AsyncGenerator[Listed, None]:
        told: tuple[Pod, ...] | None = None
        try:
            while True:
                self._changed.clear()
                self._keep_watching()
                pods = await asyncio.to_thread(self._read_all)
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
        if self._watch is not None and self._watch.folder == folder and not self._watch.lost:
            return
        self._stop_watching()
        try:
            self._watch = FolderWatch(folder, self._changed.set)
        except OSError as error:
            self._report(folder, f"{folder}: changes are noticed only every {self._period:g} s: {error.strerror}")

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    # --- reading, in a thread: a slow disk must not stop the agent

    def _read_all(self) -> tuple[Pod, ...]:
        paths = self._paths()
        if paths is not None:
            found = {path: content for path in paths if (content := self._read(path)) is not None}
            for gone in self._contents.keys() - found.keys():
                self._reported.pop(gone, None)
            self._contents = found
        return self._without_duplicates()

    def _paths(self) -> list[str] | None:
        """The manifests' paths in order, or None when they cannot be known now: then what was read before stays."""
        try:
            if not stat.S_ISDIR(os.stat(self._path).st_mode):
                return [self._path]
            names = sorted(name for name in os.listdir(self._path) if not name.startswith("."))
        except FileNotFoundError:
            self._report(self._path, f"{self._path}: does not exist; waiting for it")
            return []
        except OSError as error:
            self._report(self._path, f"{self._path}: cannot be read: {error.strerror}")
            return None
        self._reported.pop(self._path, None)
        return [os.path.join(self._path, name) for name in names]

    def _read(self, path: str) -> _Content | None:
        before = self._contents.get(path)
        try:
            data = _read_regular(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._report(path, f"{path}: cannot be read: {error.strerror or error}")
            return before
        if data is None:
            self._report(path, f"{path}: is not a regular file; only the folder itself is read, not what is below it")
            return None
        digest = hashlib.sha256(data).digest()
        if before is not None and before.digest == digest:
            return before
        self._reported.pop(path, None)
        try:
            pods = read_manifest(data, Place(origin=path, source=FILE_SOURCE, node_name=self._node_name))
        except BadManifest as error:
            kept = before.pods if before else ()
            names = ", ".join(pod.metadata.name for pod in kept)
            self._report(path, *error.faults, *([f"{path}: still running from before: {names}"] if kept else []))
            return _Content(digest, kept)
        return _Content(digest, pods)

    def _without_duplicates(self) -> tuple[Pod, ...]:
        """A name belongs to the file that had it first: a backup copy beside a manifest must not restart its pod."""
        claims: dict[str, list[tuple[str, Pod]]] = {}
        for path, content in self._contents.items():
            for pod in content.pods:
                claims.setdefault(full_name(pod), []).append((path, pod))
        chosen: list[Pod] = []
        owners: dict[str, str] = {}
        for name, claimants in claims.items():
            path, pod = next((each for each in claimants if each[0] == self._owners.get(name)), claimants[0])
            owners[name] = path
            chosen.append(pod)
            for other, _ in claimants:
                if other != path:
                    shown = f"{pod.metadata.namespace}/{pod.metadata.name}"
                    self._report(f"{other}#{name}", f"{other}: pod {shown} is ignored: {path} defines it already")
            if sum(other == path for other, _ in claimants) > 1:
                self._report(
                    f"{path}#{name}", f"{path}: pod {pod.metadata.name} is defined twice; the first one counts"
                )
        self._owners = owners
        return tuple(chosen)

    def _report(self, key: str, *faults: str) -> None:
        """Say it once, until it changes or is mended."""
        text = "\n".join(faults)
        if self._reported.get(key) != text:
            self._reported[key] = text
            for fault in faults:
                log.error("%s", fault)


def _read_regular(path: str) -> bytes | None:
    """The content of a file, or None when it is not one: reading a pipe would never end."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    with open(fd, "rb") as file:
        return file.read(MAX_BYTES + 1)

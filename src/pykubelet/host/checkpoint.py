"""What this node knew of its pods when it was last heard of, on disk: what to run while the API server is away.

One file for each thing, written in a thread by `run` so that no handler ever waits for a disk. A file that cannot be
read is reported and skipped: the server's own word comes later anyway.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.pod import Pod
from pykubelet.base.whole_files import put_aside, write_whole
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.claims.wanted import pod_claims
from pykubelet.pod.container.references import claim_of, object_uses
from pykubelet.pod.ports.machine import LastKind

log = logging.getLogger(__name__)

_RETRY: Final = 10.0
_MACHINE: Final = "machine"


class _Folder:
    """`machine` tells this machine from others: a copied disk must not bring another machine's pods to life."""

    def __init__(self, folder: Path, machine: str) -> None:
        self._folder = folder
        self._machine = machine
        self._pending: dict[str, Callable[[], bytes] | None] = {}
        self._news = asyncio.Event()
        self._is_frozen = False

    def load(self) -> dict[str, bytes]:
        """Everything that was saved, by name. Blocks: called once, before the agent runs."""
        if self._noted() not in (None, self._machine):
            log.warning(
                "the checkpoint in %s was made by another machine: the API server's word is waited for", self._folder
            )
            return {}
        found = {}
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else ():
            try:
                found[path.stem] = path.read_bytes()
            except OSError as error:
                self.complain(path.stem, error)
        return found

    def save(self, name: str, content: Callable[[], bytes]) -> None:
        """`content` is asked for when it is written: what changes often is written once."""
        self._note(name, content)

    def drop(self, name: str) -> None:
        self._note(name, None)

    def _note(self, name: str, content: Callable[[], bytes] | None) -> None:
        if not self._is_frozen:
            self._pending[name] = content
            self._news.set()

    def freeze(self) -> None:
        """From now on nothing is taken note of: what was known is for the agent that comes next."""
        self._is_frozen = True

    async def run(self) -> None:
        """Write down what was said, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            pending, self._pending = self._pending, {}
            contents = {name: content() if content is not None else None for name, content in pending.items()}
            try:
                await asyncio.to_thread(self._write, contents)
            except OSError as error:
                log.error("the checkpoint of pods cannot be written in %s: %s", self._folder, error.strerror)
                self._pending = pending | self._pending
                self._news.set()
                await asyncio.sleep(_RETRY)

    def complain(self, name: str, error: Exception) -> None:
        put_aside(self._folder / f"{name}.json", error, "the API server's word is waited for")

    def _noted(self) -> str | None:
        """None: there is none yet, or it was made before there were such notes."""
        try:
            return (self._folder / _MACHINE).read_text()
        except OSError:
            return None

    def _write(self, contents: dict[str, bytes | None]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        noted = self._noted()
        if noted != self._machine:
            for path in self._folder.glob("*.json") if noted is not None else ():
                path.unlink(missing_ok=True)
            (self._folder / _MACHINE).write_text(self._machine)
        for name, content in contents.items():
            path = self._folder / f"{name}.json"
            if content is None:
                path.unlink(missing_ok=True)
                continue
            write_whole(path, content)


class Checkpoints(Struct, frozen=True):
    """All that is remembered here."""

    pods: "PodCheckpoint"
    objects: "ObjectCheckpoint"
    restored: tuple[Pod, ...] = ()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pods.run())
            tasks.create_task(self.objects.run())

    def freeze(self) -> None:
        self.pods.freeze()
        self.objects.freeze()


def load_checkpoints(folder: Path, *, machine: str, secrets: bool) -> Checkpoints:
    """Blocks."""
    pods = PodCheckpoint(folder / "pods", machine=machine)
    objects = ObjectCheckpoint(folder / "objects", machine=machine, secrets=secrets)
    restored = pods.load()
    objects.load(restored)
    return Checkpoints(pods, objects, restored)


class PodCheckpoint:
    """The pods that this node has admitted from an API server."""

    def __init__(self, folder: Path, *, machine: str = "") -> None:
        self._folder = _Folder(folder, machine)
        self.run, self.freeze = self._folder.run, self._folder.freeze

    def load(self) -> tuple[Pod, ...]:
        """Everything that was saved. Blocks."""
        found = []
        for name, content in self._folder.load().items():
            try:
                pod = codec.decode(Pod, content)
                if not pod.metadata.uid:
                    raise DecodeError("it is no pod that was here")
                found.append(pod)
            except DecodeError as error:
                self._folder.complain(name, error)
        return tuple(found)

    def save(self, pod: Pod) -> None:
        self._folder.save(_pod_name(pod.metadata.uid), lambda: codec.encode(pod))

    def drop(self, uid: str) -> None:
        self._folder.drop(_pod_name(uid))


class ObjectCheckpoint:
    """What these pods use of an API server: the LastKnown port. Secrets and tokens are among it only where people want
    that: whoever can read the disk can read them."""

    def __init__(self, folder: Path, *, machine: str = "", secrets: bool = False) -> None:
        self._folder = _Folder(folder, machine)
        self._secrets = secrets
        self._found: dict[str, bytes] = {}
        self.run, self.freeze = self._folder.run, self._folder.freeze

    def load(self, pods: Iterable[Pod]) -> None:
        """What those pods use. The rest goes: nobody would ever ask for it. Blocks."""
        wanted = {_object_name(kind, key) for pod in pods for kind, key in _uses(pod) if self.keeps(kind)}
        for name, content in self._folder.load().items():
            if name in wanted:
                self._found[name] = content
            else:
                self._folder.drop(name)

    def keeps(self, kind: LastKind) -> bool:
        return self._secrets or kind not in ("secret", "token")

    def recall(self, kind: LastKind, *key: str) -> bytes | None:
        return self._found.get(_object_name(kind, key))

    def save(self, kind: LastKind, *key: str, content: Callable[[], bytes]) -> None:
        if self.keeps(kind):
            self._folder.save(_object_name(kind, key), content)

    def drop(self, kind: LastKind, *key: str) -> None:
        name = _object_name(kind, key)
        self._found.pop(name, None)
        self._folder.drop(name)


def _uses(pod: Pod) -> Iterator[tuple[LastKind, tuple[str, ...]]]:
    meta = pod.metadata
    for kind, name in object_uses(pod.spec):
        yield kind, (meta.namespace, name)
    for volume in pod.spec.volumes:
        if (claim := claim_of(pod, volume)) is not None:
            yield "claimedvolume", (meta.namespace, claim)
    with suppress(ClaimFailed):  # what is still to be made nobody has seen
        for used in pod_claims(pod, extended=True):
            yield "resourceclaim", (meta.namespace, used.name)
    yield "token", (meta.uid,)
    yield "runtimeclass", (pod.spec.runtime_class_name or "",)
    yield "services", ()
    yield "csidrivers", ()
    yield "node", ()


def _pod_name(uid: str) -> str:
    return os.path.basename(uid)


def _object_name(kind: LastKind, key: tuple[str, ...]) -> str:
    """Names come from others, and two of them may be longer than that of a file may be."""
    return f"{kind}-{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}"

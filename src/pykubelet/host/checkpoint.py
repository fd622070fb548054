"""The pods that this node has admitted from an API server, on disk: what to run while that server is away.

One file a pod, written in a thread by `run` so that no handler ever waits for a disk. A file that cannot be read is
reported and skipped: the server's own word comes later anyway.
"""

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.pod import Pod

log = logging.getLogger(__name__)

_RETRY: Final = 10.0
_MACHINE: Final = "machine"


class PodCheckpoint:
    """`machine` tells this machine from others: a copied disk must not bring another machine's pods to life."""

    def __init__(self, folder: Path, *, machine: str = "") -> None:
        self._folder = folder
        self._machine = machine
        self._pending: dict[str, Pod | None] = {}
        self._news = asyncio.Event()

    def load(self) -> tuple[Pod, ...]:
        """Everything that was saved. Blocks: called once, before the agent runs."""
        if not self._is_ours():
            log.warning(
                "the checkpoint in %s was made by another machine: the API server's word is waited for", self._folder
            )
            return ()
        pods = []
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else ():
            try:
                pods.append(codec.decode(Pod, path.read_bytes()))
            except (OSError, DecodeError) as error:
                log.warning("checkpoint %s cannot be used: %s", path, error)
        return tuple(pods)

    def save(self, pod: Pod) -> None:
        self._pending[pod.metadata.uid] = pod
        self._news.set()

    def drop(self, uid: str) -> None:
        self._pending[uid] = None
        self._news.set()

    async def run(self) -> None:
        """Write down what was said, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            pending, self._pending = self._pending, {}
            try:
                await asyncio.to_thread(self._write, pending)
            except OSError as error:
                log.error("the checkpoint of pods cannot be written in %s: %s", self._folder, error.strerror)
                self._pending = pending | self._pending
                self._news.set()
                await asyncio.sleep(_RETRY)

    def _is_ours(self) -> bool:
        return self._noted() in (None, self._machine)

    def _noted(self) -> str | None:
        """None: there is none yet, or it was made before there were such notes."""
        try:
            return (self._folder / _MACHINE).read_text()
        except OSError:
            return None

    def _write(self, pending: dict[str, Pod | None]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        noted = self._noted()
        if noted != self._machine:
            for path in self._folder.glob("*.json") if noted is not None else ():
                path.unlink(missing_ok=True)
            (self._folder / _MACHINE).write_text(self._machine)
        for uid, pod in pending.items():
            path = self._folder / f"{os.path.basename(uid)}.json"
            if pod is None:
                path.unlink(missing_ok=True)
                continue
            draft = path.with_suffix(".tmp")
            draft.touch(mode=0o600)
            draft.write_bytes(codec.encode(pod))
            draft.replace(path)

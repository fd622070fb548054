"""What pods were given and their containers told to have, in the two files that upstream's agent keeps it in: either
agent can go on from what the other has written.

Written in a thread by `run`, each file as a whole. A file that cannot be read is put aside: containers then keep what
they have, and nothing is restarted.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.container import ResourceRequirements
from pykubelet.base.errors import Retry
from pykubelet.base.whole_files import put_aside, write_whole
from pykubelet.pod.container.hash import text_checksum
from pykubelet.pod.resize.allocation import Allocation, Allocations

log = logging.getLogger(__name__)

ALLOCATED: Final = "allocated_pods_state"
ACTUATED: Final = "actuated_pods_state"
_RETRY: Final = 10.0


class _Entry(Struct, frozen=True):
    containers: Mapping[str, ResourceRequirements] = field(name="ContainerResources", default={})


class _Entries(Struct, frozen=True):
    entries: Mapping[str, _Entry] = {}


class _File(Struct, frozen=True):
    data: str
    checksum: int


class AllocationFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wanted = self._written = Allocations()
        self._news = asyncio.Event()
        self._told = asyncio.Condition()
        self._trouble = ""

    def load(self) -> Allocations:
        self._written = self._wanted = Allocations(allocated=self._read(ALLOCATED), actuated=self._read(ACTUATED))
        return self._wanted

    def save(self, allocations: Allocations) -> None:
        self._wanted = allocations
        self._news.set()

    async def saved(self) -> None:
        async with self._told:
            wanted, self._trouble = self._wanted, ""
            await self._told.wait_for(lambda: self._trouble or self._written is wanted or self._written is self._wanted)
            if self._trouble:
                raise Retry(self._trouble)

    async def run(self) -> None:
        """Write down what was said, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            wanted, trouble = self._wanted, ""
            try:
                await asyncio.to_thread(self._write_changed, wanted)
                self._written = wanted
            except OSError as error:
                trouble = f"what pods were given cannot be written down in {self._folder}: {error.strerror}"
                log.error("%s", trouble)
                self._news.set()
            async with self._told:
                self._trouble = trouble
                self._told.notify_all()
            if trouble:
                await asyncio.sleep(_RETRY)

    # --- inside

    def _write_changed(self, wanted: Allocations) -> None:
        if wanted.allocated != self._written.allocated:
            self._write(ALLOCATED, wanted.allocated)
            self._written = replace(self._written, allocated=wanted.allocated)
        if wanted.actuated != self._written.actuated:
            self._write(ACTUATED, wanted.actuated)

    def _write(self, name: str, pods: Mapping[str, Allocation]) -> None:
        entries = _Entries(entries={uid: _Entry(containers=given) for uid, given in pods.items()})
        data = codec.encode(entries).decode()
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_whole(self._folder / name, codec.encode(_File(data=data, checksum=text_checksum(data))))

    def _read(self, name: str) -> dict[str, Allocation]:
        path = self._folder / name
        try:
            file = codec.decode(_File, path.read_bytes())
            if text_checksum(file.data) != file.checksum:
                raise DecodeError("its checksum is another")
            entries = codec.decode(_Entries, file.data).entries
        except FileNotFoundError:
            return {}
        except (OSError, DecodeError) as error:
            put_aside(path, error, "each pod is taken to have what it asks for now")
            return {}
        return {uid: entry.containers for uid, entry in entries.items()}

"""Who has which processors and memory, on disk: one folder with a file for each of the two."""

import asyncio
from pathlib import Path

from pykubelet.base.errors import Invalid, Retry
from pykubelet.base.whole_files import write_whole
from pykubelet.host.threads import in_thread


class StateFiles:
    """The PinningStore in one folder, which has to be there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = asyncio.Lock()

    def path(self, name: str) -> Path:
        return self._folder / name

    def read(self, name: str) -> bytes | None:
        """Blocks. None: there is no such file. Raises Invalid when it cannot be read."""
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Invalid(f"{self.path(name)}: cannot be read: {error.strerror}") from None

    def put(self, name: str, content: bytes) -> None:
        """Blocks. Raises Retry."""
        path = self.path(name)
        try:
            write_whole(path, content)
        except OSError as error:
            raise Retry(f"{path}: cannot be written: {error.strerror}") from None

    async def write(self, name: str, content: bytes) -> None:
        async with self._turn:
            await in_thread(self.put, name, content)

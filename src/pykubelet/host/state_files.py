"""Small files that have to be whole or not there: a state is written beside the old one and takes its place."""

import asyncio
import os
from pathlib import Path

from pykubelet.base.errors import Invalid, Retry
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
        draft = path.with_name(f".{name}.tmp")
        try:
            with open(draft, "wb", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError as error:
            raise Retry(f"{path}: cannot be written: {error.strerror}") from None

    async def write(self, name: str, content: bytes) -> None:
        async with self._turn:
            await in_thread(self.put, name, content)

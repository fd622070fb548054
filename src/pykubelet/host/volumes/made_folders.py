"""Folders of claimed volumes that this agent has made on this machine: written down, so that it can take them away, and
nothing else, when their volume goes."""

import os
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.base.open_folder import make_open_folder
from pykubelet.base.removal import sweep
from pykubelet.base.whole_files import write_whole
from pykubelet.host.threads import in_thread

FOLDER: Final = "host-path-volumes"
_LONGEST: Final = 4096


class MadeFolders:
    """`root` is the agent's; a file below it for each volume says where its folder is."""

    def __init__(self, root: str) -> None:
        self._records = os.path.join(root, FOLDER)

    async def make(self, volume: str, path: str) -> None:
        """What is there already is somebody else's, and left as it is. Raises OSError, Invalid."""
        record = self._record(volume)

        def make() -> None:
            if not os.path.lexists(path):
                os.makedirs(self._records, 0o700, exist_ok=True)
                write_whole(Path(record), path.encode())
                make_open_folder(path)

        await in_thread(make)

    async def has_any(self) -> bool:
        def look() -> bool:
            try:
                with os.scandir(self._records) as found:
                    return any(True for _ in found)
            except FileNotFoundError:
                return False

        return await in_thread(look)

    async def remove(self, volume: str) -> None:
        """With all that is in it. Harmless when there is none that we have made. Raises Retry, Invalid."""
        record = self._record(volume)

        def remove() -> None:
            try:
                fd = os.open(record, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                return
            with os.fdopen(fd, "rb") as file:
                path = os.fsdecode(file.read(_LONGEST))
            if not os.path.isabs(path) or not os.path.basename(path).startswith(f"{volume}_"):
                raise Invalid(f"{path} is no folder of volume {volume}: it stays as it is")
            sweep(path)
            os.unlink(record)

        try:
            await in_thread(remove)
        except PykubeletError:
            raise
        except OSError as error:
            raise Retry(f"the folder of volume {volume} cannot be removed: {error}") from None

    def _record(self, volume: str) -> str:
        if not volume or "/" in volume or "\0" in volume or volume.startswith("."):
            raise Invalid(f"{volume!r} is no name of a volume")
        return os.path.join(self._records, volume)

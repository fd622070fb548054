"""When the last shutdown that was waited for began and ended: a file in upstream's form, which outlives the boot."""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pykubelet.api.struct import rfc3339_nano
from pykubelet.base.whole_files import write_whole
from pykubelet.host.threads import in_thread

log = logging.getLogger(__name__)

_NAME: Final = "graceful_node_shutdown_state"
_NEVER: Final = "0001-01-01T00:00:00Z"
_LONGEST: Final = 4096


class ShutdownState:
    """The ShutdownTimes port."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME

    async def load(self) -> tuple[datetime | None, datetime | None]:
        return await in_thread(self._read)

    async def save(self, began: datetime, ended: datetime | None) -> None:
        await in_thread(self._write, began, ended)

    def _read(self) -> tuple[datetime | None, datetime | None]:
        try:
            with self._path.open("rb") as file:
                said = json.loads(file.read(_LONGEST))
            return _moment(said["startTime"]), _moment(said["endTime"])
        except FileNotFoundError:
            return None, None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            log.warning("%s cannot be read, and is not believed: %s", self._path, error)
            return None, None

    def _write(self, began: datetime, ended: datetime | None) -> None:
        said = {"startTime": rfc3339_nano(began), "endTime": rfc3339_nano(ended) if ended else _NEVER}
        write_whole(self._path, json.dumps(said).encode(), 0o644)


def _moment(text: Any) -> datetime | None:
    if text == _NEVER:
        return None
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)

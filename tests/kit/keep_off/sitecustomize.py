"""Keeps whatever Python runs in a test off the folders of a real node: it is refused, and it is written down who tried.

Every Python that a test starts imports this by its name, for `kit.hermetic` puts the folder into PYTHONPATH. So it
stands alone, and it is quick.
"""

import errno
import os
import sys
import traceback
from typing import Any, Final

FOLDERS: Final = "PYKUBELET_TEST_KEEP_OFF"
"""The variable that names them, with colons between."""
REPORT: Final = "PYKUBELET_TEST_TRESPASSES"
"""The variable that names the file in which a trespass is written down; it may change."""
_EVENTS: Final = frozenset(
    {
        "open",
        "sqlite3.connect",
        "os.listdir",
        "os.scandir",
        "os.mkdir",
        "os.rename",
        "os.remove",
        "os.rmdir",
        "os.symlink",
        "os.link",
        "os.chmod",
        "os.chown",
        "os.truncate",
        "os.utime",
        "os.chdir",
    }
)


def keep_off() -> None:
    folders = tuple(os.environ[FOLDERS].split(":"))
    below = tuple(f"{folder}/" for folder in folders)

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        for path in arguments[:2]:
            if isinstance(path, str) and path.startswith(folders) and f"{path}/".startswith(below):
                _tell(f"{event} {path}")
                raise PermissionError(errno.EACCES, "this belongs to the node that runs the tests", path)

    sys.addaudithook(look)


def _tell(what: str) -> None:
    frames = traceback.extract_stack()[:-2]
    way = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames[-6:]))
    descriptor = os.open(os.environ[REPORT], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, f"{' '.join(sys.argv[:4])}: {what} from {way}\n".encode())
    finally:
        os.close(descriptor)


if __name__ == "sitecustomize" and FOLDERS in os.environ:
    keep_off()

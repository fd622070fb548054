"""A folder that is memory, for what must not lie on a disk: it survives the agent, but not the machine."""

import ctypes
import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Invalid

_SHARED: Final = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in there
_TMPFS: Final = 0x01021994
_RAMFS: Final = 0x858458F6

_libc = ctypes.CDLL(None, use_errno=True)


def memory_folder(root: Path, places: Iterable[Path] | None = None) -> Path | None:
    """For the runtime whose state is in `root`: always the same one, which nobody else may enter. None: this machine
    has no such place. Raises Invalid where somebody else was there first."""
    name = "pykubelet-" + hashlib.sha256(os.fsencode(root.absolute())).hexdigest()[:16]
    for place in _places() if places is None else places:
        if os.access(place, os.W_OK | os.X_OK) and is_memory(place):
            return _made(place / name)
    return None


def is_memory(path: Path) -> bool:
    facts = (ctypes.c_long * 32)()
    return _libc.statfs(os.fsencode(path), ctypes.byref(facts)) == 0 and facts[0] in (_TMPFS, _RAMFS)


def _places() -> list[Path]:
    """Those first that no container sees, whatever it shares with this machine."""
    if os.getuid() == 0:
        return [Path("/run"), _SHARED]
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    return [*([Path(named)] if named else []), Path(f"/run/user/{os.getuid()}"), _SHARED]


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) != 0o700:
        raise Invalid(f"{folder} is not ours alone, and environments of containers would lie in there: remove it")
    return folder
